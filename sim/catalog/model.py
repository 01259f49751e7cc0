"""One transformer with uniform full attention and gated MLPs: its shape, and what follows from it.

Counts leave out norms, biases and rotary tables (under 0.1 % of the weights of every catalogued model).
Byte and FLOP figures are for the whole model unless a tensor_parallel_size is given.
"""

from dataclasses import dataclass, fields
from pathlib import Path

from sim.catalog.dtypes import kv_dtype, linear_weight_bytes
from sim.catalog.entries import find_entry, names_in
from sim.catalog.hf_config import read_hf_config
from sim.errors import CatalogError, MemoryLedgerError

_FILE = "models.yaml"
_BITS16_BYTES = 2


@dataclass(frozen=True, slots=True)
class Model:
    """The shape of a model, in the words of a Hugging Face config.json."""

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
    weight_dtype: str = "bf16"  # the checkpoint's own, which weight_dtype "auto" means
    num_experts: int | None = None
    num_experts_per_tok: int | None = None
    moe_intermediate_size: int | None = None
    qk_norm: bool = False  # queries and keys are normalised: two more kernels a layer

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            text_or_flag = field.name in {"name", "source", "tie_word_embeddings", "weight_dtype", "qk_norm"}
            if text_or_flag or (value is None and field.default is None):
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

    @property
    def linear_params(self) -> int:
        """Weights in all linear layers of the body: attention projections, MLPs, every expert, routers."""
        return self.num_hidden_layers * (self._attention_params + self._mlp_params(self.num_experts))

    @property
    def active_linear_params(self) -> int:
        """Weights of the body that one token meets: `num_experts_per_tok` experts where there are experts."""
        return self.num_hidden_layers * (self._attention_params + self._mlp_params(self.num_experts_per_tok))

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
        """All stored weights."""
        return self.linear_params + self.embedding_params + self.lm_head_params

    @property
    def attention_flops_per_pair(self) -> int:
        """FLOPs of all layers for one (query, key) pair: scores and weighted values, 2 each an element."""
        return 4 * self.num_hidden_layers * self.num_attention_heads * self.head_dim

    @property
    def linear_flops_per_token(self) -> int:
        """FLOPs of the body's linear layers for one token; the head is `head_flops_per_row`."""
        return 2 * self.active_linear_params

    @property
    def head_flops_per_row(self) -> int:
        """FLOPs of the output head for one row of logits, tied or not."""
        return 2 * self.embedding_params

    def weight_bytes(self, weight_dtype: str, tensor_parallel_size: int = 1) -> int:
        """Return the bytes of the weights on one GPU; embeddings and head stay in 16 bits.

        "auto" is the checkpoint's own type; scales of fp8 weights are not counted. Raises MemoryLedgerError
        for an unknown type.
        """
        own = self.weight_dtype if weight_dtype == "auto" else weight_dtype
        body = self.linear_params * linear_weight_bytes(own)
        ends = (self.embedding_params + self.lm_head_params) * _BITS16_BYTES
        return round((body + ends) / tensor_parallel_size)

    def kv_bytes_per_token(self, kv_cache_dtype: str, tensor_parallel_size: int = 1) -> float:
        """Return the KV bytes one token takes on one GPU, over all layers.

        Raises MemoryLedgerError for an unknown type or for heads that do not divide. A GPU always holds at
        least one KV head, so capacity stops growing when tensor_parallel_size passes num_key_value_heads.
        """
        dtype = kv_dtype(kv_cache_dtype)
        heads = self._kv_heads_per_gpu(tensor_parallel_size)
        full = min(dtype.full_precision_layers, self.num_hidden_layers)
        full_bytes = full * 2 * self.head_dim * _BITS16_BYTES
        return heads * (full_bytes + (self.num_hidden_layers - full) * dtype.head_bytes(self.head_dim))

    @property
    def _attention_params(self) -> int:
        query_and_output = 2 * self.num_attention_heads * self.head_dim
        key_and_value = 2 * self.num_key_value_heads * self.head_dim
        return self.hidden_size * (query_and_output + key_and_value)

    def _mlp_params(self, experts: int | None) -> int:
        if experts is None or self.moe_intermediate_size is None or self.num_experts is None:
            return 3 * self.hidden_size * self.intermediate_size
        router = self.hidden_size * self.num_experts
        return experts * 3 * self.hidden_size * self.moe_intermediate_size + router

    def _kv_heads_per_gpu(self, tensor_parallel_size: int) -> int:
        if self.num_attention_heads % tensor_parallel_size:
            raise MemoryLedgerError(
                f"tensor_parallel_size {tensor_parallel_size} must divide the {self.num_attention_heads} "
                f"attention heads of {self.name}"
            )
        per_gpu, rest = divmod(self.num_key_value_heads, tensor_parallel_size)
        if rest and tensor_parallel_size % self.num_key_value_heads:
            raise MemoryLedgerError(
                f"tensor_parallel_size {tensor_parallel_size} must divide or be a multiple of the "
                f"{self.num_key_value_heads} KV heads of {self.name}"
            )
        return max(1, per_gpu)


def model_names() -> tuple[str, ...]:
    """Return the catalogued names, without aliases."""
    return names_in(_FILE)


def load_model(name_or_path: str | Path) -> Model:
    """Return a catalogued model, or the one a Hugging Face config.json (or the folder it is in) describes.

    Raises CatalogError for an unknown name, with the nearest valid one, and for a config.json that is broken
    or whose attention is not uniform and full.
    """
    path = Path(name_or_path)
    if path.suffix == ".json" or isinstance(name_or_path, Path) or path.is_dir():
        return Model(**read_hf_config(path))
    entry = find_entry(_FILE, "model", name_or_path)
    return Model(**{key: value for key, value in entry.items() if key != "aliases"})
