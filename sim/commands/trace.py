"""`kvcliff trace`: what a trace of any format holds, what comes back in it, and for how long it must be kept."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from sim.commands.files import check_writable
from sim.errors import ScenarioError
from sim.report.trace_json import trace_json
from sim.report.trace_words import NO_CONTENT, arrivals_line, half_life, readings, understood
from workloads.sharing.path_collector import SPAN_BLOCK_TOKENS, PathCollector
from workloads.sharing.retention import Retention, retention
from workloads.traces.open import OpenTrace, open_trace
from workloads.traces.reading import ReadOptions
from workloads.traces.request import TraceRequest
from workloads.traces.statistics import TraceStatistics, trace_statistics

_PATIENCE_S = 2.0
_EVERY = 256  # requests between two looks at the clock


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The command's flags, checked."""

    path: Path
    read: ReadOptions = field(default_factory=ReadOptions)
    retention: bool = False
    count_answers: bool = False
    out: Path | None = None
    as_json: bool = False


def trace_command(options: TraceOptions) -> None:
    """Read the trace once, tell what was found, draw and write it."""
    trace = open_trace(options.path, options.read)
    folder = None if options.out is None else options.out
    if folder is not None:
        check_writable("--out", folder)
    found, kept = _read(trace, options)
    if options.as_json:
        click.echo(json.dumps(trace_json(trace, found, kept)))
    else:
        _show(trace, found, kept, retention_asked=options.retention)
    if folder is not None:
        written = _write(trace, found, kept, folder)
        if not options.as_json:
            from sim.report.terminal import print_files

            print_files(written)


def _read(trace: OpenTrace, options: TraceOptions) -> tuple[TraceStatistics, Retention | None]:
    collector = None
    if options.retention:
        span_block_tokens = options.read.block_tokens or SPAN_BLOCK_TOKENS
        collector = PathCollector(trace.format.clock, span_block_tokens=span_block_tokens)
    with _progress() as told:
        requests = 0

        def take(request: TraceRequest) -> None:
            nonlocal requests
            requests += 1
            if collector is not None:
                collector.add(request)
            if requests % _EVERY == 0:
                told(f"read {requests:,} requests")

        found = trace_statistics(trace, answers=options.count_answers, take=take)
        if collector is None or found.sharing is None:
            return found, None
        if collector.mixed:
            raise ScenarioError(f"{trace.path}: no retention curve: its requests count in blocks of several sizes")
        return found, retention(collector, lambda done, of: told(f"retention curves, {done} of {of} steps"))


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Yield what to tell of the work; it is shown on stderr, if that is a terminal, from the third second on."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console

    began_s = time.monotonic()
    status = Console(stderr=True).status("reading")

    def tell(text: str) -> None:
        if time.monotonic() - began_s > _PATIENCE_S:
            status.update(text)
            status.start()

    try:
        yield tell
    finally:
        status.stop()


def _show(trace: OpenTrace, found: TraceStatistics, kept: Retention | None, *, retention_asked: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from sim.report.terminal import plain_console
    from sim.report.trace_tables import distributions_table, kept_table, sharing_table, sizes_table

    console = plain_console()
    console.print(Text.assemble((trace.path.name, "bold"), "  ", understood(trace, found)))
    for line in readings(trace, found, kept):
        console.print(Padding(line, (0, 0, 0, 2)), style="dim")
    console.print()
    console.print(distributions_table(found))
    arrivals = arrivals_line(found)
    if arrivals:
        console.print(arrivals)
    console.print()
    if found.sharing is None:
        console.print(NO_CONTENT + ("; so no retention curve either" if retention_asked else ""))
        return
    console.print(sharing_table(found.sharing))
    if kept is None:
        return
    console.print()
    console.print(sizes_table(kept))
    times = kept_table(kept)
    if times is not None:
        console.print()
        console.print(times)
    console.print()
    for line in half_life(kept):
        console.print(line)


def _write(trace: OpenTrace, found: TraceStatistics, kept: Retention | None, folder: Path) -> list[Path]:
    from sim.report.atomic import replacing
    from sim.report.figure_files import save_figure
    from sim.report.trace_sheet import trace_sheet

    try:
        written = save_figure(trace_sheet(trace, found, kept), folder / "trace")
        with replacing(folder / "trace.json") as path:
            path.write_text(json.dumps(trace_json(trace, found, kept), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"{folder}: cannot be written: {error.strerror}") from None
    return [*written, folder / "trace.json"]
