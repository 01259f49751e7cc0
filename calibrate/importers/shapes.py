"""Shapes of a model's layers on one GPU, from the catalog: what a publisher leaves out and a fit needs."""

from functools import lru_cache
from typing import NamedTuple

import pandas as pd

from calibrate.known import known_model

NAN = float("nan")


class Shape(NamedTuple):
    """One GPU's share of a model. NaN where the catalog does not know the model."""

    layers: float = NAN
    hidden: float = NAN
    num_heads: float = NAN
    num_kv_heads: float = NAN
    head_dim: float = NAN
    intermediate: float = NAN
    vocabulary: float = NAN
    experts: float = NAN
    experts_per_token: float = NAN
    expert_intermediate: float = NAN


@lru_cache(maxsize=256)
def shape_of(model: str, tensor_parallel: float) -> Shape:
    """Return the shape of a model shared by that many GPUs; a GPU holds at least one KV head."""
    known = known_model(model)
    if known is None:
        return Shape()
    experts = known.num_experts
    return Shape(
        layers=known.num_hidden_layers,
        hidden=known.hidden_size,
        num_heads=known.num_attention_heads / tensor_parallel,
        num_kv_heads=max(1.0, known.num_key_value_heads / tensor_parallel),
        head_dim=known.head_dim,
        intermediate=known.intermediate_size / tensor_parallel,
        vocabulary=known.vocab_size / tensor_parallel,
        experts=NAN if experts is None else experts,
        experts_per_token=NAN if known.num_experts_per_tok is None else known.num_experts_per_tok,
        expert_intermediate=NAN
        if known.moe_intermediate_size is None
        else known.moe_intermediate_size / tensor_parallel,
    )


def shapes(models: pd.Series, tensor_parallel: pd.Series) -> pd.DataFrame:
    """Return the shape of each row, a column for each field of Shape."""
    found = [shape_of(model, size) for model, size in zip(models, tensor_parallel, strict=True)]
    return pd.DataFrame(found, columns=list(Shape._fields), index=models.index, dtype=float)


def linear_features(part: str, shape: Shape) -> tuple[float, float]:
    """Return (out_features, in_features) of a linear layer on one GPU, NaN for one that is not known."""
    queries = shape.num_heads * shape.head_dim
    keys = shape.num_kv_heads * shape.head_dim
    features = {
        "qkv": (queries + 2 * keys, shape.hidden),
        "q": (queries, shape.hidden),
        "k": (keys, shape.hidden),
        "v": (keys, shape.hidden),
        "o": (shape.hidden, queries),
        "gate_up": (2 * shape.intermediate, shape.hidden),
        "gate": (shape.intermediate, shape.hidden),
        "up": (shape.intermediate, shape.hidden),
        "down": (shape.hidden, shape.intermediate),
    }
    return features.get(part, (NAN, NAN))


def elementwise_width(part: str, shape: Shape) -> float:
    """Return the elements an elementwise kernel writes a token on one GPU, NaN for one that is not known."""
    rotated = (shape.num_heads + shape.num_kv_heads) * shape.head_dim
    widths = {
        "norm": shape.hidden,
        "final_norm": shape.hidden,
        "residual": shape.hidden,
        "embedding": shape.hidden,
        "rotary": rotated,
        "qk_norm": rotated,
        "activation": shape.intermediate,
    }
    return widths.get(part, NAN)
