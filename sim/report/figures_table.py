"""Single figures beside what was published of them, as a rich table."""

from collections.abc import Iterable

from rich import box
from rich.table import Table
from rich.text import Text

from sim.figures import Figure


def figures_table(figures: Iterable[Figure]) -> Table:
    """Return a row a figure: simulated, asked, error; one that is not as asked is marked."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("figure")
    for title in ("simulated", "asked", "error"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    for figure in figures:
        error = "" if figure.error is None else f"{figure.error:+.1%}"
        mark = Text("ok", "green") if figure.met else Text("off", "yellow")
        table.add_row(figure.name, figure.shown(figure.simulated), figure.demanded, error, mark)
    return table
