"""Azure's LLM inference traces of 2023, 2024 and LMM 2025: CSV of `TIMESTAMP`, `ContextTokens` and `GeneratedTokens`.

Times are absolute with 7 fractional digits, with or without a zone. There is neither session nor content.
"""

from collections.abc import Iterator

from workloads.traces.csv_rows import BadCell, csv_rows
from workloads.traces.format import Format, Head
from workloads.traces.reading import LENGTHS_ALONE, Reading, shown
from workloads.traces.request import TraceRequest
from workloads.traces.timestamps import epoch_s

AT, PROMPT, OUTPUT = COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
IMAGES = "NumImages"


def recognises(head: Head) -> bool:
    """Tell by the columns."""
    return set(COLUMNS) <= set(head.header)


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the requests, times in seconds since 1970."""
    reading.note(LENGTHS_ALONE)
    for row in csv_rows(reading, COLUMNS):
        at_s = epoch_s(row.text(AT))
        if at_s is None:
            reading.bad(row.number, f"{AT} {shown(row.text(AT))} must be a time such as 2023-11-16 18:17:03.9799600")
            continue
        try:
            prompt_tokens, output_tokens = row.tokens(PROMPT), row.tokens(OUTPUT, least=0)
        except BadCell as error:
            reading.bad(row.number, str(error))
            continue
        if not output_tokens:
            reading.note("answers of 0 tokens count as 1")
        if row.text(IMAGES) not in {"", "0"}:
            reading.note("some requests hold images: ContextTokens is taken as the whole prompt, images included")
        yield TraceRequest(row.number, prompt_tokens, output_tokens or 1, at_s)


FORMAT = Format("azure", "Azure CSV", recognises, read)
