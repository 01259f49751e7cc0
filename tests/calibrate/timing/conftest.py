"""Without a GPU, Triton kernels run in Triton's interpreter, which must be asked for before anything imports it."""

import os
from pathlib import Path

if not Path("/dev/nvidia0").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")
