"""How busy other programs kept the CPUs while something was measured: they make what is measured longer."""

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic

TOO_BUSY_CPUS = 0.5
_STAT = Path("/proc/stat")
_IDLE_FIELDS = (3, 4)  # idle and waiting for I/O, of the line's numbers
_GUEST_FROM = 8  # guests' time is in the user's already


def watch_others() -> Callable[[], float]:
    """Return a function that says how many CPUs others kept busy since this call, on average.

    Where the system keeps no account of that, it is the load average at the start.
    """
    started_s, busy_s, own_s, load = monotonic(), _busy_s(), _own_s(), os.getloadavg()[0]

    def others() -> float:
        now_busy_s = _busy_s()
        if busy_s is None or now_busy_s is None:
            return load
        return max(0.0, now_busy_s - busy_s - (_own_s() - own_s)) / max(monotonic() - started_s, 1e-9)

    return others


def busy_ticks(stat: str) -> int | None:
    """Return the clock ticks in which any CPU did something, from the text of /proc/stat."""
    first = stat.partition("\n")[0].split()
    if not first or first[0] != "cpu":
        return None
    numbers = [int(word) for word in first[1:]][:_GUEST_FROM]
    return sum(ticks for place, ticks in enumerate(numbers) if place not in _IDLE_FIELDS)


def _busy_s() -> float | None:
    try:
        ticks = busy_ticks(_STAT.read_text(encoding="utf-8"))
    except OSError:
        return None
    return None if ticks is None else ticks / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    times = os.times()
    return times.user + times.system
