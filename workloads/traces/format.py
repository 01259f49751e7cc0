"""What a format is: a name, how its files are recognised, and a function that yields their requests row by row."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from workloads.traces.reading import Reading
from workloads.traces.request import TraceRequest


class Clock(Enum):
    """What `at_s` counts from."""

    TRACE = "trace"  # one clock for all requests, which ascend
    SESSION = "session"  # each session begins at 0; how sessions lie to each other is not told
    NONE = "none"  # no times


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file, for recognising it."""

    path: Path
    text: str  # of its first line, and more where that is short
    first: Any = None  # the first line as JSON, if it is; else the whole file, if it is one; long arrays abridged
    header: tuple[str, ...] = ()  # the first line's cells, where the file looks like CSV

    @property
    def keys(self) -> frozenset[str]:
        """Keys of the first JSON object, or nothing."""
        return frozenset(self.first) if isinstance(self.first, Mapping) else frozenset()


@dataclass(frozen=True, slots=True)
class Format:
    """One format."""

    name: str  # as users write it
    title: str  # as tables show it
    recognises: Callable[[Head], bool]
    read: Callable[[Reading], Iterator[TraceRequest]]
    clock: Clock = Clock.TRACE
    recognises_folder: Callable[[Path], bool] | None = None  # formats of which a folder is one trace
    sorts: bool = False  # times ascend whatever the file's order: the format holds its rows in memory
    drawn: bool = False  # the file describes a load, from which requests are drawn with the seed
