"""BurstGPT's traces: CSV of `Timestamp` in seconds, `Request tokens` and `Response tokens`; file 3 has sessions too.

An answer of 0 tokens is a request that failed. File 3 begins at 19,440,110 s and gives `Session ID` for conversations
and `Elapsed time` of the request. There is no content.
"""

from collections.abc import Iterator

from workloads.traces.csv_rows import BadCell, csv_rows
from workloads.traces.format import Format, Head
from workloads.traces.reading import LENGTHS_ALONE, Reading
from workloads.traces.request import TraceRequest

AT, PROMPT, OUTPUT = COLUMNS = ("Timestamp", "Request tokens", "Response tokens")
SESSION, ELAPSED = "Session ID", "Elapsed time"
_NO_SESSION = {"", "nan", "None", "-1"}


def recognises(head: Head) -> bool:
    """Tell by the columns."""
    return set(COLUMNS) <= set(head.header)


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the requests that were answered."""
    reading.note(LENGTHS_ALONE)
    over_s: dict[str, float] = {}  # when the session's last answer was complete
    rows = failed = 0
    for row in csv_rows(reading, COLUMNS):
        try:
            at_s, output_tokens = row.seconds(AT), row.tokens(OUTPUT, least=0)
            prompt_tokens = row.tokens(PROMPT, least=1 if output_tokens else 0)
            api_s = row.seconds(ELAPSED) if row.text(ELAPSED) not in _NO_SESSION else None
        except BadCell as error:
            reading.bad(row.number, str(error))
            continue
        rows += 1
        if not output_tokens:
            reading.note("requests with 0 response tokens failed, and are left out")
            failed += 1
            continue
        session = None if row.text(SESSION) in _NO_SESSION else row.text(SESSION)
        gap_s = None
        if session is not None:
            gap_s = max(at_s - over_s[session], 0.0) if session in over_s else None
            over_s[session] = at_s + (api_s or 0.0)
        yield TraceRequest(row.number, prompt_tokens, output_tokens, at_s, session, gap_s=gap_s, api_s=api_s)
    if failed:
        reading.note(f"{failed:,} of {rows:,} requests failed")


FORMAT = Format("burstgpt", "BurstGPT CSV", recognises, read)
