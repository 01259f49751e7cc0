"""Remedies under each kind of traffic, as a rich table: answers in time, p99 TTFT, turns that got no answer."""

import math

from rich import box
from rich.table import Table
from rich.text import Text

from sim.report.remedies import Remedies, RemedyCell
from sim.units import seconds


def remedies_table(remedies: Remedies) -> Table:
    """Return a row a variant; the best answers in time under each traffic are bold."""
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        caption="answers/s in time, TTFT p99; in brackets turns rejected, shed or lost; n x: died so often",
        caption_justify="left",
    )
    table.add_column("variant", overflow="fold")
    for name, load in zip(remedies.scenarios, remedies.loads, strict=True):
        table.add_column(f"{name}\n{load}", justify="right")
    best = [
        max((cells[column].answers_in_time_per_s for cells in remedies.rows.values()), key=_known)
        for column in range(len(remedies.scenarios))
    ]
    for name, cells in remedies.rows.items():
        shown = [_text(cell, is_best=cell.answers_in_time_per_s == top) for cell, top in zip(cells, best, strict=True)]
        table.add_row(Text(name), *shown)
    return table


def _known(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _text(cell: RemedyCell, *, is_best: bool) -> Text:
    if math.isnan(cell.answers_in_time_per_s):
        return Text("")
    text = Text(f"{cell.answers_in_time_per_s:.2g}", style="bold" if is_best else "")
    text.append("  -" if math.isnan(cell.ttft_p99_s) else f"  {seconds(cell.ttft_p99_s)}")
    if cell.not_answered_share >= 0.005:
        text.append(f" ({cell.not_answered_share:.0%})")
    if cell.crashes:
        text.append(f" {cell.crashes} x", style="red")
    return text
