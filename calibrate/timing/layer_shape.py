"""The shapes one GPU computes with: a model's layer, divided by tensor parallelism."""

from dataclasses import dataclass

from sim.catalog import Model
from sim.errors import CalibrationError


@dataclass(frozen=True, slots=True)
class LayerShape:
    """One layer's shapes on one GPU, and the share of vocabulary its output head holds."""

    model: str
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tensor_parallel: int = 1
    has_experts: bool = False  # then the MLP is a mixture, which is not timed

    @property
    def query_size(self) -> int:
        """Width of all query heads."""
        return self.num_heads * self.head_dim

    @property
    def qkv_size(self) -> int:
        """Width of query, key and value heads side by side."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim

    @property
    def linear_parts(self) -> dict[str, tuple[int, int]]:
        """(out_features, in_features) of each linear layer; without the MLP where experts take its place."""
        parts = {"qkv": (self.qkv_size, self.hidden_size), "o": (self.hidden_size, self.query_size)}
        if not self.has_experts:
            parts["gate_up"] = (2 * self.intermediate_size, self.hidden_size)
            parts["down"] = (self.hidden_size, self.intermediate_size)
        return parts

    @property
    def elementwise_widths(self) -> dict[str, int]:
        """Elements a token has on leaving each elementwise kernel; no activation where experts take its place."""
        widths = {
            "norm": self.hidden_size,
            "rotary": (self.num_heads + self.num_kv_heads) * self.head_dim,
            "embedding": self.hidden_size,
            "quantise": self.hidden_size,
        }
        return widths if self.has_experts else widths | {"activation": self.intermediate_size}


def layer_shape(model: Model, tensor_parallel: int = 1) -> LayerShape:
    """Return the shapes on one of `tensor_parallel` GPUs, cut as vLLM cuts them.

    A GPU keeps at least one KV head. Raises CalibrationError where the heads do not divide.
    """
    for name in ("num_attention_heads", "intermediate_size"):
        if getattr(model, name) % tensor_parallel:
            raise CalibrationError(f"--tp {tensor_parallel} must divide {name} {getattr(model, name)} of {model.name}")
    kv_heads = model.num_key_value_heads
    if kv_heads % tensor_parallel and tensor_parallel % kv_heads:
        raise CalibrationError(
            f"--tp {tensor_parallel} must divide or be a multiple of num_key_value_heads {kv_heads} of {model.name}"
        )
    return LayerShape(
        model=model.name,
        hidden_size=model.hidden_size,
        num_heads=model.num_attention_heads // tensor_parallel,
        num_kv_heads=max(1, kv_heads // tensor_parallel),
        head_dim=model.head_dim,
        intermediate_size=model.intermediate_size // tensor_parallel,
        vocab_size=-(-model.vocab_size // tensor_parallel),
        tensor_parallel=tensor_parallel,
        has_experts=model.num_experts is not None,
    )
