"""`kvcliff convert`: public measurement files, and tables of our own, as one measurement table."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from calibrate.importers.conversion import Converted

FORMATS = ("aiconfigurator", "helix", "llmservingsim", "splitwise", "vidur", "vllm_steps")
SHOWN_REJECTIONS = 5
NAMED_IN_JSON = 100


@click.command("convert")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, metavar="TABLE", type=click.Path(path_type=Path), help="A .csv, .csv.gz or .parquet file."
)
@click.option(
    "--format", "publisher", type=click.Choice(FORMATS), help="Whose layout it is, instead of looking at the header."
)
@click.option("--gpu", help="GPU, where neither the file nor a folder above it says: Vidur, LLMServingSim.")
@click.option("--model", help="Model, likewise.")
@click.option("--tensor-parallel", type=click.IntRange(1, 1024), help="GPUs that share a layer, likewise.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(files: tuple[Path, ...], out: Path, publisher: str | None, *, as_json: bool, **told: Any) -> None:
    """Turn public measurement files into one measurement table.

    Understood by their header: AIConfigurator (gemm, attention, moe, custom_allreduce), Vidur (mlp.csv,
    attention.csv), LLMServingSim, Splitwise's perf_model.csv, Helix's bs2time files, published vLLM step times, and
    tables of kvcliff's own. Times become seconds, names those of the catalog. Rows that cannot be true, faster than
    the GPU's peaks allow among them, are left out and named.
    """
    import pandas as pd

    from calibrate.importers.conversion import convert_files
    from calibrate.table_io import check_suffix, write_table
    from sim.errors import MeasurementError

    check_suffix(out)
    converted = list(_with_progress(convert_files(files, publisher, **told), len(files)))
    frame = pd.concat([one.table.frame for one in converted])
    if frame.empty:
        reasons = [f"; first: line {row.line}: {row.reason}" for one in converted for row in one.table.rejected[:1]]
        raise MeasurementError(f"{files[0]}: no row is left to write{''.join(reasons[:1])}")
    write_table(out, frame, tuple(dict.fromkeys(line for one in converted for line in one.table.comments)))
    if as_json:
        click.echo(json.dumps(_as_json(converted, out)))
    else:
        _print(converted, out)


def _with_progress(converted: "Iterable[Converted]", files: int) -> "Iterable[Converted]":
    """Show a bar on stderr where that is a terminal; elsewhere be silent."""
    if not sys.stderr.isatty():
        return converted
    from rich.console import Console
    from rich.progress import track

    return track(converted, "converting", total=files, console=Console(stderr=True), transient=True)


def _print(converted: "list[Converted]", out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from calibrate.importers.conversion import counts_of
    from calibrate.light_check import SLOW

    console = Console()
    for one in converted:
        _say(console, f"{one.path}: {len(one.table.frame):,} rows, read as {one.layout}")
        rejected = one.table.rejected
        for row in rejected[:SHOWN_REJECTIONS]:
            _say(console, f"  line {row.line} left out: {row.reason}")
        if len(rejected) > SHOWN_REJECTIONS:
            _say(console, f"  and {len(rejected) - SHOWN_REJECTIONS:,} more lines left out")
    counts = counts_of(converted)
    table = Table(title=f"{counts['rows'].sum():,} rows in {out}", title_justify="left")
    table.add_column("operation")
    table.add_column("GPU")
    table.add_column("rows", justify="right")
    table.add_column(f"over {SLOW:g}x the bound", justify="right")
    for count in counts.itertuples():
        table.add_row(count.operation, count.gpu, f"{count.rows:,}", f"{count.slow:,}" if count.slow else "")
    console.print(table)


def _say(console: "Console", line: str) -> None:
    console.print(line, soft_wrap=True, highlight=False, markup=False)


def _as_json(converted: "list[Converted]", out: Path) -> dict[str, Any]:
    from calibrate.importers.conversion import counts_of

    return {
        "out": str(out),
        "rows": sum(len(one.table.frame) for one in converted),
        "rejected": sum(len(one.table.rejected) for one in converted),
        "counts": counts_of(converted).to_dict("records"),
        "files": [
            {
                "file": str(one.path),
                "layout": one.layout,
                "rows": len(one.table.frame),
                "rejected": len(one.table.rejected),
                "first_rejected": [
                    {"line": row.line, "reason": row.reason} for row in one.table.rejected[:NAMED_IN_JSON]
                ],
            }
            for one in converted
        ],
    }
