"""The memory of one GPU as a bar of characters: each part has its own fill, so that it reads without colour, too."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from sim.memory import MemoryLedger, SglangPools
from sim.memory.parts import (
    ACTIVATION,
    DYNAMIC,
    GRAPHS,
    KV,
    LEFT,
    MEASURED,
    MEASURED_WITH_GRAPHS,
    OUTSIDE_TORCH,
    STATES,
    WEIGHTS,
)
from sim.report.ledger_stack import Stack, stack_of
from sim.units import GIB, gib

_FILLS = {  # of a terminal with block elements, of one without, and the colour
    WEIGHTS: ("█", "#", "blue"),
    ACTIVATION: ("▓", "%", "yellow"),
    MEASURED: ("▓", "%", "yellow"),
    MEASURED_WITH_GRAPHS: ("▓", "%", "yellow"),
    OUTSIDE_TORCH: ("▒", "+", "magenta"),
    GRAPHS: ("░", ":", "red"),
    STATES: ("▚", "s", "cyan"),
    KV: ("=", "=", "green"),
    LEFT: ("·", ".", "bright_black"),
    DYNAMIC: ("·", ".", "bright_black"),
}
_MISSING, _MISSING_STYLE = "!", "bold red"
_GAP = "   "


@dataclass(frozen=True, slots=True)
class _Bar:
    """A bar, the mark of the budget below it, and the legend, each no wider than `width` columns."""

    stack: Stack
    width: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(10, min(self.width, options.max_width))
        ascii_only = options.ascii_only
        yield _cells(self.stack, width, ascii_only=ascii_only)
        yield _mark(self.stack, width)
        yield from _legend(self.stack, width, ascii_only=ascii_only)


def terminal_bar(ledger: MemoryLedger | SglangPools, width: int) -> _Bar:
    """Return the stacked bar of the GPU that decides, in so many columns, with a legend in GiB."""
    return _Bar(stack_of(ledger), width)


def _cells(stack: Stack, width: int, *, ascii_only: bool) -> Text:
    """Return the bar; every part that exists has a cell at least, and what is short of memory is `!`."""
    bar = Text()
    for segment, count in zip(stack.segments, _shares(stack, width), strict=True):
        fill, plain, color = _FILLS[segment.name]
        bar.append((plain if ascii_only else fill) * count, style=color)
    if stack.short is None:
        return bar
    start, end = (round(width * edge / stack.end_bytes) for edge in stack.short)
    start = min(start, end - 1)
    return Text.assemble(bar[:start], (_MISSING * (end - start), _MISSING_STYLE), bar[end:])


def _shares(stack: Stack, width: int) -> list[int]:
    """Return the cells of each segment, `width` in all: rounded where they end, and at least one for what exists."""
    sizes = [segment.end_bytes - segment.start_bytes for segment in stack.segments]
    counts = [
        round(width * segment.end_bytes / stack.end_bytes) - round(width * segment.start_bytes / stack.end_bytes)
        for segment in stack.segments
    ]
    for index, size in enumerate(sizes):
        if size and not counts[index]:
            counts[counts.index(max(counts))] -= 1
            counts[index] = 1
    return counts


def _mark(stack: Stack, width: int) -> Text:
    at = min(width - 1, max(0, round(width * stack.budget_bytes / stack.end_bytes) - 1))
    words = f"budget {gib(stack.budget_bytes)} of {gib(stack.visible_bytes)}"
    if at >= len(words) + 1:
        return Text(f"{words} ^".rjust(at + 1), style="dim")
    return Text(f"{' ' * at}^ {words}", style="dim")


def _legend(stack: Stack, width: int, *, ascii_only: bool) -> Iterator[Text]:
    """Yield lines of fills with names and sizes, none of them parted between lines."""
    line = Text()
    for entry in _entries(stack, ascii_only=ascii_only):
        if line and line.cell_len + entry.cell_len + len(_GAP) > width:
            yield line
            line = Text()
        line = Text(_GAP).join([line, entry]) if line else entry
    yield line


def _entries(stack: Stack, *, ascii_only: bool) -> Iterator[Text]:
    for segment in stack.segments:
        if segment.end_bytes > segment.start_bytes:
            fill, plain, color = _FILLS[segment.name]
            shown = segment.size_bytes if segment.size_bytes > 0 else segment.end_bytes - segment.start_bytes
            yield Text.assemble((plain if ascii_only else fill, color), f" {segment.name} {shown / GIB:,.2f}")
    if stack.short is not None:
        yield Text(f"{_MISSING} {gib(stack.short_bytes)} short", style=_MISSING_STYLE)
