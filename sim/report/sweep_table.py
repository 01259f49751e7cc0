"""A sweep in the terminal: a row a combination with its knee, its SLO capacity, and TTFT at a few loads."""

import math
from collections.abc import Sequence
from statistics import median

from rich import box
from rich.table import Table
from rich.text import Text

from sim.report.sentences import amount
from sim.report.sweep_rows import Swept
from sim.report.terminal import plain_console
from sim.results.points import number
from sim.sweep.combinations import short_names, shown

WIDTH = 80
BLANKS = 2  # beside each column
LOAD_WIDTH = 14 + BLANKS  # of `TTFT p50 / p99`
KNEE_WIDTH = 10 + 2 * BLANKS  # of knee and SLO capacity together


def print_sweep(swept: Sequence[Swept]) -> None:
    """Print the table, and below it why anything is missing."""
    console = plain_console()
    console.print(sweep_table(swept))
    scenarios = len({one.combination.scenario for one in swept})
    for one in swept:
        color = "red" if one.status == "failed" else "yellow"
        for line in one.errors:
            console.print(Text.assemble((f"{one.combination.label(scenarios)} {one.status}: ", color), line))


def sweep_table(swept: Sequence[Swept]) -> Table:
    """Return a table of the sweep; as many loads as fit 80 columns beside what was varied, but one at least."""
    columns = _varied(swept)
    taken = sum(max(map(len, [*title.split("\n"), *values])) + BLANKS for title, values in columns.items())
    loads = shown_loads(swept, max(1, (WIDTH - KNEE_WIDTH - taken) // LOAD_WIDTH))
    units = dict.fromkeys(one.result.load_unit for one in swept if one.result is not None)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for title in columns:
        table.add_column(title, overflow="fold")
    table.add_column("KV\nknee", justify="right", no_wrap=True)
    table.add_column("SLO\nup to", justify="right", no_wrap=True)
    for load in loads:
        table.add_column(f"TTFT p50 / p99\nat {amount(load, ' / '.join(units))}", justify="right", no_wrap=True)
    for one, *values in zip(swept, *columns.values(), strict=True):
        table.add_row(*map(Text, [*values, *_cells(one, loads)]), style="dim" if one.result is None else None)
    return table


def _varied(swept: Sequence[Swept]) -> dict[str, list[str]]:
    """Return the cells of each column that says what was varied, by its title."""
    scenarios = [one.combination.scenario for one in swept]
    names = short_names(swept[0].combination.settings)
    columns = {"scenario": scenarios} if len(set(scenarios)) > 1 or not names else {}
    return columns | {
        _title(name): [shown(one.combination.settings[key]) for one in swept] for key, name in names.items()
    }


def _title(name: str) -> str:
    """Break a long key after the underscore that is nearest its middle."""
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


def _cells(one: Swept, loads: Sequence[int]) -> list[str]:
    if one.result is None:
        return ["-"] * (2 + len(loads))
    result, slo = one.result, one.result.deployment.slo
    doubt = "?" if result.failed else ""  # a load that failed may be past the knee, or break the SLO
    promised = slo.ttft_p99_s is not None or slo.tpot_p99_s is not None
    points = {point["sessions"]: point for point in result.points}
    return [
        f"{result.knee.sessions or 'none'}{doubt}",
        f"{result.slo_sessions or 'none'}{doubt}" if promised else "-",
        *(_pair(points.get(load, {})) for load in loads),
    ]


def _pair(point: dict[str, float]) -> str:
    """Return p50 and p99 of TTFT in the unit of the larger: `401 / 500 ms`, `0.86 / 1.61 s`."""
    low_s, high_s = number(point, "ttft_p50_s"), number(point, "ttft_p99_s")
    if math.isnan(low_s) or math.isnan(high_s):
        return "-"
    scale, unit = (1e3, "ms") if high_s < 0.9995 else (1, "s")
    return f"{_short(low_s * scale)} / {_short(high_s * scale)} {unit}"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"
