"""What the step-time model needs to know of a batch: a handful of sums, no requests."""

from typing import NamedTuple


class BatchShape(NamedTuple):
    """One forward pass in numbers.

    A prefill pair is one query attending to one key: a chunk of q new tokens on `past` tokens has
    q * (past + (q + 1) / 2) of them. A decode row computes one token; its KV tokens are those it attends to.
    `decode_kv_tokens_shared` counts what the decode rows read more than once between them because they share
    blocks: reading a common prefix once instead of once a row saves that many.
    """

    tokens: int
    sampled: int
    prefill_pairs: float
    decode_rows: int
    decode_kv_tokens: int
    decode_kv_tokens_shared: float = 0.0
    holds_prefill: bool = False
    prefill_kv_tokens: float = 0.0  # context that prefilling requests attend to, each once: a short chunk reads it all
    scanned_tokens: int = 0  # output that penalties look through
    structured_rows: int = 0  # sequences whose next token a grammar restricts
    hashed_tokens: int = 0  # prompt tokens whose blocks are named for prefix caching
