"""A rich renderable without the spaces that tables leave at the ends of lines."""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What it holds, each line cut after its last letter, and no wider than `width` columns."""

    renderable: RenderableType
    width: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrow = options.update_width(min(self.width, options.max_width))
        for line in console.render_lines(self.renderable, narrow, pad=False):
            yield from _trimmed(line)
            yield Segment.line()


def _trimmed(line: Iterable[Segment]) -> list[Segment]:
    kept = list(line)
    while kept:
        last = kept.pop()
        if text := last.text.rstrip(" "):
            return [*kept, Segment(text, last.style)]
    return []
