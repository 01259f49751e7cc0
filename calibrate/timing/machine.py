"""The machine that is timed: a GPU or the CPU, what it is called, and what its cache and memory hold."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from calibrate.timing.dtypes import PLAIN_BYTES
from sim.catalog import Gpu, load_gpu
from sim.errors import CalibrationError, CatalogError

_CPU_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_CACHE_WHERE_UNKNOWN = 64 * 2**20
_CATALOG_NAMES = {  # what CUDA calls cards whose catalog name it does not contain
    "A100-SXM4-40GB": "A100-40GB-SXM",
    "A100-SXM4-80GB": "A100-80GB-SXM",
    "A100-PCIE-40GB": "A100-40GB-PCIe",
    "A100 80GB PCIe": "A100-80GB-PCIe",
    "H100 80GB HBM3": "H100-80GB-SXM",
    "H100 PCIe": "H100-80GB-PCIe",
    "RTX PRO 6000 Blackwell Server Edition": "RTX PRO 6000",
}
_BF16_SINCE = (8, 0)
FP8_SINCE = (8, 9)


@dataclass(frozen=True, slots=True)
class Machine:
    """One device. `capability` is None on a CPU."""

    kind: str  # cpu or cuda: also what torch calls the device
    name: str  # the table's `gpu`
    gpu: Gpu | None  # its catalog entry, where there is one
    cache_bytes: int  # last level
    capability: tuple[int, int] | None
    engine: str  # the table's `engine`
    multiprocessors: int = 1

    @property
    def has_fp8(self) -> bool:
        """Whether tensor cores multiply fp8."""
        return self.capability is not None and self.capability >= FP8_SINCE


def open_machine(kind: str, dtype: str, threads: int | None = None) -> Machine:
    """Prepare torch on the device and describe it. Call it before anything else imports torch, so threads are pinned.

    Raises CalibrationError where torch or the GPU is missing, or the chip lacks `dtype`.
    """
    os.environ.setdefault("OMP_PROC_BIND", "true")  # read once, when torch loads OpenMP
    try:
        import torch
    except ImportError:
        raise CalibrationError("calibrate needs torch; install it with: pip install 'kvcliff[calibrate]'") from None
    assert dtype in PLAIN_BYTES
    return _cuda(dtype) if kind == "cuda" else _cpu(threads or len(os.sched_getaffinity(0)), torch.__version__)


def free_bytes(machine: Machine) -> int:
    """Return the memory that can be had now."""
    if machine.kind == "cuda":
        import torch

        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info()[0])
    return _available_memory_bytes()


def _cuda(dtype: str) -> Machine:
    import torch

    if not torch.cuda.is_available():
        raise CalibrationError(f"--device cuda: torch {torch.__version__} sees no CUDA GPU; use --device cpu")
    properties = torch.cuda.get_device_properties(0)
    capability = (properties.major, properties.minor)
    if dtype == "bf16" and capability < _BF16_SINCE:
        raise CalibrationError(f"--dtype bf16: {properties.name} has no bf16; use --dtype fp16")
    gpu = catalogued(properties.name)
    return Machine(
        kind="cuda",
        name=properties.name if gpu is None else gpu.name,
        gpu=gpu,
        cache_bytes=int(properties.L2_cache_size) or _CACHE_WHERE_UNKNOWN,
        capability=capability,
        engine=f"torch {torch.__version__}",
        multiprocessors=int(properties.multi_processor_count),
    )


def _cpu(threads: int, version: str) -> Machine:
    import torch

    torch.set_num_threads(threads)
    return Machine(
        kind="cpu",
        name=f"cpu: {_cpu_name()}, {threads} threads",
        gpu=None,
        cache_bytes=_last_level_cache_bytes(),
        capability=None,
        engine=f"torch {version}",
    )


def catalogued(cuda_name: str) -> Gpu | None:
    """Return the catalog's entry for the name CUDA gives a card, None where there is none."""
    short = cuda_name.removeprefix("NVIDIA ").strip()
    try:
        return load_gpu(_CATALOG_NAMES.get(short, short))
    except CatalogError:
        return None


def _cpu_name() -> str:
    found = re.search(r"^model name\s*: (.*)$", _text(Path("/proc/cpuinfo")), re.MULTILINE)
    return found[1].strip() if found else "unknown"


def _last_level_cache_bytes() -> int:
    sizes = [_text(index / "size").strip() for index in sorted(_CPU_CACHE.glob("index*"))]
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    return max((int(size[:-1]) * units[size[-1]] for size in sizes if size[-1:] in units), default=_CACHE_WHERE_UNKNOWN)


def _available_memory_bytes() -> int:
    found = re.search(r"^MemAvailable:\s*(\d+) kB", _text(Path("/proc/meminfo")), re.MULTILINE)
    return int(found[1]) * 2**10 if found else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
