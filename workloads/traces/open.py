"""Traces opened: a file, or a folder of files of one format, whose requests are read row by row, checked on their way.

What every format has in common is checked here: times that ascend, arrivals no server could ever see (a wrong unit),
sessions whose names two files share, formats mixed in a folder, files without requests.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from workloads.errors import WorkloadError
from workloads.traces.format import Clock, Format
from workloads.traces.head import files_in, format_of
from workloads.traces.reading import Reading, ReadOptions
from workloads.traces.request import TraceRequest

MOST_PER_S = 1e5  # requests a second over a whole trace; a million-user service sees a tenth of it
_RATE_FROM = 1000  # requests at the beginning; fewer may be a burst
_RATE_FROM_ALL = 100  # requests of a whole file


@dataclass(slots=True)
class OpenTrace:
    """A trace to iterate over, again and again; `notes` and bad rows are of the last pass so far."""

    path: Path
    format: Format
    files: tuple[Path, ...]
    options: ReadOptions
    notes: list[str] = field(default_factory=list)
    bad_rows: int = 0
    first_bad: str = ""

    def __iter__(self) -> Iterator[TraceRequest]:
        """Yield the requests up to the limit; of a folder, one file after another.

        Raises WorkloadError, with file and row, for what is wrong.
        """
        return islice(self._all(), self.options.limit)

    def _all(self) -> Iterator[TraceRequest]:
        self.notes, self.bad_rows, self.first_bad = [], 0, ""
        owners: dict[str, Path] = {}
        several = len(self.files) > 1
        before_s, found = 0.0, False
        for path in self.files:
            reading = Reading(path, self.options)
            try:
                requests = self.format.read(reading)
                if self.format.clock is Clock.TRACE and not self.format.drawn:
                    requests = _ascending(reading, requests, before_s)
                for request in requests:
                    found = True
                    if several:
                        _own(owners, request, path)
                        yield request._replace(file=path.name)
                    else:
                        yield request
                    before_s = request.at_s or before_s
            finally:
                self._keep(reading)
        if not found:
            many = f": all {self.bad_rows} rows are bad, the first: {self.first_bad}" if self.bad_rows else ""
            raise WorkloadError(f"{self.path}: no requests in it{many}")

    def _keep(self, reading: Reading) -> None:
        self.notes += [note for note in reading.notes if note not in self.notes]
        self.bad_rows += reading.bad_rows
        self.first_bad = self.first_bad or reading.first_bad


def open_trace(path: Path, options: ReadOptions = ReadOptions()) -> OpenTrace:
    """Return a trace, recognised but not read.

    Raises WorkloadError if there is no such file, it is empty or binary, or no format is its.
    """
    try:
        path.stat()
    except FileNotFoundError:
        raise WorkloadError(f"{path}: there is no such file") from None
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise WorkloadError(f"{str(path)!r}: no file can have this name") from None
    found = format_of(path, options.format)
    if not path.is_dir() or (found.recognises_folder is not None and found.recognises_folder(path)):
        return OpenTrace(path, found, (path,), options)
    files = []
    for file in files_in(path):
        own = format_of(file, options.format)
        if own is not found:
            raise WorkloadError(
                f"{file}: {own.title}, where the files before it are {found.title}: one format a folder"
            )
        files.append(file)
    return OpenTrace(path, found, tuple(files), options)


def _own(owners: dict[str, Path], request: TraceRequest, path: Path) -> None:
    if request.session is not None and owners.setdefault(request.session, path) != path:
        first = owners[request.session].name
        raise WorkloadError(f"{path}:{request.row}: session {request.session[:60]!r} is in {first} already")


def _ascending(reading: Reading, requests: Iterator[TraceRequest], before_s: float) -> Iterator[TraceRequest]:
    """Pass on what ascends; refuse, or count, what does not, and rates that only a wrong unit explains."""
    first_s, number = 0.0, 0
    at_s = before_s
    for request in requests:
        at_s = request.at_s if request.at_s is not None else before_s
        if at_s < before_s:
            where = "above it" if number else "that the file before it ends with"
            reading.bad(request.row, f"{at_s:.10g} s is before the {before_s:.10g} s {where}: times must ascend")
            continue
        if not number:
            first_s = at_s
        number += 1
        before_s = at_s
        if number == _RATE_FROM:
            _check_rate(reading, number, at_s - first_s)
        yield request
    if number >= _RATE_FROM_ALL:
        _check_rate(reading, number, at_s - first_s)


def _check_rate(reading: Reading, requests: int, span_s: float) -> None:
    if span_s > 0 and requests / span_s > MOST_PER_S:
        rate = requests / span_s
        raise reading.error(
            f"{requests:,} requests in {span_s:.3g} s are {rate:.1e} a second: are times in another unit?"
        )
