"""A device profile of round numbers and a model of two small layers, to add up by hand."""

from typing import Any

from sim.catalog import Model
from sim.steptime.device import (
    AttentionSpec,
    CompositionSpec,
    DeviceProfile,
    ExpertsSpec,
    GemmSpec,
    LinkSpec,
)
from sim.steptime.profile import Frontend, Provenance, Term

TINY = Model(
    name="tiny",
    num_hidden_layers=2,
    hidden_size=256,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=32,
    intermediate_size=512,
    vocab_size=1024,
    tie_word_embeddings=True,
    max_position_embeddings=4096,
    source="made up",
)

GEMM = {
    "overhead_s": 4e-6, "bytes_per_s": 200e9, "flops_per_s": 80e12, "tile_elements": 1e5, "pipeline_depth": 150.0,
    "sharpness": 4.0,
}  # fmt: skip
ATTENTION = {
    "prefill_overhead_s": 1e-5, "prefill_flops_per_s": 60e12, "prefill_pairs_per_token": 300.0,
    "decode_overhead_s": 1.2e-5, "decode_row_s": 2.5e-8, "decode_bytes_per_s": 240e9, "sharpness": 1.7,
}  # fmt: skip
EXPERTS = {"overhead_s": 3e-5, "bytes_per_s": 210e9, "flops_per_s": 50e12, "tile_rows": 32.0, "sharpness": 3.0}
COMPOSITION = {
    "step_s": 5e-4, "sequence_s": 3e-6, "kernel_s": 2e-6, "elementwise_bytes_per_s": 210e9, "eager_kernel_s": 2.6e-5,
    "flops_slowdown": 1.25,
}  # fmt: skip


def terms(values: dict[str, float]) -> dict[str, Term]:
    """Return values as terms with a range of a factor of 1.5 either way."""
    return {
        name: Term(value=value, source="assumed", low=value / 1.5, high=value * 1.5) for name, value in values.items()
    }


def round_numbers(**changes: Any) -> DeviceProfile:
    """Return the profile of an L4; `changes` replace fields of it."""
    fields: dict[str, Any] = {
        "kind": "device",
        "name": "round",
        "gpu": "L4",
        "provenance": Provenance(kind="fitted", made_by="a test", date="2026-01-01", sources=["made up"]),
        "linear": {
            "bf16": GemmSpec(**terms(GEMM)),
            "fp8": GemmSpec(**terms(GEMM | {"flops_per_s": 150e12})),
        },
        "attention": {"bf16": AttentionSpec(**terms(ATTENTION)), "fp8": AttentionSpec(**terms(ATTENTION))},
        "experts": {"bf16": ExpertsSpec(**terms(EXPERTS))},
        "links": {"2": LinkSpec(**terms({"latency_s": 8e-6, "bytes_per_s": 16e9}))},
        "composition": CompositionSpec(**terms(COMPOSITION)),
        "prefill_tile_rows": 64,
        "frontend": Frontend(**terms({"per_request_s": 5e-3, "per_prompt_token_s": 2e-6})),
    }
    return DeviceProfile(**(fields | changes))
