"""Steps from operations: equal to a sum by hand, shapes divided among GPUs, floors, and more never for less."""

import dataclasses
from typing import Any, NamedTuple

import pytest
from device_profiles import ATTENTION, COMPOSITION, EXPERTS, GEMM, TINY, round_numbers, terms
from hypothesis import given
from hypothesis import strategies as st

from sim.catalog import Model, load_gpu
from sim.errors import KvcliffError, ProfileError
from sim.steptime.batch import BatchShape
from sim.steptime.compose import device_step_time_model, layer_s, layer_shape
from sim.steptime.device import AttentionSpec, CompositionSpec
from sim.steptime.model import StepTimeModel

L4 = load_gpu("L4")
MOE = dataclasses.replace(TINY, name="moe", num_experts=8, num_experts_per_tok=2, moe_intermediate_size=128)
NO_GRAPH, ANY_GRAPH = 0, 1 << 30


def steps(model: Model = TINY, weights: str = "bf16", kv: str = "bf16", **changes: Any) -> StepTimeModel:
    """Return step times under round numbers; every step fits a CUDA graph unless asked otherwise."""
    engine = {name: changes.pop(name) for name in ("tensor_parallel_size", "cuda_graph_tokens") if name in changes}
    profile = round_numbers(**changes)
    return device_step_time_model(profile, L4, model, weights, kv, **({"cuda_graph_tokens": ANY_GRAPH} | engine))


def prefill(new: int, past: int = 0) -> BatchShape:
    """Return a step that prefills one request's last chunk."""
    return BatchShape(new, 1, new * (past + (new + 1) / 2), 0, 0, holds_prefill=True)


def decode(rows: int, context: int) -> BatchShape:
    """Return a step of decode rows on so much context each."""
    return BatchShape(rows, rows, 0.0, rows, rows * context)


def product_s(m: int, n: int, k: int, slowdown: float = COMPOSITION["flops_slowdown"]) -> float:
    """Return a 16-bit matrix product by hand."""
    read_s = 2 * (n * k + m * k + m * n) / GEMM["bytes_per_s"]
    flops = 2 * (m * n + GEMM["tile_elements"]) * (k + GEMM["pipeline_depth"])
    multiply_s = flops * slowdown / GEMM["flops_per_s"]
    return GEMM["overhead_s"] + (read_s**4 + multiply_s**4) ** 0.25


def small_s(tokens: int, small_bytes: int, kernels: int = 5) -> float:
    """Return a layer's small kernels by hand."""
    return kernels * COMPOSITION["kernel_s"] + tokens * small_bytes / COMPOSITION["elementwise_bytes_per_s"]


# 8 heads and 4 KV heads of 32: qkv is 512 wide. Norms read and write 4 x 256 each, rotary 2 x 384, cache write
# 4 x 128, activation 3 x 512; 2 bytes each.
SMALL_BYTES = 2 * (2 * 4 * 256 + 2 * 384 + 4 * 128 + 3 * 512)


def body_s(tokens: int) -> float:
    """Return the two layers of the tiny model without attention, by hand."""
    shapes = ((512, 256), (256, 256), (1024, 256), (256, 512))
    return 2 * (small_s(tokens, SMALL_BYTES) + sum(product_s(tokens, n, k) for n, k in shapes))


def head_s(sampled: int) -> float:
    """Return output head and sampling by hand: a line from one sequence to 256."""
    one, many = (product_s(rows, 1024, 256, slowdown=1.0) for rows in (1, 256))
    return one + sampled * ((many - one) / 255 + COMPOSITION["sequence_s"])


def test_a_prefill_step_is_the_sum_of_its_parts() -> None:
    """100 new tokens on 50: every part from the formulas' definitions, at the clocks a long step sustains."""
    pairs = 100 * (50 + 101 / 2)
    alone = ATTENTION["prefill_pairs_per_token"] * 100 * (8 + 2 * 4)
    flops = 4 * 32 * (8 * pairs + alone) * COMPOSITION["flops_slowdown"]
    attention_s = 2 * (ATTENTION["prefill_overhead_s"] + flops / ATTENTION["prefill_flops_per_s"])
    expected = COMPOSITION["step_s"] + body_s(100) + attention_s + head_s(1)
    assert steps().seconds(prefill(100, 50)) == pytest.approx(expected)


def test_a_decode_step_is_the_sum_of_its_parts() -> None:
    """Six rows on 900 tokens each: 4 KV heads of 128 bytes a token."""
    read_s = 6 * 900 * 4 * 128 / ATTENTION["decode_bytes_per_s"]
    start_s = 6 * 4 * ATTENTION["decode_row_s"]
    both_s = (read_s**1.7 + start_s**1.7) ** (1 / 1.7)
    # the sharpness acts on both layers together: the same as on each
    expected = COMPOSITION["step_s"] + body_s(6) + 2 * (ATTENTION["decode_overhead_s"] + both_s) + head_s(6)
    assert steps().seconds(decode(6, 900)) == pytest.approx(expected)


