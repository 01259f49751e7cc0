"""A result in the terminal: what was assumed, the table, the knee in a sentence, what to doubt."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from sim.check_spec import BASE_VARIANT
from sim.checks import failures, published_rows
from sim.figures import figures_of
from sim.report.figures_table import figures_table
from sim.report.sentences import answers, assumptions, description
from sim.report.tables import comparison_table, points_table, published_table, sensitivity_table
from sim.run import Result

LEAST_COLUMNS = 80


def print_result(result: Result, variants: Mapping[str, Result], *, check: bool = False) -> None:
    """Print everything a planner reads first."""
    console = plain_console()
    scenario = result.deployment.scenario
    console.print(Text.assemble((scenario.name, "bold"), "  ", description(result.deployment)))
    for line in assumptions(result.deployment):
        console.print(Padding(line, (0, 0, 0, 2)), style="dim")
    console.print()
    simulated = {point["sessions"] for point in result.points}
    published = [row for row in published_rows(scenario) if row["sessions"] in simulated]
    knee = result.knee.sessions
    console.print(points_table(result.points, knee_sessions=knee, trace=result.deployment.trace is not None))
    if published:
        console.print()
        console.print(published_table(result.points, published))
        for statement in scenario.published.statements if scenario.published is not None else ():
            console.print(Padding(f"published: {statement}", (0, 0, 0, 2)), style="dim")
    console.print()
    for line in answers(result):
        console.print(line)
    if variants:
        console.print()
        where = variants_at(result)
        console.print(sensitivity_table(variant_rows(result, variants, where), where))
    figures = figures_of(result, variants)
    if figures:
        console.print()
        console.print(figures_table(figures))
    for line in failures(result, variants) if check else ():
        console.print(Text.assemble(("check not met: ", "yellow"), line))


class _PlainConsole(Console):
    """Leaves a closed pipe to the command line, which knows the exit code for it."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def plain_console() -> Console:
    """Return a console of at least 80 columns that takes brackets in names for brackets."""
    console = _PlainConsole(highlight=False, markup=False)
    console.width = max(console.width, LEAST_COLUMNS)
    return console


def print_comparison(results: Sequence[Result]) -> None:
    """Print one line a scenario: capacity, what division says, what was published, what the simulation says."""
    console = plain_console()
    console.print(Rule("compared", style="dim"))
    console.print(comparison_table(comparison_rows(results)))


def comparison_rows(results: Sequence[Result]) -> list[dict[str, object]]:
    """Return one row a scenario, as print_comparison shows it."""
    rows: list[dict[str, object]] = []
    for result in results:
        deployment = result.deployment
        by_hand, published = deployment.arithmetic, deployment.scenario.published
        rows.append(
            {
                "scenario": deployment.scenario.name,
                "kv_cache_tokens": deployment.ledger.kv_cache_tokens,
                "by_hand": by_hand.tokens_for_sessions / by_hand.unique_tokens_per_session,
                "published_by_hand": None if published is None else published.arithmetic_sessions,
                "knee_sessions": result.knee.sessions,
                "published_knee_sessions": None if published is None else published.knee_sessions,
                "slo_sessions": result.slo_sessions,
                "published_slo_sessions": None if published is None else published.slo_sessions,
            }
        )
    return rows


def print_breakdown(summaries: Sequence[Mapping[str, Any]]) -> None:
    """Print where requests' time went."""
    from sim.report.breakdown_table import breakdown_table

    console = plain_console()
    console.print()
    console.print(breakdown_table(summaries))


def variants_at(result: Result) -> float:
    """Return the load at which variants are compared: the scenario's own knee, else its largest load."""
    return result.knee.sessions if result.knee.sessions is not None else result.points[-1]["sessions"]


def variant_rows(result: Result, variants: Mapping[str, Result], where: float) -> list[dict[str, object]]:
    """Return one row a variant: its knee, and latency and throughput at one load."""
    base = next(point for point in result.points if point["sessions"] == where)
    rows: list[dict[str, object]] = []
    for name, one in {BASE_VARIANT: result, **variants}.items():
        same_load = one.load_unit == result.load_unit
        at = next((point for point in one.points if same_load and point["sessions"] == where), {})
        rate = at.get("requests_per_s", float("nan"))
        rows.append(
            {
                "setting": name,
                "knee_sessions": one.knee.sessions,
                "ttft_p99_s": at.get("ttft_p99_s", float("nan")),
                "requests_per_s": rate,
                "change": "" if one is result or math.isnan(rate) else rate / base["requests_per_s"] - 1,
            }
        )
    return rows


def print_files(paths: Sequence[Path]) -> None:
    """Say where the files went."""
    console = plain_console()
    console.print()
    for path in paths:
        console.print(f"wrote {path}", style="dim", soft_wrap=True)
