"""The same variants of several scenarios side by side: each remedy, on and off, under each kind of traffic.

Compared at each scenario's largest load: answers within its promise, p99 TTFT, and what became of turns that got none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.check_spec import BASE_VARIANT
from sim.results.metrics import NOT_ANSWERED
from sim.results.points import NAN, Row, number
from sim.run import Result

_MOST_SCENARIOS = 4  # columns that a page holds
Finished = Sequence[tuple[Result, Mapping[str, Result]]]


@dataclass(frozen=True, slots=True)
class RemedyCell:
    """What a variant did under one kind of traffic; NaN where it was not run."""

    answers_in_time_per_s: float = NAN
    ttft_p99_s: float = NAN
    not_answered_share: float = 0.0  # rejected, shed or lost, of the turns that came to an end
    crashes: int = 0


@dataclass(frozen=True, slots=True)
class Remedies:
    """A row a variant, a column a scenario."""

    scenarios: tuple[str, ...]
    loads: tuple[str, ...]  # in words
    rows: dict[str, tuple[RemedyCell, ...]]


def remedies_of(finished: Finished) -> Remedies | None:
    """Return the comparison of two to four scenarios; None unless most of their variants are in several of them."""
    named = [{BASE_VARIANT: result, **variants} for result, variants in finished]
    names = list(dict.fromkeys(name for one in named for name in one))
    shared = [name for name in names if sum(name in one for one in named) > 1]
    if not 2 <= len(named) <= _MOST_SCENARIOS or len(shared) < 2 or 2 * len(shared) <= len(names):
        return None
    return Remedies(
        tuple(result.deployment.scenario.name for result, _ in finished),
        tuple(f"{result.points[-1]['sessions']:g} {result.load_unit}" for result, _ in finished),
        {name: tuple(_cell(one.get(name)) for one in named) for name in names},
    )


def _cell(result: Result | None) -> RemedyCell:
    if result is None:
        return RemedyCell()
    point = result.points[-1]
    lost = sum(_count(point, name) for name in NOT_ANSWERED)
    ended = _count(point, "requests") + lost
    return RemedyCell(
        number(point, "goodput_requests_per_s"),
        number(point, "ttft_p99_s"),
        lost / ended if ended else 0.0,
        round(_count(point, "crashes")),
    )


def _count(point: Row, name: str) -> float:
    value = number(point, name)
    return value if value > 0 else 0.0
