"""Foretells how long a point will take, from what its like took: what would eat the budget is left out by name."""

from calibrate.timing.points import Point
from calibrate.timing.work import Work

_FIRST_GUESS = {"cpu": (50e9, 5e9), "cuda": (50e12, 300e9)}  # FLOPs and bytes a second
_OVERHEAD_S = {"cpu": 500e-6, "cuda": 50e-6}  # of a call, however small
_CALLS = 5  # a first one, a warm-up, three samples


class Pace:
    """Rates of this device, corrected by the last point of each kind."""

    def __init__(self, kind: str) -> None:
        self._flops_per_s, self._bytes_per_s = _FIRST_GUESS[kind]
        self._overhead_s = _OVERHEAD_S[kind]
        self._factor: dict[tuple[str, ...], float] = {}

    def expected_s(self, point: Point, work: Work) -> float:
        """Return seconds to make the inputs of `point` once and to time it as seldom as possible."""
        call_s = self._overhead_s + self._raw_s(work) * self._factor.get(_kind(point), 1.0)
        return call_s * _CALLS + work.tensor_bytes / self._bytes_per_s

    def bytes_in(self, seconds: float) -> float:
        """Return how many bytes of inputs can be made in that time."""
        return seconds * self._bytes_per_s

    def learn(self, point: Point, work: Work, time_s: float) -> None:
        """Remember what one call took."""
        if self._raw_s(work) > 0:
            self._factor[_kind(point)] = max(time_s - self._overhead_s, 0.0) / self._raw_s(work)

    def _raw_s(self, work: Work) -> float:
        return max(work.flops / self._flops_per_s, work.tensor_bytes / self._bytes_per_s)


def _kind(point: Point) -> tuple[str, ...]:
    return point.operation, point.part, point.weight_dtype, point.kv_cache_dtype
