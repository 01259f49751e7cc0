"""A sweep in the terminal: a row a combination with its knee, SLO capacity, their cause, and TTFT at a few loads."""

import math
from collections.abc import Sequence
from statistics import median

from rich import box
from rich.table import Table
from rich.text import Text

from sim.report.sentences import amount
from sim.report.sweep_curves import TRACE_UNIT
from sim.report.sweep_rows import Swept
from sim.report.terminal import plain_console
from sim.results.points import number
from sim.run import Result
from sim.sweep.combinations import short_names, shown

WIDTH = 80
BLANKS = 2  # beside each column
CAUSE = "cause"
UNKNOWN = "-"
LOAD_WIDTH = 14 + BLANKS  # of `TTFT p50 / p99`


def print_sweep(swept: Sequence[Swept]) -> None:
    """Print the table, and below it why anything is missing."""
    console = plain_console()
    console.print(sweep_table(swept))
    scenarios = len({one.combination.scenario for one in swept})
    for one in swept:
        color = "red" if one.status == "failed" else "yellow"
        for line in one.errors:
            status = "" if one.status == "refused" else f" {one.status}"  # then the line says it
            console.print(Text.assemble((f"{one.combination.label(scenarios)}{status}: ", color), line))
    if any(one.refused for one in swept):
        console.print("Where turns are refused the SLO is missed, and no knee is claimed.", style="dim")


def sweep_table(swept: Sequence[Swept]) -> Table:
    """Return a table of the sweep; as many loads as fit 80 columns beside what was varied, but one at least."""
    varied, found = _varied(swept), _found(swept)
    columns = varied | found
    taken = sum(max(map(len, "\n".join([title, *values]).split("\n"))) + BLANKS for title, values in columns.items())
    loads = shown_loads(swept, max(1, (WIDTH - taken) // LOAD_WIDTH))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for title in varied:
        table.add_column(title, overflow="fold")
    for title in found:
        table.add_column(title, justify="left" if title == CAUSE else "right", no_wrap=True)
    for load in loads:
        table.add_column(f"TTFT p50 / p99{_at(swept, load)}", justify="right", no_wrap=True)
    for one, *values in zip(swept, *columns.values(), strict=True):
        points = {point["sessions"]: point for point in one.result.points} if one.result is not None else {}
        pairs = [_pair(points.get(load, {})) for load in loads]
        table.add_row(*map(Text, [*values, *pairs]), style="dim" if one.result is None else None)
    return table


def _at(swept: Sequence[Swept], load: int) -> str:
    """Return at which load, on a line of its own; a trace is one load, and which goes without saying."""
    units = dict.fromkeys(one.result.load_unit for one in swept if one.result is not None)
    return "" if list(units) == [TRACE_UNIT] else f"\nat {amount(load, ' / '.join(units))}"


def _varied(swept: Sequence[Swept]) -> dict[str, list[str]]:
    """Return the cells of each column that says what was varied, by its title."""
    scenarios = [one.combination.scenario for one in swept]
    names = short_names(swept[0].combination.settings)
    columns = {"scenario": scenarios} if len(set(scenarios)) > 1 or not names else {}
    return columns | {
        _broken(name): [shown(one.combination.settings[key]) for one in swept] for key, name in names.items()
    }


def _broken(name: str) -> str:
    """Break a long name after the underscore that is nearest its middle."""
    ends = [at + 1 for at, letter in enumerate(name) if letter == "_"]
    if len(name) <= 8 or not ends:
        return name
    at = min(ends, key=lambda end: abs(end - len(name) / 2))
    return f"{name[:at]}\n{name[at:]}"


def shown_loads(swept: Sequence[Swept], most: int) -> list[int]:
    """Return up to `most` loads: the tested one nearest the middle of all knees, the smallest, the largest."""
    results = [one.result for one in swept if one.result is not None]
    levels = sorted({int(point["sessions"]) for result in results for point in result.points})
    if not levels:
        return []
    knees = [result.knee.sessions for result in results if result.knee.sessions is not None]
    middle = median(knees) if knees else median(levels)
    nearest = min(levels, key=lambda level: abs(level - middle))
    return sorted(list(dict.fromkeys([nearest, levels[0], levels[-1]]))[:most])


def _found(swept: Sequence[Swept]) -> dict[str, list[str]]:
    """Return the cells of each column that says what was found, by its title; the cause if it was looked for."""
    columns = {"KV\nknee": [_knee(one) for one in swept], "SLO\nup to": [_capacity(one) for one in swept]}
    causes = [_cause(one) for one in swept]
    return columns | ({CAUSE: causes} if set(causes) != {UNKNOWN} else {})


def _knee(one: Swept) -> str:
    """Return `14 (13)`, as tested and by bisection; `> 48` for none up to the largest load tested."""
    if one.result is None or one.refused or not one.result.points:  # what is refused cannot be slow
        return UNKNOWN
    knee, doubt = one.result.knee, _doubt(one.result)
    if one.result.deployment.trace is not None:
        return f"{'no' if knee.sessions is None else 'yes'}{doubt}"
    if knee.sessions is None:
        return f"> {one.result.points[-1]['sessions']:g}{doubt}"
    refined = "" if knee.refined_sessions == knee.sessions else f" ({knee.refined_sessions})"
    return f"{knee.sessions}{refined}{doubt}"


def _capacity(one: Swept) -> str:
    """Return the load up to which the SLO holds, `< 1` where it does not hold at the smallest tested."""
    if one.result is None or not one.result.points:
        return UNKNOWN
    result, slo, doubt = one.result, one.result.deployment.slo, _doubt(one.result)
    if slo.ttft_p99_s is None and slo.tpot_p99_s is None:
        return UNKNOWN
    if result.deployment.trace is not None:
        return f"{'missed' if result.slo_sessions is None else 'met'}{doubt}"
    none = f"< {result.points[0]['sessions']:g}"
    return f"{result.slo_sessions or none}{doubt}"


def _cause(one: Swept) -> str:
    """Return what the knee comes from; where there is none, what breaks the SLO."""
    cause = None if one.result is None else one.result.cause
    if cause is None:
        return UNKNOWN
    return _broken(("" if cause.past_kv_knee else "SLO: ") + (cause.name or "no single limit"))


def _doubt(result: Result) -> str:
    """Return a question mark where a load failed: it may be past the knee, or break the SLO."""
    return "?" if result.failed else ""


def _pair(point: dict[str, float]) -> str:
    """Return p50 and p99 of TTFT in the unit of the larger: `401 / 500 ms`, `0.86 / 1.61 s`."""
    low_s, high_s = number(point, "ttft_p50_s"), number(point, "ttft_p99_s")
    if math.isnan(low_s) or math.isnan(high_s):
        return "-"
    scale, unit = (1e3, "ms") if high_s < 0.9995 else (1, "s")
    return f"{_short(low_s * scale)} / {_short(high_s * scale)} {unit}"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"
