"""Writes what the terminal shows as a page, whole or not at all."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path

from rich.console import Console

from sim.report.atomic import replacing


def write_page(path: Path, intro: str, print_to: Callable[[Console], None], width: int) -> None:
    """Write `intro` and, in a block, what `print_to` prints."""
    text = StringIO()
    print_to(Console(file=text, width=width, highlight=False))
    shown = "\n".join(line.rstrip() for line in text.getvalue().splitlines())
    with replacing(path) as partial:
        partial.write_text(f"{intro}\n\n```\n{shown}\n```\n", encoding="utf-8")
