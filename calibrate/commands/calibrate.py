"""`kvcliff calibrate`: the edge of `calibrate.timing`. Flags in; rows appended to a file, a summary out."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from calibrate.minutes import Minutes

if TYPE_CHECKING:
    from types import FrameType

    from rich.progress import Progress

    from calibrate.timing.outcome import Listener, Skipped
    from calibrate.timing.points import Point
    from calibrate.timing.session import Session, Settings

_PLAIN = ["bf16", "fp16", "fp32"]


@click.command("calibrate")
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True)
@click.option("--model", required=True, help="Model of the catalog, e.g. Qwen/Qwen3-4B, or a Hugging Face config.json.")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="CSV file to go on with.")
@click.option("--kv-dtypes", metavar="A,B", help="KV cache types.  [default: that of --dtype, fp8, int4]")
@click.option("--weight-dtypes", metavar="A,B", help="Weight types.  [default: that of --dtype, fp8, int8, int4]")
@click.option(
    "--dtype",
    type=click.Choice(_PLAIN),
    default="bf16",
    show_default=True,
    help="Type of activations and of weights that are not quantised.",
)
@click.option("--tp", type=click.IntRange(1, 1024), default=1, show_default=True, help="Shapes on one of so many GPUs.")
@click.option(
    "--budget-minutes",
    type=Minutes(10_000),
    default=10.0,
    show_default=True,
    help="Time to spend: the grid goes from coarse to fine until it is used up.",
)
@click.option("--max-num-batched-tokens", type=click.IntRange(1, 2**20), default=8192, show_default=True)
@click.option("--max-num-seqs", type=click.IntRange(1, 2**16), default=256, show_default=True)
@click.option("--max-context", type=click.IntRange(16, 2**24), default=131072, show_default=True, help="In tokens.")
@click.option("--threads", type=click.IntRange(1, 4096), help="CPU threads.  [default: all this process may use]")
@click.option("--fresh", is_flag=True, help="Start the file anew instead of going on with it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(*, as_json: bool, **flags: Any) -> None:
    """Time the operations of a model on this machine's GPU or CPU.

    One layer is timed, never the whole model, so the model may be larger than the memory. Each finished point is a
    line in the file at once: stop with Ctrl-C when you like and give the same command again to go on. A larger budget
    later makes the grid in the same file finer.
    """
    settings = _settings(flags)
    from calibrate.timing.session import run_session

    with _stopping_on_signals(settings.out), _progress() as listener:
        session = run_session(settings, listener)
    if as_json:
        _print_json(session, settings)
    else:
        _print_table(session, settings)


def _settings(flags: dict[str, Any]) -> "Settings":
    from calibrate.timing.dtypes import KV_DTYPES, WEIGHT_BYTES, parse_dtypes
    from calibrate.timing.grid import Limits, Types
    from calibrate.timing.session import Settings

    dtype = flags["dtype"]
    weights, kv = flags["weight_dtypes"] or f"{dtype},fp8,int8,int4", flags["kv_dtypes"] or f"{dtype},fp8,int4"
    return Settings(
        device=flags["device"],
        model=flags["model"],
        out=flags["out"],
        types=Types(
            dtype,
            parse_dtypes("--weight-dtypes", weights, tuple(WEIGHT_BYTES)),
            parse_dtypes("--kv-dtypes", kv, KV_DTYPES),
        ),
        budget_s=flags["budget_minutes"] * 60,
        tensor_parallel=flags["tp"],
        limits=Limits(flags["max_num_batched_tokens"], flags["max_num_seqs"], flags["max_context"]),
        threads=flags["threads"],
        fresh=flags["fresh"],
        command=f"kvcliff {' '.join(sys.argv[1:])}",
    )


@contextmanager
def _stopping_on_signals(out: Path) -> Iterator[None]:
    """Leave with 130 on Ctrl-C and with 143 on SIGTERM, saying how to go on."""
    code = 130

    def terminate(_signal: int, _frame: "FrameType | None") -> NoReturn:
        nonlocal code
        code = 143
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt:
        click.echo(
            f"kvcliff: interrupted; {out} holds what was finished, the same command goes on from there", err=True
        )
        raise click.exceptions.Exit(code) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _progress() -> Iterator["Listener"]:
    """Show points done and time left on stderr. Drawn between points only: a drawing thread would be timed too."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.description}"),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as progress:
        yield _drawing(progress)


def _drawing(progress: "Progress") -> "Listener":
    from calibrate.timing.outcome import Listener

    task = progress.add_task("starting", left="")

    def on_start(todo: int, done: int) -> None:
        progress.update(task, total=todo + done, completed=done, refresh=True)

    def on_point(point: "Point", left_s: float) -> None:
        minutes, rest_s = divmod(int(left_s), 60)
        progress.update(task, description=str(point), left=f"{minutes}:{rest_s:02d} left", refresh=True)

    def on_row(_row: dict[str, object]) -> None:
        progress.advance(task)

    def on_skip(_skipped: "Skipped") -> None:
        progress.advance(task)

    return Listener(on_start, on_point, on_row, on_skip)


def _print_json(session: "Session", settings: "Settings") -> None:
    import json

    from calibrate.timing.summary import as_json

    facts = {
        "out": str(settings.out),
        "gpu": session.gpu,
        "model": session.shape.model,
        "seconds": session.seconds,
        "remarks": list(session.remarks),
    }
    click.echo(json.dumps(as_json(session.outcome, session.rows, facts)))


def _print_table(session: "Session", settings: "Settings") -> None:
    from rich.console import Console

    from calibrate.timing.summary import operations_table, skipped_lines

    console = Console(highlight=False, markup=False)
    console.print(f"{session.shape.model} on {session.gpu}")
    console.print(operations_table(session.rows, session.shape, settings.types.dtype))
    for line in (*session.remarks, *skipped_lines(session.outcome.skipped)):
        console.print(line, style="dim", soft_wrap=True)
    left = session.outcome.left
    more = f"; {left} finer points are left for a larger budget" if left else ""
    console.print(
        f"{len(session.outcome.rows)} rows in {session.seconds:.0f} s, {len(session.rows)} in {settings.out}{more}",
        soft_wrap=True,
    )
