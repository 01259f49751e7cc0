"""`kvcliff validate machine`: whole steps of a small real transformer, predicted from its operations alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calibrate.minutes import Minutes

if TYPE_CHECKING:
    from calibrate.validation.machine_proof import Proof


@click.command("machine")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--minutes", type=Minutes(600), default=4.0, show_default=True, help="Time to spend.")
@click.option(
    "--dtype",
    type=click.Choice(["bf16", "fp32"]),
    default="bf16",
    show_default=True,
    help="Type of weights, activations and KV cache.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 4096),
    default=1,
    show_default=True,
    help="CPU threads; others may use the rest.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the steps and of every order.")
@click.option("--check", is_flag=True, help="Exit with 1 if a limit is broken.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for tables and chart.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(
    *,
    device: str,
    minutes: float,
    dtype: str,
    threads: int,
    seed: int,
    check: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Predict this machine's steps from its operations.

    Runs a small transformer with random weights over a paged KV cache: prefill, mixed and decode steps, sizes drawn at
    random. Its operations are timed one by one, by turns with its steps; `kvcliff fit` makes a profile of the
    operations, and the profile predicts the steps, which it never saw. Limits on |predicted / measured - 1|: 10 % in
    the median and 20 % at the 90th percentile. An idle machine gives the smallest errors.
    """
    from calibrate.validation.machine_run import Plan, prove

    plan = Plan(device=device, dtype=dtype, budget_s=minutes * 60, threads=threads, seed=seed)
    with _progress() as on_progress:
        proof = prove(plan, out, on_progress)
    if out is not None:
        _save(proof, out)
    if as_json:
        import json

        from calibrate.validation.machine_proof import as_dict

        click.echo(json.dumps(as_dict(proof)))
    else:
        from rich.console import Console

        from calibrate.validation.machine_report import print_report

        print_report(proof, Console(highlight=False, markup=False))
    if as_json and proof.warning:
        click.echo(f"kvcliff: {proof.warning}", err=True)
    broken = proof.broken() if check else []
    for line in broken:
        click.echo(f"kvcliff: check failed: {line}", err=True)
    if broken:
        raise click.exceptions.Exit(1)


def _save(proof: "Proof", out: Path) -> None:
    from calibrate.validation.machine_chart import machine_chart
    from sim.report.csv_files import write_csv
    from sim.report.figure_files import save_figure

    write_csv(out / "steps.csv", [step.row() for step in proof.steps])
    provenance = (
        f"{len(proof.steps)} steps of a small transformer in {proof.dtype}, by {proof.operations} operations. "
        f"Other programs kept {proof.others_busy_cpus:.1f} CPUs busy. Bars: 95 % intervals."
    )
    save_figure(machine_chart(proof, provenance=provenance), out / "machine")


@contextmanager
def _progress() -> Iterator[Callable[[int, float], None]]:
    """Show rounds done and time left on stderr. Drawn between rounds only: a drawing thread would be timed too."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from calibrate.validation.machine_rounds import ROUNDS

    columns = (TextColumn("round"), BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=ROUNDS, left="")

        def on_progress(done: int, left_s: float) -> None:
            minutes, rest_s = divmod(max(0, int(left_s)), 60)
            bar.update(task, completed=done, left=f"at most {minutes}:{rest_s:02d} left", refresh=True)

        yield on_progress
