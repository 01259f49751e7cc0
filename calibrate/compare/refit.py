"""One term at a time: the value that makes the error over all points and metrics least.

Factors lie between 1/4 and 4, added seconds between nothing and what the fastest measured token or first token leaves
room for; both within what such an engine can be. A coarse grid, then the neighbourhood of its best value halved again
and again: the error has corners, and more than one valley near the knee. All variants meet the same requests.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from calibrate.compare.errors import Metrics, loss
from calibrate.compare.simulate import Asked, Bench
from calibrate.compare.terms import CLIENT, HOST, TERMS, Change, Term, is_possible

WIDEST = 4.0  # a factor, either way
_COARSE = 3  # values on either side of no change
_HALVINGS = 5
_BISECTIONS = 12
_SAME = 1e-9

Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Refitted:
    """What re-fitting one term does."""

    term: Term
    value: float
    loss: float
    predicted: Sequence[Metrics]  # one a point
    bound: bool = False  # the best value is the last that is allowed
    idle: bool = False  # no value changes anything at these loads

    @property
    def change(self) -> Change:
        """The change it stands for."""
        return Change(self.term.name, self.value)

    @property
    def shown(self) -> str:
        """The value as people read it."""
        return self.term.shown(self.value)


@dataclass(frozen=True, slots=True)
class _Range:
    """Values of a term by their place on the way to its ends: -1 is `low` below no change, 1 `high` above, 0 none."""

    term: Term
    low: float
    high: float

    def at(self, place: float) -> float:
        if not self.term.added:
            return math.exp(place * math.log(self.low if place < 0 else self.high))
        # finer near 0, where most are
        return (-self.low if place < 0 else self.high) * place**2


def refit(
    bench: Bench,
    measured: Sequence[Metrics],
    names: Sequence[str],
    told: Told = lambda _: None,
    given: tuple[Change, ...] = (),
) -> list[Refitted]:
    """Return each term at its best value, in the order of `names`; `given` changes stand beside it."""
    (base,) = bench.metrics([Asked(given)])
    searches = [_Search(_range(bench, TERMS[name], measured, given), base, measured) for name in names]
    for round_number in range(_HALVINGS + 1):
        places = [search.places(round_number) for search in searches]
        asked = [
            Asked((*given, Change(search.span.term.name, search.span.at(place))))
            for search, own in zip(searches, places, strict=True)
            for place in own
        ]
        found = iter(bench.metrics(asked, told))
        for search, own in zip(searches, places, strict=True):
            for place in own:
                search.tell(place, next(found))
    return [search.result() for search in searches]


def simulations_of(names: Sequence[str]) -> int:
    """Return how many variants a refit asks for at most."""
    return len(names) * (2 * _COARSE + 2 * _HALVINGS)


class _Search:
    """The search of one term: places tried, their losses and predictions; that of no change is known from the start."""

    def __init__(self, span: _Range, base: Sequence[Metrics], measured: Sequence[Metrics]) -> None:
        self.span = span
        self._measured = measured
        self._known: dict[float, tuple[float, Sequence[Metrics]]] = {}
        self.tell(0.0, base)

    def places(self, round_number: int) -> list[float]:
        """Return where to look next."""
        if not round_number:
            sides = [side for side, width in ((-1, self._width(-1)), (1, self._width(1))) if width > _SAME]
            return [side * (step + 1) / _COARSE for side in sides for step in range(_COARSE)]
        if self._is_idle():
            return []
        best, step = self._best(), 0.5**round_number / _COARSE
        near = (best - step, best + step)
        return [place for place in near if abs(place) <= 1 and self._width(place) > _SAME and place not in self._known]

    def tell(self, place: float, predicted: Sequence[Metrics]) -> None:
        """Take what a value gives."""
        self._known[place] = (loss(self._measured, predicted), predicted)

    def result(self) -> Refitted:
        """Return the best value; that of no change where none is better."""
        best = self._best()
        found, predicted = self._known[best]
        return Refitted(self.span.term, self.span.at(best), found, predicted, abs(best) == 1, self._is_idle())

    def _best(self) -> float:
        return min(self._known, key=lambda place: (self._known[place][0], abs(place)))

    def _is_idle(self) -> bool:
        losses = [found for found, _ in self._known.values()]
        return max(losses) - min(losses) < _SAME

    def _width(self, place: float) -> float:
        return abs(self.span.at(math.copysign(1, place)) - self.span.at(0)) if place else 1.0


def _range(bench: Bench, term: Term, measured: Sequence[Metrics], given: tuple[Change, ...]) -> _Range:
    def farthest(value: float) -> float:
        def possible(share: float) -> bool:
            return is_possible(bench.base, (*given, Change(term.name, _between(term, value, share))), bench.place)

        return _farthest(possible)

    if not term.added:
        low = math.exp(farthest(1 / WIDEST) * math.log(WIDEST))
        high = math.exp(farthest(WIDEST) * math.log(WIDEST))
        return _Range(term, low, high)
    if term.name == CLIENT:
        least_s = min(bench.base.engine.frontend.per_request_s, 1e9)
        return _Range(term, least_s, _least(measured, ("ttft_p50_s", "ttft_mean_s", "e2e_mean_s", "e2e_p50_s")))
    assert term.name == HOST
    own_s = getattr(bench.base.step_times.steps, "step_overhead_s", 0.0)
    return _Range(term, own_s, _least(measured, ("tpot_p50_s", "tpot_mean_s", "itl_p50_s", "itl_mean_s", "ttft_p50_s")))


def _between(term: Term, value: float, share: float) -> float:
    return share * value if term.added else value**share


def _farthest(possible: Callable[[float], bool]) -> float:
    """Return the largest share of the way that is possible."""
    if possible(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if possible(middle) else (low, middle)
    return low


def _least(measured: Sequence[Metrics], names: Sequence[str]) -> float:
    """Return the least of the first metric that each point knows: no request can wait longer for one part of it."""
    known = [next((point[name] for name in names if point.get(name, 0.0) > 0), None) for point in measured]
    return min((value for value in known if value is not None), default=0.0)
