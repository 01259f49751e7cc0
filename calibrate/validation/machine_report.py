"""A proof as a table for people."""

from rich.console import Console
from rich.table import Table

from calibrate.validation.machine_proof import MEDIAN_LIMIT, P90_LIMIT, Proof
from sim.units import seconds

_LEFT = {"steps", "kind", "step"}


def print_report(proof: Proof, console: Console) -> None:
    """Print every step, then medians by kind beside the limits."""
    console.print(
        f"A small transformer in {proof.dtype} on {proof.machine}, predicted by {proof.operations} operations"
    )
    console.print(_steps(proof))
    console.print(_errors(proof))
    for line in (*proof.remarks, *([proof.warning] if proof.warning else [])):
        console.print(line, soft_wrap=True)


def _steps(proof: Proof) -> Table:
    table = _table("kind", "step", "measured", "95 % interval", "predicted", "error")
    for step in proof.steps:
        low, high = step.measured.low_s, step.measured.high_s
        interval = "" if low is None or high is None else f"{seconds(low)} to {seconds(high)}"
        times = seconds(step.measured.median_s), interval, seconds(step.predicted_s)
        table.add_row(step.batch.kind, str(step.batch), *times, f"{step.error:+.1%}")
    return table


def _errors(proof: Proof) -> Table:
    table = _table("steps", "count", "median |error|", "limit", "p90", "limit", "bias")
    for found in proof.summaries():
        limits = (f"{MEDIAN_LIMIT:.0%}", f"{P90_LIMIT:.0%}") if found.steps == "all" else ("", "")
        median, p90 = f"{found.median:.1%}", f"{found.p90:.1%}"
        table.add_row(found.steps, str(found.count), median, limits[0], p90, limits[1], f"{found.bias:+.1%}")
    return table


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in _LEFT else "right", no_wrap=heading != "step")
    return table
