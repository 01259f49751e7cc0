"""One transformer: its shape in the words of a config.json, its layers, and what follows from them.

Counts leave out norms, biases and rotary tables (under 0.1 % of the weights of every catalogued model).
Byte and FLOP figures are for the whole model unless a tensor_parallel_size is given.
"""

from collections import Counter
from dataclasses import dataclass, fields
from functools import lru_cache

from sim.catalog.dtypes import kv_dtype
from sim.catalog.layers import AttentionKv, IndexerKv, KvKind, LatentKv, LayerKv, RecurrentState
from sim.catalog.weight_scheme import WeightScheme, weight_scheme
from sim.catalog.weights import Layer, dense_mlp, expert_mlps, grouped_attention, router
from sim.errors import CatalogError, MemoryLedgerError

_BITS16_BYTES = 2


@dataclass(frozen=True, slots=True)
class Model:
    """The shape of a model, in the words of a Hugging Face config.json, and its layers where they differ."""

    name: str
    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tie_word_embeddings: bool
    max_position_embeddings: int
    source: str
    weight_dtype: str = "bf16"  # the checkpoint's own, as the step-time terms call it; "auto" means it
    num_experts: int | None = None
    num_experts_per_tok: int | None = None
    moe_intermediate_size: int | None = None
    qk_norm: bool = False  # queries and keys are normalised: two more kernels a layer
    body: tuple[Layer, ...] = ()  # each hidden layer; empty: all alike, as the sizes above say
    mtp: tuple[Layer, ...] = ()  # multi-token-prediction layers of the checkpoint: drafts, not loaded unless asked for
    scheme: WeightScheme | None = None  # of the checkpoint's weights; None: `weight_dtype`, everywhere
    kv_cache_dtype: str | None = None  # that "auto" means, where the checkpoint says so
    vision_params: int = 0  # of encoders, in 16 bits and whole on every rank
    per_layer_embedding_params: int = 0  # embeddings for each layer and their projection, in 16 bits
    rotary_dims: tuple[int, ...] = ()  # of each table of rotary positions
    checkpoint_bytes: int | None = None  # of the files, where their index or the catalog says so
    shape_from: str = "catalog"  # or "config.json"
    read_as: str | None = None  # how a name was read, where it is not the catalog's own

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in _SIZES or (value is None and field.default is None):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise CatalogError(f"{self.source}: {field.name} {value!r} must be a whole number above 0")
        if self.num_attention_heads % self.num_key_value_heads:
            raise CatalogError(
                f"{self.source}: num_attention_heads {self.num_attention_heads} must be a multiple of "
                f"num_key_value_heads {self.num_key_value_heads}"
            )
        experts = (self.num_experts, self.num_experts_per_tok, self.moe_intermediate_size)
        if any(part is None for part in experts) and any(part is not None for part in experts):
            raise CatalogError(f"{self.source}: num_experts, num_experts_per_tok and moe_intermediate_size go together")
        if self.body and len(self.body) != self.num_hidden_layers:
            raise CatalogError(f"{self.source}: {len(self.body)} layers for num_hidden_layers {self.num_hidden_layers}")

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Each hidden layer, in order."""
        return self.body or (uniform_layer(self),) * self.num_hidden_layers

    @property
    def kv_layers(self) -> tuple[LayerKv, ...]:
        """What each hidden layer keeps; empty for one without KV of its own."""
        return tuple(layer.kv for layer in self.layers)

    @property
    def mtp_kv(self) -> LayerKv:
        """What one multi-token-prediction layer keeps."""
        return self.mtp[0].kv if self.mtp else ()

    @property
    def linear_params(self) -> int:
        """Weights in all linear layers of the body: attention or recurrence, MLPs, every expert, routers."""
        return sum(layer.params for layer in self.layers)

    @property
    def active_linear_params(self) -> int:
        """Weights of the body that one token meets: `num_experts_per_tok` experts where there are experts."""
        return sum(layer.active_params for layer in self.layers)

    @property
    def embedding_params(self) -> int:
        """Weights of the input embedding."""
        return self.vocab_size * self.hidden_size

    @property
    def lm_head_params(self) -> int:
        """Weights the output head stores of its own: none when it is tied to the embedding."""
        return 0 if self.tie_word_embeddings else self.embedding_params

    @property
    def total_params(self) -> int:
        """All stored weights but drafts."""
        ends = self.embedding_params + self.lm_head_params + self.per_layer_embedding_params
        return self.linear_params + ends + self.vision_params

    @property
    def attention_flops_per_pair(self) -> int:
        """FLOPs of all layers that attend to everything for one (query, key) pair: scores and weighted values."""
        return sum(layer.pair_flops for layer in self._growing_layers)

    @property
    def linear_flops_per_token(self) -> int:
        """FLOPs of the body's linear layers for one token; the head is `head_flops_per_row`."""
        return 2 * self.active_linear_params

    @property
    def head_flops_per_row(self) -> int:
        """FLOPs of the output head for one row of logits, tied or not."""
        return 2 * self.embedding_params

    @property
    def rotary_table_bytes(self) -> int:
        """Bytes of the tables of rotary positions, whole on every rank: vLLM counts them as loaded weights.

        A cosine and a sine in 16 bits for each position and pair of elements: 0.03 GiB of Llama-3.1-8B's 14.99.
        """
        return self.max_position_embeddings * sum(self.rotary_dims) * _BITS16_BYTES

    def weight_bytes(
        self,
        weight_dtype: str,
        tensor_parallel_size: int = 1,
        *,
        layers: range | None = None,
        expert_parallel_size: int | None = None,
        encoder: bool = True,
    ) -> int:
        """Return the bytes of the weights on one GPU; embeddings, head, routers and encoders stay in 16 bits.

        "auto" is the checkpoint's own scheme, or its total size where that is known. A pipeline stage holds
        `layers`; the first stage also the embedding and the encoders, the last the head. Drafts are left out, and the
        encoders too without `encoder`. Raises MemoryLedgerError for an unknown type.
        """
        every = range(self.num_hidden_layers)
        scheme = self._own_scheme if weight_dtype == "auto" else weight_scheme(weight_dtype)
        part = self._bytes(
            scheme, tensor_parallel_size, every if layers is None else layers, expert_parallel_size, encoder=encoder
        )
        if weight_dtype != "auto" or self.checkpoint_bytes is None:
            return round(part)
        whole = self._bytes(scheme, 1, every, None, encoder=True) + self.draft_weight_bytes("auto")
        return round(self.checkpoint_bytes * part / whole)

    def draft_weight_bytes(self, weight_dtype: str, tensor_parallel_size: int = 1) -> int:
        """Return the bytes of the multi-token-prediction layers on one GPU; embedding and head are the model's."""
        scheme = self._own_scheme if weight_dtype == "auto" else weight_scheme(weight_dtype)
        after = self.num_hidden_layers
        return round(sum(self._layer_bytes(scheme, layer, after, tensor_parallel_size, None) for layer in self.mtp))

    def kv_bytes_per_token(self, kv_cache_dtype: str, tensor_parallel_size: int = 1) -> float:
        """Return the KV bytes one more token takes on one GPU, over all layers that keep every token.

        Raises MemoryLedgerError for an unknown type or for heads that do not divide. A GPU always holds at
        least one KV head, so capacity stops growing when tensor_parallel_size passes num_key_value_heads.
        """
        dtype = kv_dtype(kv_cache_dtype)
        kinds = Counter(kind for layer in self._growing_layers for kind in layer.kv)
        full, total = dtype.full_precision_layers, 0.0
        for kind, count in kinds.items():
            bits16, heads = min(full, count), 1
            match kind:
                case AttentionKv():
                    heads = self._kv_heads_per_gpu(kind.kv_heads, tensor_parallel_size)
                    plain = (kind.key_dim + kind.value_dim) * _BITS16_BYTES
                    own = dtype.head_bytes(kind.key_dim, kind.value_dim)
                case LatentKv():
                    plain = (kind.latent_dim + kind.rope_dim) * _BITS16_BYTES
                    own = dtype.latent_bytes(kind.latent_dim, kind.rope_dim)
                case IndexerKv():
                    total += count * kind.token_bytes
                    continue
                case RecurrentState():
                    continue
            full -= bits16
            total += heads * (bits16 * plain + (count - bits16) * own)
        return total

    @property
    def _own_scheme(self) -> WeightScheme:
        return weight_scheme(self.weight_dtype) if self.scheme is None else self.scheme

    @property
    def _growing_layers(self) -> tuple[Layer, ...]:
        """The layers that keep every token; those with windows where there are no others."""
        full = tuple(layer for layer in self.layers if any(map(_keeps_every_token, layer.kv)))
        return full or tuple(layer for layer in self.layers if any(isinstance(kind, AttentionKv) for kind in layer.kv))

    def _bytes(self, scheme: WeightScheme, ranks: int, stage: range, experts: int | None, *, encoder: bool) -> float:
        every = self.layers
        body = sum(self._layer_bytes(scheme, every[number], number, ranks, experts) for number in stage)
        ends, whole = 0, 0
        if 0 in stage:
            ends = self.embedding_params + self.per_layer_embedding_params
            whole = self.vision_params if encoder else 0
        if self.num_hidden_layers - 1 in stage:
            tied_elsewhere = self.tie_word_embeddings and 0 not in stage
            head = self.embedding_params if tied_elsewhere else self.lm_head_params
            body += head / ranks * scheme.head_bits / 8
        return body + (ends / ranks + whole) * _BITS16_BYTES

    @staticmethod
    def _layer_bytes(scheme: WeightScheme, layer: Layer, number: int, ranks: int, experts: int | None) -> float:
        return sum(
            scheme.bytes_of(number, linear, linear.rank_params(ranks, experts), ranks) for linear in layer.linears
        )

    def _kv_heads_per_gpu(self, kv_heads: int, tensor_parallel_size: int) -> int:
        if self.num_attention_heads % tensor_parallel_size:
            raise MemoryLedgerError(
                f"tensor_parallel_size {tensor_parallel_size} must divide the {self.num_attention_heads} "
                f"attention heads of {self.name}"
            )
        per_gpu, rest = divmod(kv_heads, tensor_parallel_size)
        if rest and tensor_parallel_size % kv_heads:
            raise MemoryLedgerError(
                f"tensor_parallel_size {tensor_parallel_size} must divide or be a multiple of the "
                f"{kv_heads} KV heads of {self.name}"
            )
        return max(1, per_gpu)


_SIZES = {
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "num_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "checkpoint_bytes",
}


@lru_cache(maxsize=64)
def uniform_layer(model: Model) -> Layer:
    """Return the layer that a model without a body repeats: full attention and a gated MLP, or experts."""
    hidden, heads, kv_heads, dim = (
        model.hidden_size,
        model.num_attention_heads,
        model.num_key_value_heads,
        model.head_dim,
    )
    attention = grouped_attention(hidden, heads, kv_heads, dim, dim)
    if model.num_experts is None or model.num_experts_per_tok is None or model.moe_intermediate_size is None:
        block = dense_mlp(hidden, model.intermediate_size)
    else:
        experts = expert_mlps(hidden, model.moe_intermediate_size, model.num_experts, model.num_experts_per_tok)
        block = (*experts, router(hidden, model.num_experts))
    return Layer((AttentionKv(kv_heads, dim, dim),), (*attention, *block), 4 * heads * dim)


def _keeps_every_token(kind: KvKind) -> bool:
    match kind:
        case AttentionKv():
            return kind.window_tokens is None and kind.chunk_tokens is None
        case LatentKv():
            return True
        case _:
            return False
