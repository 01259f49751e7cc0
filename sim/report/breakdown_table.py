"""Where requests' time went, as a rich table: a row a load level and measure, seconds of each part."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich import box
from rich.table import Table

TITLES = {
    "client_s": "client",
    "engine_s": "engine",
    "queue_s": "queue",
    "prefill_s": "pre-\nfill",
    "reprefill_s": "re-\nfill",
    "interference_s": "inter-\nfer.",
    "decode_s": "decode",
    "link_s": "link",
}


def breakdown_table(summaries: Iterable[Mapping[str, Any]]) -> Table:
    """Return the table; the six parts add up to what the client saw."""
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        caption="mean seconds (worst: of the slowest hundredth); inter-fer. is others' work in its steps\n"
        "queue + prefill + re-prefill + interference + decode = engine; + link = client",
        caption_justify="left",
    )
    table.add_column("ses-\nsions", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for title in TITLES.values():
        table.add_column(title, justify="right", no_wrap=True)
    for row in summaries:
        what = f"{row['measure'].upper()} {row['of']}".removesuffix(" mean")
        table.add_row(str(row["sessions"]), what, *(_cell(row[name]) for name in TITLES))
    return table


def _cell(seconds: float) -> str:
    return "-" if abs(seconds) < 5e-4 else f"{seconds:.3g}" if seconds >= 0.0995 else f"{seconds:.3f}"
