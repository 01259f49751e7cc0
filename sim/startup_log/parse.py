"""A log may hold several starts: cut it into them, and take the last that sized its KV or refused to."""

import re
from collections.abc import Iterable

from sim.startup_log.assemble import facts_of
from sim.startup_log.errors import StartupLogError
from sim.startup_log.facts import StartupFacts
from sim.startup_log.lines import plain, rank_of
from sim.startup_log.start import Start

LONGEST_LINE = 2**16  # characters that are looked at; an engine's settings take about 12,000

# A server prints one of the first kind once, and some of the second kind in front of or behind it.
SERVER_OPENS = ("API server version", "█  version", "server_args=ServerArgs(")
SERVER_BEGINS = ("args: Namespace(", "non-default args: {", "sglang version")
_ENGINE_OPENS = re.compile(r"Initializing an? (?:V[01] )?LLM [eE]ngine")


def parse_lines(lines: Iterable[str], place: str) -> StartupFacts:
    """Return the facts of the last complete start in a log's lines.

    Raises StartupLogError where no line is one of vLLM's or SGLang's about memory, or where a number cannot be.
    """
    return parse_numbered(enumerate(lines, start=1), place)


def parse_numbered(lines: Iterable[tuple[int, str]], place: str, notes: Iterable[str] = ()) -> StartupFacts:
    """Return the same of the lines worth reading, each with its number."""
    starts = [Start(place, 1)]
    for number, line in lines:
        for part in line.split("\r"):  # a progress bar returns the carriage
            text = plain(part[:LONGEST_LINE])
            if not text:
                continue
            opener = _opener(text)
            if opener is not None and _is_new(opener, starts[-1]):
                starts.append(Start(place, number))
            if opener is not None:
                starts[-1].openers.add(opener)
            starts[-1].read(number, text)
    starts = [start for start in starts if start.engines]
    if not starts:
        raise StartupLogError(f"{place}: no line of it is one that vLLM or SGLang print about memory while starting")
    chosen = next((start for start in reversed(starts) if start.is_complete), starts[-1])
    return facts_of(chosen, [*notes, *_about_restarts(starts, chosen)])


def _opener(text: str) -> str | None:
    """Return what opens a start with this line: a server's words, an engine process by name, or None."""
    server = next((words for words in (*SERVER_OPENS, *SERVER_BEGINS) if words in text), None)
    if server or "LLM " not in text or not _ENGINE_OPENS.search(text):
        return server
    return f"engine {rank_of(text)}"


def _is_new(opener: str, current: Start) -> bool:
    if opener in SERVER_BEGINS:
        return current.has_begun
    return opener in current.openers or (opener in SERVER_OPENS and current.has_begun)


def _about_restarts(starts: list[Start], chosen: Start) -> list[str]:
    if len(starts) == 1:
        return []
    which = "the last" if chosen is starts[-1] else "the last that sized its KV"
    return [f"the log holds {len(starts)} starts: {which}, from line {chosen.first_line}, is read"]