def test_an_fp8_cache_halves_what_decode_reads_and_nothing_else() -> None:
    """With the same terms for both, half the bytes a KV token."""
    sixteen, eight = steps(kv="bf16"), steps(kv="fp8")
    assert eight.decode_s_per_kv_token == pytest.approx(sixteen.decode_s_per_kv_token / 2)
    assert eight.seconds(prefill(512)) == pytest.approx(sixteen.seconds(prefill(512)))
    far = decode(1, 10_000_000)
    assert eight.seconds(far) / sixteen.seconds(far) == pytest.approx(0.5, rel=0.02)


def test_two_gpus_halve_heads_and_columns_and_add_two_all_reduces_a_layer() -> None:
    """Activations stay whole: the all-reduce carries tokens x hidden x 2 bytes."""
    one, two = layer_shape(TINY, 1), layer_shape(TINY, 2)
    assert one.products == ((512, 256), (256, 256), (1024, 256), (256, 512))
    assert two.products == ((256, 256), (256, 128), (512, 256), (256, 256))
    shapes = sum(product_s(64, n, k) for n, k in two.products)
    small_bytes = 2 * (2 * 4 * 256 + 2 * 192 + 4 * 64 + 3 * 256)
    reduce_s = 8e-6 + 64 * 256 * 2 / 16e9
    at = layer_s(round_numbers(), two, "bf16", 2)
    assert at(64) == pytest.approx(shapes + small_s(64, small_bytes) + 2 * reduce_s)


def test_kv_heads_are_never_less_than_one_a_gpu() -> None:
    """Beyond as many GPUs as KV heads they are copied, not split."""
    assert (layer_shape(TINY, 8).heads, layer_shape(TINY, 8).kv_heads) == (1, 1)


def test_experts_replace_the_feed_forward_by_a_router_and_the_experts_met() -> None:
    """Three tokens that pick 2 of 8: 8 x (1 - 0.75^3) experts are read, six rows computed."""
    met, weights = 8 * (1 - 0.75**3), 3 * 256 * 128
    moved = weights * 2 * met + 2 * 6 * (2 * 256 + 3 * 128)
    flops = 2 * weights * (6 + EXPERTS["tile_rows"] * met) * COMPOSITION["flops_slowdown"]
    read_s, multiply_s = moved / EXPERTS["bytes_per_s"], flops / EXPERTS["flops_per_s"]
    experts_s = EXPERTS["overhead_s"] + (read_s**3 + multiply_s**3) ** (1 / 3)
    dense_s = sum(product_s(3, n, k) for n, k in ((512, 256), (256, 256), (8, 256)))
    small_bytes = 2 * (2 * 4 * 256 + 2 * 384 + 4 * 128 + 3 * 2 * 128)
    at = layer_s(round_numbers(), layer_shape(MOE, 1), "bf16", 1)
    assert at(3) == pytest.approx(dense_s + experts_s + small_s(3, small_bytes))


def test_normalised_queries_and_keys_are_two_more_kernels_and_their_bytes() -> None:
    """384 elements read and written once more."""
    normed = dataclasses.replace(TINY, qk_norm=True)
    more_s = 2 * COMPOSITION["kernel_s"] + 100 * 2 * 2 * 384 / COMPOSITION["elementwise_bytes_per_s"]
    assert steps(normed).linear_s(100) - steps().linear_s(100) == pytest.approx(2 * more_s)


def test_quantised_products_pay_for_quantising_their_inputs() -> None:
    """One more kernel, that reads 16 bits and writes 8 of everything that is multiplied."""
    shape = layer_shape(TINY, 1)
    sixteen, eight = dict(shape.small_kernels(2.0)), dict(shape.small_kernels(1.0))
    assert eight.pop("quantise") == 3 * (2 * 256 + 256 + 512)
    assert eight == sixteen
    assert sum(moved for _, moved in shape.small_kernels(2.0)) == SMALL_BYTES


def test_the_launch_floor_holds_only_where_no_graph_does() -> None:
    """Two layers of ten kernels at 26 us: 520 us; a step that takes longer anyway takes what it takes."""
    spec = {"composition": CompositionSpec(**terms(COMPOSITION | {"step_s": 1e-6, "sequence_s": 0.0}))}
    eager, graphed = steps(cuda_graph_tokens=NO_GRAPH, **spec), steps(cuda_graph_tokens=64, **spec)
    assert eager.seconds(decode(4, 10)) == pytest.approx(2 * 10 * 2.6e-5)
    assert graphed.seconds(decode(64, 10)) < 2 * 10 * 2.6e-5
    assert graphed.seconds(decode(65, 10)) == pytest.approx(2 * 10 * 2.6e-5)
    assert eager.seconds(prefill(4096)) == graphed.seconds(prefill(4096)) > eager.eager_floor_s


