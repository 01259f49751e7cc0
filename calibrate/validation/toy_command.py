"""`kvcliff validate toy`: the queue of founding document 003 for real on this machine, beside its simulation."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@click.command("toy")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option(
    "--requests", type=click.IntRange(16, 1000), default=64, show_default=True, help="In the queue, all at t = 0."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of lengths, tokens and orders.")
@click.option("--check", is_flag=True, help="Exit with 1 if a figure is more than 10 % off.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(*, device: str, requests: int, seed: int, check: bool, as_json: bool) -> None:
    """Serve a queue with a toy transformer, and simulate it.

    A small transformer with random weights is timed with and without a KV cache and at 1 to 16 rows. Then it serves a
    queue under four policies, and the simulator predicts that queue from the step times alone.
    """
    from calibrate.validation.toy_run import experiment

    with _bar() as on_progress:
        result = experiment(device, requests, seed, on_progress)
    if as_json:
        click.echo(json.dumps(result.as_dict()))
    else:
        from rich.console import Console

        from calibrate.validation.toy_report import print_report

        print_report(result, Console(highlight=False, markup=False))
    broken = result.broken() if check else []
    for line in broken:
        click.echo(f"kvcliff: check failed: {line}", err=True)
    if broken:
        raise click.exceptions.Exit(1)


@contextmanager
def _bar() -> Iterator[Callable[[float], None]]:
    """Show the share that is done on stderr. Drawn between steps only: a drawing thread would be timed too."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("toy"), BarColumn(bar_width=30), TaskProgressColumn())
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share: bar.update(task, completed=share, refresh=True)
