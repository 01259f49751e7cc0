"""A model small enough to time in milliseconds, for the tests of timing."""

import json
from pathlib import Path

from calibrate.timing.layer_shape import LayerShape

SHAPE = LayerShape(
    model="tiny",
    hidden_size=64,
    num_heads=4,
    num_kv_heads=2,
    head_dim=32,
    intermediate_size=96,
    vocab_size=256,
)


def write_config(folder: Path) -> Path:
    """Write a config.json of that shape and return its path."""
    config = {
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "intermediate_size": 96,
        "vocab_size": 256,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
    }
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path
