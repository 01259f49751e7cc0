"""`make bench`: measure the simulator against plain references, print the tables, record them when asked.

python -m bench [CASE...] [--json FILE] [--record] [--profile CASE], with `tests` on the Python path.
Exit codes: 0 measured, whatever the targets say; 1 a measurement failed or engines disagree; 2 bad input.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click
import msgspec
from bench.cases import CASES, COMMANDS, Case, Command, Size
from bench.history import PAGE, record
from bench.hot_spots import profile_tables
from bench.suite import BenchError, measured
from bench.tables import Table, heading, notes, tables
from rich.console import Console
from rich.table import Table as RichTable

from sim.errors import one_of
from sim.report.atomic import replacing

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
ALL = "all"
WIDE = 200  # columns, where nobody's terminal sets a limit


@click.command()
@click.argument("names", metavar="[CASE...]", nargs=-1)
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), default=DATA, help="Folder of shared data.")
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=1.0, help="Share of each case's size.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Also write results there.")
@click.option("--record", "records", is_flag=True, help="Add the results to notebooks/benchmarks.md.")
@click.option("--profile", "profiled", metavar="CASE", help="Show where the time of one case goes instead.")
def main(
    names: tuple[str, ...], data: Path, scale: float, json_file: Path | None, profiled: str | None, *, records: bool
) -> None:
    """Measure CASEs, or groups of them such as sess48; `all`, or no name, is all but those on demand."""
    size, console = Size(data, scale), Console(width=None if sys.stdout.isatty() else WIDE)
    if profiled is not None:
        case = CASES.get(profiled) or _refuse(f"--profile {one_of(profiled, CASES)}")
        for table in profile_tables(case, size):
            _show(console, table)
        return
    if records and (scale != 1 or (names and ALL not in names)):
        _refuse(f"--record wants {ALL} cases at full size: pages of history can be compared then")
    cases, commands = select(names)
    try:
        with Console(stderr=True).status("measuring") as status:
            outcome = measured(cases, commands, size, status.update)
    except BenchError as error:
        _leave(1, str(error))
    for table in tables(outcome):
        _show(console, table)
    for line in (heading(outcome.machine), *notes(outcome)):
        console.print(line, highlight=False)
    if json_file is not None:
        with replacing(json_file) as partial:
            partial.write_bytes(msgspec.json.format(msgspec.json.encode(outcome)) + b"\n")
    if records:
        record(outcome)
        console.print(f"recorded in {PAGE}", highlight=False, soft_wrap=True)


def select(names: Sequence[str]) -> tuple[list[Case], list[Command]]:
    """Return what these names and groups stand for, in the suite's order; leaves with 2 at an unknown one."""
    known = {*CASES, *COMMANDS}
    groups = {name.partition("/")[0] for name in known}
    for name in names:
        if name not in {ALL, *known, *groups}:
            _refuse(f"no case or group {one_of(name, {ALL, *groups})}")

    def is_meant(name: str, *, on_demand: bool = False) -> bool:
        if not on_demand and (not names or ALL in names):
            return True
        return name in names or name.partition("/")[0] in names

    cases = [case for case in CASES.values() if is_meant(case.name, on_demand=case.on_demand)]
    return cases, [command for command in COMMANDS.values() if is_meant(command.name)]


def _show(console: Console, table: Table) -> None:
    shown = RichTable(title=table.title, title_justify="left", title_style="bold")
    for column in table.head:
        shown.add_column(column, justify="left" if column == table.head[0] else "right")
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown)


def _refuse(message: str) -> NoReturn:
    _leave(2, message)


def _leave(code: int, message: str) -> NoReturn:
    click.echo(f"bench: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
