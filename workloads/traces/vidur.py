"""Vidur's request traces: CSV with `arrived_at` in seconds, `num_prefill_tokens` and `num_decode_tokens`.

Further columns are left alone. The same three columns are what most tables of request lengths can be turned into.
"""

from collections.abc import Iterator

from workloads.traces.csv_rows import BadCell, csv_rows
from workloads.traces.format import Format, Head
from workloads.traces.reading import LENGTHS_ALONE, Reading
from workloads.traces.request import TraceRequest

ARRIVED, PROMPT, OUTPUT = COLUMNS = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")


def recognises(head: Head) -> bool:
    """Go by the two columns that are Vidur's own."""
    return {PROMPT, OUTPUT} <= set(head.header)


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the requests; they have lengths alone."""
    reading.note(LENGTHS_ALONE)
    for row in csv_rows(reading, COLUMNS):
        try:
            request = TraceRequest(row.number, row.tokens(PROMPT), row.tokens(OUTPUT), row.seconds(ARRIVED))
        except BadCell as error:
            reading.bad(row.number, str(error))
            continue
        yield request


FORMAT = Format("vidur", "Vidur CSV", recognises, read)
