"""BLIS's TraceV2 (inference-sim, sim/workload/tracev2.go): a YAML header and a CSV of requests, times in microseconds.

`input_tokens` are beside the prefix, `prefix_length` tokens of the `prefix_group`. Where the header says
`session_context_growth: accumulate`, they are what a round adds to its session; otherwise each round's are its own.
Either file, or a folder of the two, is the trace; a CSV without header is read as one that says nothing.
"""

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Literal

from workloads.span import Span, joined, total_tokens
from workloads.traces.csv_rows import BadCell, CsvRow, csv_rows
from workloads.traces.format import Format, Head
from workloads.traces.json_rows import Row
from workloads.traces.reading import Reading, wrong_tokens
from workloads.traces.request import MOST_SECONDS, TraceRequest
from workloads.traces.spec_document import spec_document, yaml_keys

COLUMNS = ("arrival_time_us", "session_id", "round_index", "input_tokens", "output_tokens")
_KEY = "trace_version"
_YAML = (".yaml", ".yml")


class _Header(Row, frozen=True, gc=False):
    trace_version: int
    time_unit: str | None = None
    session_context_growth: Literal["", "accumulate"] | None = None


def recognises(head: Head) -> bool:
    """Tell by the CSV's columns, or the header's version."""
    return set(COLUMNS) <= set(head.header) or (head.path.suffix in _YAML and _KEY in yaml_keys(head))


def recognises_folder(folder: Path) -> bool:
    """Tell by a header with its CSV, alone."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    headers = [path for path in files if path.suffix in _YAML]
    tables = [path for path in files if path.suffix == ".csv"]
    return len(headers) == len(tables) == 1 and _KEY in yaml_keys(Head(headers[0], ""))


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the requests that were answered."""
    header_path, table_path = _pair(reading)
    grows = False
    if header_path is None:
        reading.note("no header beside the CSV: each round's input_tokens are its whole prompt, beside the prefix")
    else:
        header = spec_document(Reading(header_path, reading.options), _Header)
        if header.time_unit not in {None, "us", "microseconds", "µs"}:
            raise reading.error(
                f"time_unit {header.time_unit[:30]!r} must be 'us'" if header.time_unit else "time_unit"
            )
        grows = header.session_context_growth == "accumulate"
        reading.note(f"input_tokens are {'what a round adds' if grows else 'a whole prompt'}, beside its prefix")
    of_table = Reading(table_path, reading.options, reading.notes)
    rounds = _Rounds(of_table, grows=grows)
    for row in csv_rows(of_table, COLUMNS):
        try:
            request = rounds.request(row)
        except BadCell as error:
            of_table.bad(row.number, str(error))
            continue
        finally:
            reading.bad_rows, reading.first_bad = of_table.bad_rows, of_table.first_bad
        if request is not None:
            yield request


class _Rounds:
    """What has been of each session: tokens on its line of content, the next round, and when its answer was over."""

    def __init__(self, reading: Reading, *, grows: bool) -> None:
        self._reading, self._grows = reading, grows
        self._tokens: dict[str, int] = {}
        self._over_s: dict[str, float] = {}

    def request(self, row: CsvRow) -> TraceRequest | None:
        """Return a row's request, or None of one that failed; raises BadCell."""
        if row.text("status") not in {"", "ok"}:
            self._reading.note("requests whose status is not ok are left out")
            return None
        new_tokens, output_tokens = row.tokens("input_tokens", least=0), row.tokens("output_tokens", least=0)
        group, prefix_tokens = row.text("prefix_group"), 0
        if group and row.text("prefix_length"):
            prefix_tokens = row.tokens("prefix_length", least=0)
        if not group and row.text("server_input_tokens") not in {"", "0"}:
            new_tokens = row.tokens("server_input_tokens")
        if not output_tokens:
            self._reading.note("answers of 0 tokens count as 1")
        session = row.text("session_id") or None
        line: Hashable = ("row", row.number)
        start = 0
        if session is not None and self._grows:
            line, start = ("session", session), self._tokens.get(session, 0)
        front = [Span(("prefix", group), 0, prefix_tokens), Span(line, 0, start)]
        content = joined([*front, Span(line, start, new_tokens)])
        wrong = wrong_tokens("prompt tokens", total_tokens(content))
        if wrong:
            raise BadCell(wrong)
        answer = Span(line, start + new_tokens, output_tokens or 1)
        at_s, api_s = _times(row)
        gap_s = self._gap(row, session, at_s)
        if session is not None:
            self._tokens[session] = answer.start + answer.length
            self._over_s[session] = at_s + (api_s or 0.0)
        return TraceRequest(
            row.number,
            total_tokens(content),
            output_tokens or 1,
            at_s,
            session,
            content,
            gap_s,
            api_s,
            answer=answer,
        )

    def _gap(self, row: CsvRow, session: str | None, at_s: float) -> float | None:
        """Return the recorded think time, or else what passed since the last answer; none of a session's first."""
        if session is None or session not in self._over_s:
            return None
        if row.text("think_time_us") not in {"", "0"}:
            return row.seconds("think_time_us", per_second=1e6)
        return max(at_s - self._over_s[session], 0.0)


def _times(row: CsvRow) -> tuple[float, float | None]:
    """Return when a request was sent, and how long its answer took."""
    sent = "send_time_us" if row.text("send_time_us") not in {"", "0"} else "arrival_time_us"
    at_s = row.seconds(sent, per_second=1e6)
    if row.text("last_chunk_time_us") in {"", "0"}:
        return at_s, None
    api_s = row.seconds("last_chunk_time_us", per_second=1e6) - at_s
    if not 0 <= api_s <= MOST_SECONDS:
        raise BadCell(f"last_chunk_time_us {row.text('last_chunk_time_us')} is before {sent} {row.text(sent)}")
    return at_s, api_s


def _pair(reading: Reading) -> tuple[Path | None, Path]:
    """Return header, if there is one, and table: of one name, or alone in a folder."""
    path = reading.path
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in {*_YAML, ".csv"})
        return next(file for file in files if file.suffix in _YAML), next(
            file for file in files if file.suffix == ".csv"
        )
    if path.suffix in _YAML:
        table = path.with_suffix(".csv")
        if not table.is_file():
            raise reading.error(f"the requests of this header are expected in {table.name}, which is not there")
        return path, table
    header = next((path.with_suffix(suffix) for suffix in _YAML if path.with_suffix(suffix).is_file()), None)
    return header, path


FORMAT = Format("blis-trace", "BLIS TraceV2", recognises, read, recognises_folder=recognises_folder)
