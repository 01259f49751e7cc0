"""What a sweep's chart shows: a curve a combination over the loads, or over one key where there is one load only."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sim.report.refusals import refused, share_refused, turns_word
from sim.report.sentences import amount
from sim.report.sweep_rows import Swept
from sim.results.points import Row, by_sessions, number
from sim.run import Result
from sim.sweep.combinations import Combination, short_names, shown

METRIC = "ttft_p99_s"
TRACE_UNIT = "trace"
PLACE = "x"  # where a row of a curve stands on the axis


class SweepCurve(NamedTuple):
    """The points of one curve in ascending order, and which of them to ring."""

    values: tuple[str, ...]  # of what was varied; empty for the only curve
    remark: str  # on the whole of it, for the legend
    rows: list[Row]
    ringed: list[Row]  # at the KV knee; over a key, all past it


@dataclass(frozen=True, slots=True)
class SweepCurves:
    """All curves of a sweep, and what has none."""

    varied: list[str]  # what the values of a curve are of
    axis: str
    key: str | None  # what the axis counts where that is no load
    load: str  # the one load there is, or empty
    curves: list[SweepCurve]
    missing: list[str]  # each with its reason


def sweep_curves(swept: Sequence[Swept]) -> SweepCurves:
    """Return what to draw of a sweep; a combination without a known p99 is missing."""
    drawn = [(one.combination, one.result) for one in swept if one.result is not None and _known(one.result)]
    names = short_names(swept[0].combination.settings)
    loads = {(point["sessions"], result.load_unit) for _, result in drawn for point in result.points}
    key = _numeric_key([own.settings for own, _ in drawn]) if len(loads) == 1 else None
    several = len({one.combination.scenario for one in swept}) > 1 or not names
    told = [name for name in names if name != key]

    def values(own: Combination) -> tuple[str, ...]:
        return (*([own.scenario] if several else []), *(shown(own.settings[name]) for name in told))

    if key is None:
        curves = [_over_loads(values(own), result) for own, result in drawn]
    else:
        groups: dict[tuple[str, ...], list[tuple[float, Result]]] = {}
        for own, result in drawn:
            groups.setdefault(values(own), []).append((own.settings[key], result))
        curves = [_over_key(row, found) for row, found in groups.items()]
    without = [one for one in swept if one.result is None or not _known(one.result)]
    at_key = [f"{names[key]} {shown(one.combination.settings[key])}" if key is not None else "" for one in without]
    return SweepCurves(
        varied=[*(["scenario"] if several else []), *(names[name] for name in told)],
        axis=" / ".join(dict.fromkeys(unit for _, unit in loads)) if key is None else names[key],
        key=None if key is None else names[key],
        load=" / ".join(amount(*load) for load in loads if load[1] != TRACE_UNIT) if len(loads) == 1 else "",
        curves=curves,
        missing=[
            f"{', '.join(filter(None, [*values(one.combination), at]))}: {_why(one)}"
            for one, at in zip(without, at_key, strict=True)
        ],
    )


def _known(result: Result) -> bool:
    return any(not math.isnan(number(point, METRIC)) for point in result.points)


def _why(one: Swept) -> str:
    if one.result is None or one.result.failed:
        return one.status
    return f"all {turns_word(one.result, 0)} refused" if one.refused else "nothing answered"


def _numeric_key(settings: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the key with most values, two at least, all of them numbers from zero up."""
    found = None
    most = 1
    for key in settings[0] if settings else ():
        values = {each[key] for each in settings if type(each[key]) in {int, float}}
        if len(values) > most and all(type(each[key]) in {int, float} and each[key] >= 0 for each in settings):
            found, most = key, len(values)
    return found


def _over_loads(values: tuple[str, ...], result: Result) -> SweepCurve:
    rows: list[Row] = [{**point, PLACE: point["sessions"]} for point in by_sessions(result.points)]
    refusals, knee = share_refused(result), result.knee.sessions
    if refusals or knee is None:  # what is refused cannot be slow
        return SweepCurve(values, refusals, rows, [])
    return SweepCurve(values, f"knee {knee}", rows, [row for row in rows if row[PLACE] == knee])


def _over_key(values: tuple[str, ...], found: Sequence[tuple[float, Result]]) -> SweepCurve:
    rows: list[Row] = []
    ringed: list[Row] = []
    refusing: list[str] = []
    for place, result in sorted(found, key=lambda one: one[0]):
        row = {**result.points[0], PLACE: place}
        rows.append(row)
        if refused(row):
            refusing.append(shown(place))
        elif result.knee.sessions is not None:
            ringed.append(row)
    remark = f"{turns_word(found[0][1], 0)} refused at {', '.join(refusing)}" if refusing else ""
    return SweepCurve(values, remark, rows, ringed)
