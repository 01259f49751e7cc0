"""Requests as Mooncake's rows: times in ms, whole prompts, ids of their blocks, the last of which may be partial."""

from collections.abc import Iterable, Iterator
from typing import Any

from workloads.errors import WorkloadError
from workloads.export.blocks import BlockNames
from workloads.export.summary import Summary
from workloads.traces.request import TraceRequest

Row = dict[str, Any]


def mooncake_rows(
    requests: Iterable[TraceRequest], names: BlockNames, summary: Summary, *, ids_needed: bool = False
) -> Iterator[Row]:
    """Yield a row a request, in their order.

    A request of which nobody knows the content has no ids, or its own where they are needed. Raises WorkloadError for
    a request without a time.
    """
    for request in requests:
        if request.at_s is None:
            raise WorkloadError(f"request {request.row} has no time, and a Mooncake row needs one")
        row: Row = {
            "timestamp": milliseconds(request.at_s),
            "input_length": request.prompt_tokens,
            "output_length": request.output_tokens,
        }
        hit_tokens = 0
        if request.content is not None or ids_needed:
            row["hash_ids"], hit_tokens = names.of(request)
        summary.add(request, hit_tokens)
        yield row


def milliseconds(seconds: float) -> float:
    """Return a time in ms, to the nearest microsecond; whole ones as whole numbers."""
    value = round(seconds * 1e3, 3)
    return int(value) if value == int(value) else value
