"""A progress bar on stderr where that is a terminal; elsewhere silence."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sim.run import Progress


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Yield what to tell of simulations done, and of how many so far known; the bar is gone afterwards."""
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
