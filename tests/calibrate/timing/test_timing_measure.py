import math
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from tiny_model import SHAPE  # noqa: E402

from calibrate.timing import machine as machines  # noqa: E402
from calibrate.timing.cases import Bench, Case, Unsupported  # noqa: E402
from calibrate.timing.grid import BLOCK_SIZE, Limits, Types, grid  # noqa: E402
from calibrate.timing.light import faster_than_light  # noqa: E402
from calibrate.timing.machine import Machine, catalogued, open_machine  # noqa: E402
from calibrate.timing.measure import CASES, Builder, measure, new_bench  # noqa: E402
from calibrate.timing.outcome import Outcome  # noqa: E402
from calibrate.timing.points import Point, row_key  # noqa: E402
from calibrate.timing.work import Work, work  # noqa: E402
from sim.catalog import load_gpu  # noqa: E402
from sim.errors import CalibrationError  # noqa: E402

LIMITS = Limits(max_num_batched_tokens=32, max_num_seqs=4, max_context_tokens=1024)
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
POINTS = [Point("copy", bytes=size) for size in (1024, 2048, 4096)]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=NO_GPU)])
def machine(request: pytest.FixtureRequest) -> Machine:
    """Return this machine's CPU, and its GPU where it has one."""
    return open_machine(request.param, "bf16", 1)


def on_cpu() -> Bench:
    """Return a bench whose machine is never asked anything."""
    return new_bench(Machine("cpu", "cpu: test", None, 2**20, None, "torch"), SHAPE, "bf16", BLOCK_SIZE)


def ticking(step_s: float = 1.0) -> Iterator[float]:
    """Yield a clock's readings."""
    now_s = 0.0
    while True:
        yield now_s
        now_s += step_s


def run(points: list[Point], cases: dict[str, Builder], budget_s: float = 1000.0) -> Outcome:
    """Measure on a clock that moves a second a look."""
    clock = ticking()
    return measure([points], on_cpu(), budget_s, cases=cases, now=lambda: next(clock))


def steady(_point: Point, _bench: Bench, _copies: int) -> Case:
    """Build a case that takes a microsecond."""
    return Case(lambda _: None, sample=lambda: 1e-6)


def test_every_kind_of_point_gives_a_row_or_a_reason(machine: Machine) -> None:
    """The whole coarse grid of a tiny model runs through the same interface on either device."""
    types = Types("bf16", ("bf16", "fp8", "int8", "int4"), ("bf16", "fp8", "int8", "int4"))
    levels = grid(SHAPE, types, LIMITS, machine.kind)[:2]
    kinds = {
        (point.operation, point.part, point.weight_dtype, point.kv_cache_dtype): point
        for level in levels
        for point in level
        if point.part != "square" and point.operation != "copy"
    }
    outcome = measure([list(kinds.values())], new_bench(machine, SHAPE, "bf16", BLOCK_SIZE), 600.0)
    skipped = {str(one.point): one.reason for one in outcome.skipped}
    assert all("int8" in point or "int4" in point for point in skipped), skipped
    assert len(outcome.rows) + len(skipped) == len(kinds)
    for row in outcome.rows:
        assert row["label"] in {"measured", "emulated", "bound"}
        if row["operation"] == "peak_memory":
            assert isinstance(row["memory_bytes"], int)
            assert row["memory_bytes"] > LIMITS.max_num_batched_tokens * SHAPE.hidden_size * 2
        else:
            assert isinstance(row["time_s"], float)
            assert 1e-8 < row["time_s"] < 60
            assert row["graph"] in {"eager", "cuda_graph"}


def test_fp32_is_timed_as_well(machine: Machine) -> None:
    """Plain weights and cache in the type of the activations, whichever it is."""
    points = [
        Point("gemm", "qkv", "fp32", tokens=4, out_features=256, in_features=64),
        Point("decode_attention", kv_cache_dtype="fp32", sequences=2, past_tokens=64, shared_tokens=0),
        Point("prefill_attention", kv_cache_dtype="fp32", sequences=1, new_tokens=8, past_tokens=16),
    ]
    outcome = measure([points], new_bench(machine, SHAPE, "fp32", BLOCK_SIZE), 60.0)
    assert [row["label"] for row in outcome.rows] == ["measured"] * 3


def test_a_row_names_the_device_the_shapes_and_the_software(machine: Machine) -> None:
    """What a fit needs stands in the table's own columns."""
    point = Point("decode_attention", kv_cache_dtype="int4", sequences=2, past_tokens=32, shared_tokens=16)
    (row,) = measure([[point]], new_bench(machine, SHAPE, "bf16", BLOCK_SIZE), 60.0).rows
    assert (row["gpu"], row["model"], row["layers"]) == (machine.name, "tiny", 1)
    assert (row["num_heads"], row["num_kv_heads"], row["head_dim"]) == (4, 2, 32)
    assert str(row["engine"]).startswith("torch")
    assert row_key({name: str(value) for name, value in row.items()}) == point.key


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"), "out of memory"),
        (Unsupported("T4 has no fp8 tensor cores"), "T4 has no fp8 tensor cores"),
        (NotImplementedError("no kernel\nand a long trace"), "torch cannot: no kernel"),
    ],
)
def test_what_goes_wrong_at_one_point_is_named_and_the_rest_kept(fault: Exception, reason: str) -> None:
    """One clear line for the point, rows for the others."""

    def second_fails(point: Point, bench: Bench, copies: int) -> Case:
        if point is POINTS[1]:
            raise fault
        return steady(point, bench, copies)

    outcome = run(POINTS, {"copy": second_fails})
    assert [row["bytes"] for row in outcome.rows] == [1024, 4096]
    (skipped,) = outcome.skipped
    assert skipped.point is POINTS[1]
    assert skipped.reason.startswith(reason)
    assert "\n" not in skipped.reason


