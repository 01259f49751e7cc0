"""`kvcliff validate scenarios`: the published figures of many scenarios in one table."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

PAGE_WIDTH = 140


@click.command("scenarios")
@click.argument("places", metavar="FOLDER|SCENARIO...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Exit with 1 if a figure is not as its scenario asks.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for a page named after the first."
)
@click.option("--jobs", type=click.IntRange(1, 1024), help="Worker processes; 1: none.  [default: one a core]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(places: Sequence[Path], *, check: bool, out: Path | None, jobs: int | None, as_json: bool) -> None:
    """Compare scenarios with the figures they list as published.

    A folder stands for all scenarios in it. Each is run at its own loads and seeds, with the variants that its figures
    name, as `kvcliff run --check` does; knees are not looked for.
    """
    from rich.console import Console

    from calibrate.validation.scenarios_report import figures_json, page_of, print_figures, simulated_figures
    from sim.commands.files import check_writable

    if out is not None:
        check_writable("--out", out)
    found = simulated_figures(places, jobs)
    if out is not None:
        from sim.report.atomic import replacing

        with replacing(out / f"{places[0].stem if places[0].is_file() else places[0].name}.md") as partial:
            partial.write_text(page_of(found, places), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(figures_json(found), allow_nan=False))
    else:
        print_figures(Console(highlight=False), found)
    missed = [f"{name}: {figure.failure}" for name, figures in found.items() for figure in figures if not figure.met]
    for line in missed if check else ():
        click.echo(f"kvcliff: check failed: {line}", err=True)
    if check and missed:
        sys.exit(1)
