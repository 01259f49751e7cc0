"""The results as rows of text, for the terminal and for Markdown alike."""

from collections.abc import Sequence
from typing import NamedTuple

from bench.results import CaseResult, CommandResult, Machine, Outcome, Spread, Target

from sim.units import GIB


class Table(NamedTuple):
    """A titled table of text."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


CASE_HEAD = (
    "case",
    "requests",
    "build, ms",
    "simulate, ms (median, worst)",
    "metrics, ms",
    "tokens/s",
    "requests/s",
    "whole process, s",
    "peak, MiB",
    "x plain loop",
    "x plain engine",
)


def tables(outcome: Outcome) -> list[Table]:
    """Return targets, cases and commands; empty ones are left out."""
    every = (
        Table("Targets", ("target", "measured", "wanted", "met"), [_target_row(one) for one in outcome.targets]),
        Table("Cases, best of CPU seconds", CASE_HEAD, [_case_row(one) for one in outcome.cases]),
        Table("Commands, children included", COMMAND_HEAD, [_command_row(one) for one in outcome.commands]),
    )
    return [table for table in every if table.rows]


COMMAND_HEAD = ("command", "CPU, s (median, worst)", "wall, s (median, worst)")


def heading(machine: Machine) -> str:
    """Return when, on what and of what commit figures are."""
    build = "compiled" if machine.compiled else "not compiled"
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.busy_cores} of them busy at the start; "
        f"{machine.python}, numpy {machine.numpy}; commit {machine.commit}, {build}."
    )


def notes(outcome: Outcome) -> list[str]:
    """Return what the reader has to know beside the tables."""
    found = ["Every plain-engine ratio is of results equal bit for bit: each record, each token's time."]
    if outcome.drawn_trace:
        found.append("The shared trace is not here: conv cases ran on drawn requests that resemble it, not comparable.")
    if outcome.scale != 1:
        found.append(f"Sizes are {outcome.scale:g} of the real ones: no target can be judged.")
    return found


def _case_row(case: CaseResult) -> list[str]:
    return [
        case.name,
        f"{case.requests:,}",
        _ms(case.build_s.best),
        f"{_ms(case.simulate_s.best)} ({_ms(case.simulate_s.median)}, {_ms(case.simulate_s.worst)})",
        _ms(case.metrics_s.best),
        f"{case.tokens_per_s / 1e6:.2f} M",
        f"{case.requests_per_s:,.0f}",
        f"{case.whole_s.best:.2f}",
        f"{case.peak_bytes / GIB * 1024:,.0f}",
        _ratio(case.times_faster(case.plain_loop_s)),
        _ratio(case.times_faster(case.plain_engine_s)),
    ]


def _command_row(command: CommandResult) -> list[str]:
    return [command.name.partition("/")[2], _spread(command.cpu_s), _spread(command.wall_s)]


def _target_row(target: Target) -> list[str]:
    limit = f"{'at most' if target.at_most else 'at least'} {_figure(target.limit, target.unit)}"
    met = {None: "-", True: "yes", False: "no"}[target.met]
    return [target.name, "-" if target.value is None else _figure(target.value, target.unit), limit, met]


def _figure(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f}" if seconds >= 0.01 else f"{seconds * 1000:.1f}"


def _spread(seconds: Spread) -> str:
    return f"{seconds.best:.2f} ({seconds.median:.2f}, {seconds.worst:.2f})"


def _ratio(times: float | None) -> str:
    return "-" if times is None else f"{times:.2f}"
