from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_model import SHAPE

from calibrate.measurements import NAMES, OPERATIONS
from calibrate.timing.dtypes import kv_head_bytes, parse_dtypes, weight_bytes
from calibrate.timing.grid import BLOCK_SIZE, LEVELS, Limits, Types, grid
from calibrate.timing.layer_shape import layer_shape
from calibrate.timing.points import FIELDS, Point
from calibrate.timing.work import work
from sim.catalog import load_model
from sim.errors import CalibrationError

TYPES = Types("bf16", ("bf16", "fp8", "int8", "int4"), ("bf16", "fp8", "int4"))
LIMITS = st.builds(Limits, st.integers(1, 20000), st.integers(1, 2000), st.integers(16, 200_000))


@given(LIMITS, st.sampled_from(["cpu", "cuda"]))
def test_points_stay_within_the_limits_and_never_repeat(limits: Limits, device: str) -> None:
    """No point is beyond what was asked for, none comes twice, and shared contexts are whole blocks."""
    points = [point for level in grid(SHAPE, TYPES, limits, device) for point in level]
    assert len({point.key for point in points}) == len(points)
    for point in points:
        if point.part != "square":
            assert (point.tokens or 0) <= max(limits.max_num_batched_tokens, limits.max_num_seqs)
        assert (point.sequences or 0) * (point.new_tokens or 1) <= max(
            limits.max_num_batched_tokens, limits.max_num_seqs
        )
        assert (point.past_tokens or 0) <= max(limits.max_context_tokens, 1024)
        shared = point.shared_tokens or 0
        assert shared % BLOCK_SIZE == 0
        assert shared <= (point.past_tokens or 0)


def test_the_coarsest_level_has_every_operation_and_both_ends_of_the_axes() -> None:
    """However early a run stops, no operation waits for a finer level, but the whole layers that check them."""
    first, *_ = grid(SHAPE, TYPES, Limits(), "cpu")
    assert {point.operation for point in first} == set(OPERATIONS) - {
        "mixed_attention",
        "moe",
        "allreduce",
        "layer",
        "step",
    }
    for axis, most in (("tokens", 8192), ("sequences", 256)):
        values = {getattr(point, axis) for point in first} - {None}
        assert {min(values), max(values)} == {1, most}


def test_a_finer_level_only_adds() -> None:
    """Levels are disjoint, and each adds points."""
    levels = grid(SHAPE, TYPES, Limits(), "cuda")
    assert len(levels) == LEVELS
    assert all(levels)


def test_a_key_survives_the_trip_through_text() -> None:
    """A point is known again from the text of its row, whatever else the row holds."""
    for level in grid(SHAPE, TYPES, Limits(), "cuda"):
        for point in level:
            row = {name: str(value) for name, value in point.columns().items()}
            graph = row.get("graph", "cuda_graph")
            assert set(row) <= set(NAMES)
            from calibrate.timing.points import row_key

            assert row_key(row | {"graph": graph, "gpu": "L4", "past_tokens": row.get("past_tokens", "")}) == point.key


def test_columns_of_a_point_are_columns_of_the_table() -> None:
    """A point has no field the table lacks."""
    assert set(FIELDS) <= set(NAMES)


def test_tensor_parallelism_divides_the_shapes_as_vllm_does() -> None:
    """Heads and MLP are divided; a GPU keeps a KV head; what does not divide is refused by name."""
    model = load_model("Qwen/Qwen3-4B")
    half = layer_shape(model, 2)
    assert (half.num_heads, half.num_kv_heads, half.intermediate_size) == (16, 4, 4864)
    assert half.linear_parts["qkv"] == ((16 + 2 * 4) * 128, 2560)
    assert layer_shape(model, 16).num_kv_heads == 1
    with pytest.raises(CalibrationError, match="--tp 3 must divide num_attention_heads 32"):
        layer_shape(model, 3)


def test_layers_of_one_gpu_add_up_to_the_catalogs_weights() -> None:
    """The linear parts hold as many weights as the catalog counts."""
    model = load_model("Qwen3-4B")
    per_layer = sum(out * inner for out, inner in layer_shape(model).linear_parts.values())
    assert per_layer * model.num_hidden_layers == model.linear_params


def test_experts_are_left_out_not_guessed() -> None:
    """A mixture of experts has attention and head points, none of the MLP it does not have."""
    shape = layer_shape(load_model("Qwen3-30B-A3B"))
    points = [point for level in grid(shape, TYPES, Limits(), "cpu") for point in level]
    assert {point.part for point in points if point.operation == "gemm"} == {"square", "qkv", "o"}
    assert not {"layer", "peak_memory"} & {point.operation for point in points}


@given(st.integers(1, 64), st.integers(1, 512).map(lambda blocks: blocks * BLOCK_SIZE), st.floats(0, 1))
def test_a_shared_prefix_is_read_once(sequences: int, context: int, share: float) -> None:
    """Sharing leaves the arithmetic of decode attention alone and takes bytes away, down to one context."""
    shared = int(context * share) // BLOCK_SIZE * BLOCK_SIZE
    alone = Point("decode_attention", kv_cache_dtype="fp8", sequences=sequences, past_tokens=context, shared_tokens=0)
    plain, common = work(alone, SHAPE, "bf16"), work(replace(alone, shared_tokens=shared), SHAPE, "bf16")
    one = context * SHAPE.num_kv_heads * kv_head_bytes("fp8", SHAPE.head_dim)
    assert common.flops == plain.flops
    assert one <= common.read_bytes <= plain.read_bytes == sequences * one


def test_quantised_bytes_are_counted_with_their_scales() -> None:
    """A 4-bit KV head of 128 takes 64 + 4 bytes a key, an int8 one 128 + 2; 4-bit weights have 16-bit group scales."""
    assert [kv_head_bytes(name, 128) for name in ("bf16", "fp8", "int8", "int4")] == [512, 256, 260, 136]
    assert weight_bytes("int4", 64, 64) == 64 * 64 * 0.625


def test_an_unknown_type_is_named_with_the_nearest_valid_one() -> None:
    """One line: flag, value, valid names, and what was probably meant."""
    with pytest.raises(CalibrationError, match=r"--kv-dtypes: 'fp9' is not one of .*did you mean 'fp8'"):
        parse_dtypes("--kv-dtypes", "bf16,fp9", ("bf16", "fp8"))
    with pytest.raises(CalibrationError, match="names no type"):
        parse_dtypes("--kv-dtypes", " , ", ("bf16", "fp8"))
    assert parse_dtypes("--kv-dtypes", "FP8, bf16,fp8", ("bf16", "fp8")) == ("fp8", "bf16")
