"""Python's cyclic garbage collector, off while an engine runs.

It walks everything alive again and again, a fifth of the time of a long run, and finds nothing: what a turn leaves
behind hangs together without cycles, so that reference counts free it.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep the collector off in this block, and leave it as it was."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
