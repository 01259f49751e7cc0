"""What a trace says of a request, whatever its format."""

from typing import NamedTuple

MOST_TOKENS = 10_000_000


class TraceRow(NamedTuple):
    """One request: when it came, and how long prompt and answer were. The times of a trace ascend."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
