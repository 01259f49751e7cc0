import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.catalog import gpu_names, load_gpu, load_model
from sim.memory import ByteRange, MemoryLedger, MemorySettings, SglangSettings, memory_ledger, sglang_pools
from sim.memory.parts import DYNAMIC, GRAPHS, KV, LEFT, MEASURED, WEIGHTS, Part, parts_of, rank_parts
from sim.units import GIB

MODELS = ("Qwen3-4B", "Qwen3-8B", "gpt-oss-120b", "Qwen3.5-27B", "DeepSeek-V3", "gemma-4-26B-A4B-it")


def sizes(parts: tuple[Part, ...]) -> dict[str, int]:
    """Return the likely size of each part."""
    return {part.name: part.size_bytes.likely for part in parts}


def ledger(model: str = "Qwen3-4B", gpu: str = "L4", **settings: object) -> MemoryLedger:
    """Account for a model on a GPU."""
    return memory_ledger(load_gpu(gpu), load_model(model), MemorySettings(**settings))  # type: ignore[arg-type]


@given(
    gpu=st.sampled_from(gpu_names()),
    model=st.sampled_from(MODELS),
    version=st.sampled_from(["0.8.5", "0.19.0", "0.25.0", "0.32.0"]),
    share=st.floats(0.05, 1.0),
    given_kv=st.sampled_from([{}, {"non_kv_bytes": 3 * GIB}, {"num_gpu_blocks_override": 3}]),
)
def test_likely_sizes_add_up_to_the_visible_memory(
    gpu: str, model: str, version: str, share: float, given_kv: dict[str, int]
) -> None:
    """To the byte, whatever fits or does not, and whatever is given."""
    it = ledger(model, gpu, vllm_version=version, gpu_memory_utilization=share, **given_kv)
    assert sum(sizes(parts_of(it)).values()) == it.rank.total_visible_bytes


@given(gpu=st.sampled_from(gpu_names()), model=st.sampled_from(MODELS), share=st.floats(0.05, 1.0))
def test_pools_add_up_too(gpu: str, model: str, share: float) -> None:
    """SGLang's parts are all of the GPU as well."""
    pools = sglang_pools(load_gpu(gpu), load_model(model), MemorySettings(), SglangSettings(mem_fraction_static=share))
    parts = parts_of(pools)
    assert sum(sizes(parts).values()) == pools.total_visible_bytes
    assert parts[-1].name == DYNAMIC


@pytest.mark.parametrize(("version", "on_top"), [("0.25.0", False), ("0.32.0", True)])
def test_graphs_on_top_of_the_budget_are_taken_from_what_is_left(version: str, *, on_top: bool) -> None:
    """Charged to KV they stand before it, else after it."""
    it = ledger(vllm_version=version)
    parts = sizes(parts_of(it))
    outside = it.rank.total_visible_bytes - it.rank.budget_bytes
    assert parts[LEFT] == outside - (parts[GRAPHS] if on_top else 0)
    names = list(parts)
    assert (names.index(GRAPHS) > names.index(KV)) is on_top


def test_ranges_hold_the_likely_size() -> None:
    """What graphs may take on top is what may be left less."""
    for part in parts_of(ledger()):
        span = part.size_bytes
        assert span.low <= span.likely <= span.high
    left, graphs = ({part.name: part for part in parts_of(ledger())}[name].size_bytes for name in (LEFT, GRAPHS))
    assert left.high - left.low == graphs.high - graphs.low
    assert isinstance(left, ByteRange)


def test_kv_that_has_no_room_is_negative() -> None:
    """The shortage is shown, not hidden in another part."""
    it = ledger("Qwen3-8B", "T4")
    assert sizes(parts_of(it))[KV] == it.kv_bytes < 0


def test_measured_memory_replaces_the_estimates() -> None:
    """Weights and what was measured beside them are what was given, even where the weights alone are more."""
    for measured in (3 * GIB, 9 * GIB):
        parts = sizes(parts_of(ledger(non_kv_bytes=measured)))
        assert parts[WEIGHTS] + parts[MEASURED] == measured
        assert parts[MEASURED] >= 0


def test_each_stage_of_a_pipeline_has_its_parts() -> None:
    """The one that decides is shown where there is room for one."""
    it = ledger("Qwen3-14B", pipeline_parallel_size=2, pipeline_layers=(24, 16), max_model_len=8_192)
    first, second = (sizes(rank_parts(it, rank)) for rank in it.ranks)
    assert first[WEIGHTS] > second[WEIGHTS]
    assert sizes(parts_of(it)) == first