def test_a_decode_row_beside_a_prefill_pays_for_a_tile_of_query_rows() -> None:
    """Of 64 rows, or of 64 over the group where a tile packs the query heads of a KV head."""
    beside = BatchShape(101, 2, 100 * 101 / 2, 1, 5000, holds_prefill=True)
    slow = {"attention": {"bf16": AttentionSpec(**terms(ATTENTION | {"prefill_flops_per_s": 10e12}))}}
    apart = steps(**slow).seconds(beside) - steps(**slow).seconds(beside._replace(decode_kv_tokens=0))
    assert apart == pytest.approx(5000 * 64 * 2 * 4 * 8 * 32 * COMPOSITION["flops_slowdown"] / 10e12)
    assert steps(prefill_packs_query_heads=True).prefill_tile_rows == pytest.approx(64 / 2)


def test_a_shared_prefix_is_read_once_up_to_the_l2_of_one_layer() -> None:
    """48 MiB over 4 heads x 128 bytes a token, where the profile's kernels profit."""
    assert steps().shared_tokens_read_once == 0
    once = steps(shared_prefix_reads="once_if_l2_holds_it").shared_tokens_read_once
    assert once == pytest.approx(48 * 2**20 / (4 * 128))


class Mixed(NamedTuple):
    """Sizes of a step: one request's chunk, and decode rows on equal contexts."""

    new: int
    past: int
    rows: int
    context: int

    def batch(self) -> BatchShape:
        """Return the step; without new tokens it is a decode-only one."""
        new, rows = self.new, self.rows
        pairs = new * (self.past + (new + 1) / 2)
        return BatchShape(new + rows, (new > 0) + rows, pairs, rows, rows * self.context, holds_prefill=new > 0)


sizes = st.builds(Mixed, *(st.integers(least, most) for least, most in ((1, 8192), (0, 10**5), (0, 256), (1, 10**5))))


@pytest.mark.parametrize("model", [TINY, MOE], ids=["dense", "experts"])
@pytest.mark.parametrize("graphs", [NO_GRAPH, 512])
@given(size=sizes, more=st.integers(1, 4096))
def test_more_tokens_rows_or_context_never_cost_less(model: Model, graphs: int, size: Mixed, more: int) -> None:
    """Of prefill steps, mixed ones and decode-only ones."""
    own = steps(model, cuda_graph_tokens=graphs)
    least = own.seconds(size.batch()) * (1 - 1e-12)
    for name in Mixed._fields:
        assert own.seconds(size._replace(**{name: getattr(size, name) + more}).batch()) >= least
    alone = size._replace(new=0, rows=size.rows + 1)
    least = own.seconds(alone.batch()) * (1 - 1e-12)
    for name in ("rows", "context"):
        assert own.seconds(alone._replace(**{name: getattr(alone, name) + more}).batch()) >= least


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"weights": "fp9"}, "no linear for fp9; it has bf16, fp8"),
        ({"weights": "int4"}, "no linear for int4"),
        ({"kv": "fp9"}, "kv_cache_dtype 'fp9' is not one of"),
        ({"kv": "tq4"}, "no attention for turboquant; it has bf16, fp8"),
        ({"tensor_parallel_size": 4}, "no links for tensor_parallel_size 4; it has 2"),
        ({"model": MOE, "weights": "fp8"}, "no experts for fp8; it has bf16"),
        ({"model": dataclasses.replace(TINY, num_attention_heads=7, num_key_value_heads=7), "tensor_parallel_size": 2},
         "tensor_parallel_size 2 must divide the 7 attention heads of tiny"),
    ],
)  # fmt: skip
def test_what_the_profile_does_not_have_is_refused_in_one_line(asked: dict[str, Any], said: str) -> None:
    """Naming what it does have."""
    with pytest.raises(KvcliffError) as caught:
        steps(**asked).seconds(decode(1, 1))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_auto_is_the_checkpoints_own_weight_type_and_aliases_are_the_same() -> None:
    """An fp8 checkpoint is priced as fp8; bfloat16 and fp16 as bf16."""
    fp8 = dataclasses.replace(TINY, weight_dtype="fp8")
    assert steps(fp8, weights="auto").linear_s(4096) == steps(weights="fp8").linear_s(4096)
    for alias in ("auto", "bfloat16", "fp16"):
        assert steps(weights=alias).linear_s(4096) == steps().linear_s(4096)
    with pytest.raises(ProfileError):
        round_numbers().gemm("mxfp4")
