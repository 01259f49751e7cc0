"""Seconds of a batch: the terms add up, decode rows pay for tiles or for bytes, and more never costs less."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.catalog import Gpu, Model, load_gpu, load_model
from sim.steptime.batch import BatchShape
from sim.steptime.model import StepTimeModel, step_time_model
from sim.steptime.profile import Linear, Profile, load_profile

SHIPPED = "l4-qwen3-4b-fp8"


def model_of(**changes: Any) -> StepTimeModel:
    """Return a model whose every term is a round number; `changes` replace some."""
    terms = {
        "step_overhead_s": 0.5,
        "linear_s": lambda tokens: 0.01 * tokens,
        "head_per_step_s": 0.25,
        "head_per_sequence_s": 0.125,
        "prefill_s_per_pair": 1e-4,
        "decode_s_per_kv_token": 1e-3,
        "prefill_tile_rows": 64,
        "shared_tokens_read_once": 0.0,
    }
    return StepTimeModel(**(terms | changes))


@pytest.fixture(scope="module")
def shipped() -> StepTimeModel:
    """Return the shipped L4 profile's model for fp8 KV."""
    return step_time_model(load_profile(SHIPPED), load_gpu("L4"), load_model("Qwen3-4B"), "fp8")


def linear_of(points: dict[int, float]) -> StepTimeModel:
    """Return the shipped profile's model with other linear points."""
    profile = load_profile(SHIPPED)
    linear = Linear(tokens=list(points), seconds=list(points.values()), source="measured")
    changed = {name: getattr(profile, name) for name in Profile.__struct_fields__} | {"linear": linear}
    return step_time_model(Profile(**changed), load_gpu("L4"), load_model("Qwen3-4B"), "fp8")


@pytest.mark.parametrize(
    ("tokens", "seconds"),
    [
        (1, 1.0),  # below the first point its value holds
        (9, 1.0),
        (10, 1.0),
        (15, 1.5),  # between points a straight line
        (20, 2.0),
        (30, 5.0),
        (40, 8.0),  # at the last point, then its slope goes on
        (41, 8.3),
        (140, 38.0),
    ],
)
def test_linear_is_flat_then_joined_then_goes_on(tokens: int, seconds: float) -> None:
    """Points (10, 1), (20, 2), (40, 8): flat before the first, the last slope of 0.3 beyond the last."""
    assert linear_of({10: 1.0, 20: 2.0, 40: 8.0}).linear_s(tokens) == pytest.approx(seconds)


points_of_linear = st.lists(
    st.tuples(st.integers(1, 500), st.floats(0, 1)), min_size=2, max_size=6, unique_by=lambda point: point[0]
)


@given(points_of_linear, st.integers(1, 5000), st.integers(0, 5000))
def test_more_tokens_never_take_less_time(points: list[tuple[int, float]], tokens: int, more: int) -> None:
    """Whatever was measured, interpolation and extrapolation keep the order."""
    tokens_of, gains = zip(*sorted(points), strict=True)
    seconds = [1e-3 + math.fsum(gains[: i + 1]) for i in range(len(gains))]
    at = linear_of(dict(zip(tokens_of, seconds, strict=True))).linear_s
    assert at(tokens) <= at(tokens + more) * (1 + 1e-12)


shapes = st.builds(
    BatchShape,
    tokens=st.integers(1, 32_768),
    sampled=st.integers(0, 256),
    prefill_pairs=st.floats(0, 1e9),
    decode_rows=st.integers(0, 256),
    decode_kv_tokens=st.integers(0, 1_000_000),
    decode_kv_tokens_shared=st.just(0.0),
    holds_prefill=st.booleans(),
)


@given(shapes, st.sampled_from(["tokens", "sampled", "prefill_pairs", "decode_kv_tokens"]), st.integers(0, 100_000))
def test_a_step_never_gets_cheaper_by_more_work(
    shipped: StepTimeModel, shape: BatchShape, what: str, more: int
) -> None:
    """More tokens, samples, pairs or KV to read, all else equal."""
    heavier = shape._replace(**{what: getattr(shape, what) + more})
    assert shipped.seconds(heavier) >= shipped.seconds(shape) * (1 - 1e-12)
    assert shipped.seconds(shape) > 0


@given(shapes)
def test_a_prefill_beside_them_never_makes_decode_rows_cheaper(shipped: StepTimeModel, shape: BatchShape) -> None:
    """The prefill kernel can only waste query rows."""
    alone, beside = shape._replace(holds_prefill=False), shape._replace(holds_prefill=True)
    assert shipped.seconds(beside) >= shipped.seconds(alone)


