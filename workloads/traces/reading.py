"""How a trace file is being read: the choices a user may make, what was understood, and what becomes of bad rows."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from workloads.errors import WorkloadError
from workloads.traces.request import MOST_TOKENS

LENGTHS_ALONE = "lengths alone: the trace tells no content, so no hits can be known"  # a note
SHOWN = 40  # characters of a value in a message


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a user says about a file. None: what the format's rows say, or the format's default."""

    format: str | None = None  # a name in FORMATS; None: recognised by its first rows
    block_tokens: int | None = None  # of hash ids
    rows: Literal["cumulative", "delta"] | None = None  # whether Mooncake-like rows hold the prompt or what is new
    skip_bad_rows: bool = False
    limit: int | None = None  # only so many of the first requests
    seed: int = 0  # of formats that describe a load instead of recording one
    tokens_per_character: float = 0.25  # of formats that hold text
    sessions: int | None = None  # of formats that describe a load: how many to draw


@dataclass(slots=True)
class Reading:
    """One pass over one file. A format asks it for options and tells it what it met."""

    path: Path
    options: ReadOptions
    notes: dict[str, None] = field(default_factory=dict)  # in order, each once
    bad_rows: int = 0
    first_bad: str = ""

    def note(self, text: str) -> None:
        """Take note of how something ambiguous was read; the same words count once."""
        self.notes.setdefault(text)

    def bad(self, row: int, what: str) -> None:
        """Refuse a row, or count it where bad rows are skipped: then the caller goes on with the next.

        Raises WorkloadError with file and row.
        """
        message = self.message(row, what)
        if not self.options.skip_bad_rows:
            raise WorkloadError(message)
        self.bad_rows += 1
        self.first_bad = self.first_bad or message

    def message(self, row: int, what: str) -> str:
        """Return a line that says where and what."""
        return f"{self.path}:{row}: {what}"

    def error(self, what: str) -> WorkloadError:
        """Return an error about the file as a whole."""
        return WorkloadError(f"{self.path}: {what}")


def shown(value: object) -> str:
    """Return a value as a message shows it, cut to a bearable length."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def wrong_tokens(name: str, value: int, least: int = 1) -> str | None:
    """Return what is wrong with a number of tokens, or None."""
    if least <= value <= MOST_TOKENS:
        return None
    return f"{name} {shown(value)} must be a whole number from {least} to {MOST_TOKENS:,}"
