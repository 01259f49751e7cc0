"""What one layer's KV takes on one GPU: bytes of a token, or of a state.

Heads are split over tensor-parallel ranks, and a rank keeps at least one; a latent (MLA) and an indexer's keys are
whole on every rank. Checked on posted start-ups: 20 of plain heads to 0.2 %, Kimi K2.5's latent exactly.
"""

from sim.catalog.dtypes import KvDtype
from sim.catalog.layers import STATE_DTYPES, AttentionKv, IndexerKv, LatentKv, RecurrentState

_BITS16_BYTES = 2


def token_bytes(kind: AttentionKv | LatentKv | IndexerKv, dtype: KvDtype, tensor_parallel_size: int) -> float:
    """Return the bytes of one token in one layer on one rank."""
    match kind:
        case AttentionKv():
            heads = max(1, kind.kv_heads // tensor_parallel_size)
            return heads * dtype.head_bytes(kind.key_dim, kind.value_dim)
        case LatentKv():
            return dtype.latent_bytes(kind.latent_dim, kind.rope_dim)
        case IndexerKv():
            return kind.token_bytes


def state_bytes(state: RecurrentState, tensor_parallel_size: int, draft_tokens: int, state_dtype: str) -> int:
    """Return the bytes of one sequence's state in one layer on one rank.

    Draft tokens lengthen what the convolution keeps. `state_dtype` "auto" is the checkpoint's own; the
    convolution's inputs are in 16 bits. Checked: blocks of 544 (Qwen3-Next), 784 and 1,088 tokens as printed.
    """
    own = state.state_dtype or "auto"
    element_bytes = STATE_DTYPES[own if state_dtype == "auto" else state_dtype]
    convolution = state.conv_channels * (state.conv_steps + draft_tokens) * _BITS16_BYTES
    return (convolution + state.state_elements * element_bytes) // tensor_parallel_size
