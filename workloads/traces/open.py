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
from workloads.traces.head import files_in, folder_format, format_of
from workloads.traces.reading import Reading, ReadOptions, shown
from workloads.traces.request import TraceRequest

MOST_PER_S = 1e5  # requests a second over a whole trace; a million-user service sees a tenth of it
_RATE_FROM = 1000  # requests at the beginning; fewer may be a burst
_RATE_FROM_ALL = 100  # requests of a whole file
_FEW, _MOST_PER_S_OF_FEW = 10, 5e5  # a client's burst of ten is stamped within some 100 us


@dataclass(slots=True)
class OpenTrace:
    """A trace to iterate over, again and again; `notes` and bad rows are of the last pass so far."""

    path: Path
    format: Format
    files: tuple[Path, ...]
    options: ReadOptions
    refused: tuple[str, ...] = ()  # files of a folder that are of no format: each counts as a bad row
    notes: list[str] = field(default_factory=list)
    bad_rows: int = 0
    first_bad: str = ""

    def __iter__(self) -> Iterator[TraceRequest]:
        """Yield the requests up to the limit; of a folder, one file after another.

        Raises WorkloadError, with file and row, for what is wrong.
        """
        return islice(self._all(), self.options.limit)

    def _all(self) -> Iterator[TraceRequest]:
        self.notes, self.bad_rows, self.first_bad = [], len(self.refused), next(iter(self.refused), "")
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
                        taken = _owner(owners, request, path)
                        if taken is not None:
                            reading.bad(request.row, f"session {shown(request.session)} is in {taken.name} already")
                            continue
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
    if not path.is_dir():
        return OpenTrace(path, format_of(path, options.format), (path,), options)
    whole = folder_format(path) if options.format is None else format_of(path, options.format)
    if whole is not None and whole.recognises_folder is not None and whole.recognises_folder(path):
        return OpenTrace(path, whole, (path,), options)
    return _open_folder(path, options)


def _open_folder(folder: Path, options: ReadOptions) -> OpenTrace:
    """Return a folder of files of one format; files of none count as bad rows where those are skipped."""
    files: dict[Path, Format] = {}
    refused: list[WorkloadError] = []
    for file in files_in(folder):
        try:
            files[file] = format_of(file, options.format)
        except WorkloadError as error:
            if not options.skip_bad_rows:
                raise
            refused.append(error)
    if not files:
        raise refused[0]
    found = next(iter(files.values()))
    for file, own in files.items():
        if own is not found:
            raise WorkloadError(
                f"{file}: {own.title}, where the files before it are {found.title}: one format a folder"
            )
    return OpenTrace(folder, found, tuple(files), options, refused=tuple(map(str, refused)))


def _owner(owners: dict[str, Path], request: TraceRequest, path: Path) -> Path | None:
    """Return another file that has had the request's session, or None."""
    owner = path if request.session is None else owners.setdefault(request.session, path)
    return None if owner == path else owner


def _ascending(reading: Reading, requests: Iterator[TraceRequest], before_s: float) -> Iterator[TraceRequest]:
    """Pass on what ascends; refuse, or count, what does not, and rates that only a wrong unit explains."""
    first_s, number = 0.0, 0
    for request in requests:
        at_s = request.at_s if request.at_s is not None else before_s
        if at_s < before_s:
            where = "above it" if number else "that the file before it ends with"
            reading.bad(request.row, f"{_exact(at_s)} s is before the {_exact(before_s)} s {where}: times must ascend")
            continue
        if not number:
            first_s = at_s
        number += 1
        before_s = at_s
        if number == _RATE_FROM:
            _check_rate(reading, number, at_s - first_s)
        yield request
    if number >= _RATE_FROM_ALL:
        _check_rate(reading, number, before_s - first_s)
    elif number >= _FEW:
        _check_rate(reading, number, before_s - first_s, _MOST_PER_S_OF_FEW)


def _exact(at_s: float) -> str:
    """Return a time to the microsecond, also where it counts from 1970."""
    return f"{at_s:.6f}".rstrip("0").rstrip(".")


def _check_rate(reading: Reading, requests: int, span_s: float, most_per_s: float = MOST_PER_S) -> None:
    if span_s > 0 and requests / span_s > most_per_s:
        rate = requests / span_s
        raise reading.error(
            f"{requests:,} requests in {span_s:.3g} s are {rate:.1e} a second: are times in another unit?"
        )