def test_a_prefill_step_is_overhead_linear_pairs_and_head() -> None:
    """0.5 + 100 x 0.01 + 5,050 x 1e-4, and 0.25 + 0.125 where it samples."""
    chunk = BatchShape(100, 0, 5_050.0, 0, 0, holds_prefill=True)
    assert model_of().seconds(chunk) == pytest.approx(0.5 + 1.0 + 0.505)
    assert model_of().seconds(chunk._replace(sampled=1)) == pytest.approx(0.5 + 1.0 + 0.505 + 0.375)


def test_decode_rows_alone_pay_for_the_bytes_they_read() -> None:
    """Three rows on 200 tokens: 0.5 + 3 x 0.01 + 200 x 1e-3 + 0.25 + 3 x 0.125."""
    assert model_of().seconds(BatchShape(3, 3, 0.0, 3, 200)) == pytest.approx(0.5 + 0.03 + 0.2 + 0.25 + 0.375)


def test_a_decode_row_beside_a_prefill_costs_a_tile_of_queries() -> None:
    """200 KV tokens x 64 rows x 1e-4 = 1.28 s instead of 0.2 s; with tiles of one row, bytes bind again."""
    mixed = BatchShape(101, 0, 5_050.0, 1, 200, holds_prefill=True)
    rest = 0.5 + 1.01 + 0.505
    assert model_of().seconds(mixed) == pytest.approx(rest + 1.28)
    assert model_of(prefill_tile_rows=1).seconds(mixed) == pytest.approx(rest + 0.2)


def test_the_l4_profile_prices_a_tile_as_its_note_says(shipped: StepTimeModel) -> None:
    """One 32k-token row: about 7 ns x 64 rows x 32,768 = 15 ms in a prefill step, 10 ms of bytes in a decode step."""
    idle = BatchShape(1, 0, 0.0, 0, 0)
    row = idle._replace(decode_rows=1, decode_kv_tokens=32_768)
    alone = shipped.seconds(row) - shipped.seconds(idle)
    beside = shipped.seconds(row._replace(holds_prefill=True)) - shipped.seconds(idle)
    assert alone == pytest.approx(32_768 * 73_728 / 2.37895e11, rel=1e-4)
    assert beside == pytest.approx(32_768 * 64 * 7.16616e-9, rel=1e-4)


@pytest.mark.parametrize(
    ("prefix", "read"),
    [(0, 4 * 300), (100, 300 + 3 * 200), (101, 4 * 300)],
    ids=["nothing shared", "as long as L2 holds", "one token too long"],
)
def test_a_shared_prefix_is_charged_once_if_l2_holds_it(prefix: int, read: int) -> None:
    """Four rows of 300 tokens that share `prefix`, an L2 for 100: once in all if it fits, else once a row."""
    shape = BatchShape(4, 0, 0.0, 4, 1200, decode_kv_tokens_shared=3.0 * prefix)
    cost = model_of(shared_tokens_read_once=100.0).seconds(shape) - model_of().seconds(BatchShape(4, 0, 0.0, 0, 0))
    assert cost == pytest.approx(read * 1e-3)


def test_a_profile_that_reads_per_sequence_ignores_what_is_shared(shipped: StepTimeModel) -> None:
    """The shipped L4 profile does not profit from L2."""
    assert shipped.shared_tokens_read_once == 0
    shape = BatchShape(4, 4, 0.0, 4, 1200)
    assert shipped.seconds(shape._replace(decode_kv_tokens_shared=300.0)) == shipped.seconds(shape)


@pytest.mark.parametrize(("gpu", "tokens"), [("L4", 48 * 2**20 / 2048), ("H100", 50 * 2**20 / 2048)])
def test_l2_holds_a_layer_of_a_prefix_at_a_time(gpu: str, tokens: float) -> None:
    """Layers run one after the other: L2 bytes over 2,048 bytes a token and layer (8 heads x 128 x 2, fp8)."""
    assert read_once(load_gpu(gpu), load_model("Qwen3-4B")) == pytest.approx(tokens)


def read_once(gpu: Gpu, model: Model) -> float:
    """Return the longest prefix read once under `once_if_l2_holds_it`."""
    profile = load_profile(SHIPPED)
    changed = {name: getattr(profile, name) for name in Profile.__struct_fields__}
    changed |= {"gpu": gpu.name, "shared_prefix_reads": "once_if_l2_holds_it"}
    return step_time_model(Profile(**changed), gpu, model, "fp8").shared_tokens_read_once
