"""`kvcliff validate memory`: the memory ledger against start-ups that people posted."""

import json
import sys
from pathlib import Path

import click

DEFAULT_FILE = Path("../shared/data/capacity_cases/cases.jsonl")
PAGE_WIDTH = 140


@click.command("memory")
@click.argument("cases", metavar="[CASES.jsonl]", required=False, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Exit with 1 if a bar is missed.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for a page, memory.md.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(cases: Path | None, *, check: bool, out: Path | None, as_json: bool) -> None:
    """Compare the memory ledger with what engines printed when they started, and with the one-line formula.

    CASES.jsonl has one posted start-up a line, in the format of shared/data/capacity_cases. Each that prints its KV
    memory is asked with it (blocks, concurrency, refusals) and without (the memory itself).
    """
    from rich.console import Console

    from calibrate.validation.memory_cases import read_memory_cases
    from calibrate.validation.memory_report import bar_table, bars, print_report, report_json
    from calibrate.validation.memory_scores import score

    found, left_out = read_memory_cases(cases or DEFAULT_FILE)
    scores = [score(case) for case in found]
    if out is not None:
        from calibrate.validation.page import write_page

        intro = (
            "# The memory ledger against posted start-ups\n\n"
            "Every number on this page comes from `kvcliff validate memory`. "
            "A star marks a case where a setting that no source states was chosen. "
            "Layouts and prints follow the engine's own rules; the constants of what is not KV (activation peak, "
            "outside torch, graphs, spread of weights) were fitted to posted start-ups of which these are a part: "
            "those rows are no blind test. "
            "The formula is KV memory / (2 x layers x KV heads / TP x head_dim x bytes / PP), against what fits by the "
            "engine's own print.\n\n"
            f"{bar_table(scores)}"
        )
        write_page(out / "memory.md", intro, lambda console: print_report(console, scores, left_out), PAGE_WIDTH)
    if as_json:
        click.echo(json.dumps(report_json(scores, left_out), allow_nan=False))
    else:
        print_report(Console(highlight=False), scores, left_out)
    missed = [bar for bar in bars(scores) if not bar.holds] if check else []
    for bar in missed:
        click.echo(f"kvcliff: check failed: {bar}", err=True)
    if missed:
        sys.exit(1)