def test_nan_is_no_measurement() -> None:
    """An operation that computes nonsense may be fast for that reason."""
    outcome = run(POINTS[:1], {"copy": lambda *_: Case(lambda _: torch.tensor([1.0, math.nan]))})
    assert outcome.rows == []
    assert outcome.skipped[0].reason == "NaN or infinity in the result"


def test_no_budget_leaves_everything_and_done_points_are_not_repeated() -> None:
    """Time decides how many points are timed, and what the file holds is not timed again."""
    assert run(POINTS, {"copy": steady}, budget_s=-1.0).left == 3
    outcome = run(POINTS, {"copy": steady}, budget_s=2.5)
    assert len(outcome.rows) + outcome.left == 3
    assert outcome.left > 0
    clock = ticking()
    again = measure([POINTS], on_cpu(), 100.0, done={POINTS[0].key}, cases={"copy": steady}, now=lambda: next(clock))
    assert [row["bytes"] for row in again.rows] == [2048, 4096]


def test_a_point_too_large_for_memory_or_budget_is_skipped_before_it_is_made() -> None:
    """The reason has both figures."""
    large = [
        Point("copy", bytes=2**60),
        Point("gemm", "square", "bf16", tokens=10**5, out_features=10**5, in_features=10**5),
    ]
    outcome = run(large[:1], CASES)
    assert "GiB are free" in outcome.skipped[0].reason
    outcome = run(
        [Point("prefill_attention", kv_cache_dtype="bf16", sequences=1, new_tokens=10**5, past_tokens=0)],
        CASES,
        budget_s=10.0,
    )
    assert "give more budget" in outcome.skipped[0].reason


def test_nothing_is_faster_than_light() -> None:
    """A time below FLOPs or bytes at the peak is named; one at the peak passes."""
    gpu = load_gpu("L4")
    read = Work(0.0, 300e6, 300e6)  # one millisecond at 300 GB/s
    assert faster_than_light(1e-3, read, gpu, "") is None
    assert "cannot need less than 950 us" in (faster_than_light(0.5e-3, read, gpu, "") or "")
    multiply = Work(242e9, 0.0, 0.0)  # one millisecond in fp8, two in bf16
    assert faster_than_light(1e-3, multiply, gpu, "fp8") is None
    assert faster_than_light(1e-3, multiply, gpu, "bf16") is not None


def test_a_row_faster_than_light_is_kept_out_and_named() -> None:
    """A catalogued GPU's rows are checked as they come."""
    bench = new_bench(Machine("cpu", "L4", load_gpu("L4"), 2**20, None, "torch"), SHAPE, "bf16", BLOCK_SIZE)
    outcome = measure(
        [[Point("copy", bytes=2**20)]],
        bench,
        100.0,
        cases={"copy": lambda *_: Case(lambda _: None, sample=lambda: 1e-9)},
    )
    assert outcome.rows == []
    assert "faster than light" in outcome.skipped[0].reason


def test_inputs_take_turns_beyond_the_last_level_cache() -> None:
    """Copies add up to twice the cache on a CPU and four times on a GPU; memory limits them."""
    bench = on_cpu()
    assert bench.copies(2**18, 2**40) * 2**18 >= 2 * bench.machine.cache_bytes
    assert bench.copies(2**30, 2**40) == 1
    assert bench.copies(2**18, 2**19) == 2
    assert bench.stays_in_cache(2**18, 2)
    assert not bench.stays_in_cache(2**18, 8)


@pytest.mark.parametrize(
    ("cuda_name", "name"),
    [
        ("NVIDIA L4", "L4"),
        ("Tesla T4", "T4"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-SXM"),
        ("NVIDIA H100 PCIe", "H100-80GB-PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000"),
        ("NVIDIA H100 NVL", "H100-94GB-NVL"),
        ("NVIDIA H100 NVLX", None),
    ],
)
def test_cards_are_known_by_the_name_cuda_gives_them(cuda_name: str, name: str | None) -> None:
    """A variant the catalog lacks is nobody's alias."""
    gpu = catalogued(cuda_name)
    assert (gpu.name if gpu else None) == name


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_cuda_without_a_gpu_is_one_line() -> None:
    """The message says what torch sees and what to do."""
    with pytest.raises(CalibrationError, match="sees no CUDA GPU; use --device cpu"):
        open_machine("cuda", "bf16")


def test_the_cpu_is_named_with_its_threads() -> None:
    """Two thread counts are two machines: their rows must not mix."""
    one = open_machine("cpu", "bf16", 1)
    assert one.name.startswith("cpu: ")
    assert one.name.endswith(", 1 threads")
    assert one.cache_bytes >= 2**18
    assert machines.free_bytes(one) > 2**20


def test_work_of_a_layer_is_the_sum_of_its_operations() -> None:
    """Linear layers and attention of a prefill add up to the layer's FLOPs and weight bytes."""
    gemms = [
        Point("gemm", part, "bf16", tokens=64, out_features=out, in_features=inner)
        for part, (out, inner) in SHAPE.linear_parts.items()
    ]
    attention = Point("prefill_attention", kv_cache_dtype="bf16", sequences=1, new_tokens=64, past_tokens=0)
    layer = Point("layer", "prefill", tokens=64, sequences=1, new_tokens=64, past_tokens=0)
    parts = [work(point, SHAPE, "bf16") for point in (*gemms, attention)]
    assert work(layer, SHAPE, "bf16").flops == pytest.approx(sum(part.flops for part in parts))
    assert work(layer, SHAPE, "bf16").read_bytes == pytest.approx(sum(part.read_bytes for part in parts))
