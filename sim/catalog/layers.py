"""What one layer of a model keeps of the tokens before: the facts from which the KV cache is laid out.

Sizes are of the whole model, in elements; how tensor parallelism splits them, and what an element takes, is the
ledger's business. A layer may keep several things (latent and indexer keys, or attention beside a recurrent state),
or nothing of its own (it shares another layer's KV).
"""

from dataclasses import dataclass

STATE_DTYPES = {"float32": 4, "fp32": 4, "bfloat16": 2, "float16": 2, "auto": 2}  # bytes of an element
_INDEXER_SCALED, _INDEXER_SCALE_BYTES = 128, 4


@dataclass(frozen=True, slots=True)
class AttentionKv:
    """Keys and values by head. A window keeps the last tokens only, a chunk those of the current chunk."""

    kv_heads: int
    key_dim: int  # elements of one head's key
    value_dim: int
    window_tokens: int | None = None
    chunk_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class LatentKv:
    """One compressed vector a token for all heads (MLA): whole on every tensor-parallel rank."""

    latent_dim: int  # kv_lora_rank
    rope_dim: int  # qk_rope_head_dim


@dataclass(frozen=True, slots=True)
class IndexerKv:
    """Keys by which sparse attention picks tokens (DeepSeek V3.2): whole on every rank, in a format of their own."""

    key_dim: int
    pool_tokens: int = 1  # that share one key (GLM-5.3)

    @property
    def token_bytes(self) -> float:
        """Bytes of one token in one layer: fp8, and an fp32 scale for each 128 elements (vLLM's indexer)."""
        return (self.key_dim + -(-self.key_dim // _INDEXER_SCALED) * _INDEXER_SCALE_BYTES) / self.pool_tokens


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """A state of fixed size a sequence: linear attention, Mamba. Split over tensor-parallel ranks."""

    conv_channels: int  # inputs of the short convolution, each kept for its last `conv_steps` tokens
    conv_steps: int  # kernel - 1; draft tokens add as many
    state_elements: int
    state_dtype: str | None = None  # "float32" where the config says so; None: the model's own type


KvKind = AttentionKv | LatentKv | IndexerKv | RecurrentState
LayerKv = tuple[KvKind, ...]  # of one layer
