from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.catalog import Gpu, gpu_names, load_gpu, load_model, model_names
from sim.errors import MemoryLedgerError
from sim.memory import MemoryLedger, MemorySettings, memory_ledger
from sim.memory.versions import graphs_reduce_kv
from sim.units import GIB


def ledger(gpu: str | Gpu = "L4", model: str = "Qwen3-4B", **settings: Any) -> MemoryLedger:
    """Account for a 32k Qwen3-4B on an L4 unless told otherwise."""
    card = gpu if isinstance(gpu, Gpu) else load_gpu(gpu)
    return memory_ledger(card, load_model(model), MemorySettings(**({"max_model_len": 32_768} | settings)))


def test_the_parts_add_up_to_the_budget() -> None:
    """Weights, likely reserves and KV are the budget, to the byte."""
    ledger_of_one = ledger(vllm_version="0.25.0")
    it = ledger_of_one.rank
    spent = it.weight_bytes + it.activation_bytes.likely + it.non_torch_bytes.likely
    assert spent + it.cuda_graph_bytes.likely + it.kv_bytes.likely == it.budget_bytes
    assert set(ledger_of_one.provenance.values()) <= {"config", "catalog", "computed", "fitted", "given", "estimated"}


def test_blocks_tokens_and_concurrency_count_the_engines_own_block() -> None:
    """As printed; requests get one block less."""
    it = ledger(num_gpu_blocks_override=5_000, max_model_len=10_000)
    assert (it.num_gpu_blocks, it.usable_blocks, it.kv_cache_tokens) == (5_000, 4_999, 80_000)
    assert it.max_concurrency == 5_000 / 625
    assert it.largest_max_model_len == 4_999 * 16
    assert it.provenance["kv_bytes"] == "given"


def test_given_tokens_become_whole_blocks() -> None:
    """178,000 and 178,015 tokens are both 11,125 blocks of 16."""
    for tokens in (178_000, 178_015):
        it = ledger(kv_cache_tokens=tokens, kv_cache_dtype="fp8")
        assert (it.num_gpu_blocks, it.kv_cache_tokens) == (11_125, 178_000)
        assert it.rank.kv_bytes.low == it.kv_bytes == it.rank.kv_bytes.high


def test_measured_non_kv_memory_replaces_the_estimate() -> None:
    """What the budget leaves beside it is KV."""
    it = ledger(non_kv_bytes=8 * GIB)
    assert it.kv_bytes == it.rank.budget_bytes - 8 * GIB
    assert ledger(kv_cache_memory_bytes=10 * GIB).kv_bytes == 10 * GIB


def test_a_request_that_fits_to_the_block_starts_and_one_token_more_does_not() -> None:
    """The engine keeps block 0, so 101 blocks hold 100 x 16 tokens."""
    assert ledger(num_gpu_blocks_override=101, max_model_len=1_600).starts
    refused = ledger(num_gpu_blocks_override=101, max_model_len=1_601)
    assert not refused.starts
    assert refused.refusal is not None
    assert "max_model_len 1,601" in refused.refusal
    assert "that fits is 1,600" in refused.refusal
    assert "\n" not in refused.refusal


def test_no_room_for_kv_is_a_refusal_not_an_exception() -> None:
    """An 8B model in 16 bits does not fit a T4; the numbers stay readable."""
    it = ledger("T4", "Qwen3-8B")
    assert it.kv_bytes < 0
    assert (it.num_gpu_blocks, it.usable_blocks, it.kv_cache_tokens, it.max_concurrency) == (0, 0, 0, 0)
    assert it.largest_max_model_len == 0
    assert it.refusal is not None
    assert it.refusal.startswith("the weights alone are 15.27 GiB a GPU, more than the 14.56 GiB it has")


def test_memory_that_others_hold_is_a_refusal() -> None:
    """The engine asks for a share of the total and refuses when less is free."""
    it = ledger(free_bytes_at_start=18 * GIB)
    assert it.refusal is not None
    assert "18.00 GiB is free" in it.refusal
    assert ledger(free_bytes_at_start=22 * GIB).starts
    assert ledger(free_bytes_at_start=18 * GIB, kv_cache_memory_bytes=GIB).refusal == it.refusal  # vLLM looks first


@pytest.mark.parametrize(
    ("version", "charged"),
    [("0.8.4", False), ("0.20.2", False), ("v0.21.0", True), ("0.27.1", True), ("0.29.1rc1", False)],
)
def test_graphs_come_out_of_kv_only_where_the_version_says_so(version: str, *, charged: bool) -> None:
    """0.21 to 0.27 charge their estimate; eager mode has none to charge."""
    it, eager = ledger(vllm_version=version), ledger(vllm_version=version, enforce_eager=True)
    assert graphs_reduce_kv(version) is it.cuda_graphs_reduce_kv is charged
    assert (it.kv_bytes < eager.kv_bytes) is charged


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"gpu_memory_utilization": 0}, "gpu_memory_utilization 0 "),
        ({"gpu_memory_utilization": 1.01}, "above 0 and at most 1"),
        ({"gpu_memory_utilization": float("nan")}, "gpu_memory_utilization nan"),
        ({"gpu_memory_utilization": "0.9"}, "gpu_memory_utilization '0.9'"),
        ({"max_model_len": 0}, "max_model_len 0"),
        ({"max_model_len": 10**12}, "max_model_len"),
        ({"max_num_seqs": -1}, "max_num_seqs -1"),
        ({"max_num_batched_tokens": float("nan")}, "max_num_batched_tokens nan"),
        ({"block_size": 16.5}, "block_size 16.5"),
        ({"block_size": None}, "block_size None"),
        ({"tensor_parallel_size": True}, "tensor_parallel_size True"),
        ({"kv_cache_tokens": 0}, "kv_cache_tokens 0"),
        ({"kv_cache_tokens": 10**11}, "more than the 22.03 GiB of one L4"),
        ({"kv_cache_tokens": 1_000, "num_gpu_blocks_override": 9}, "give one of them"),
        ({"vllm_version": "newest"}, "vllm_version 'newest'"),
        ({"kv_cache_dtype": "fp9"}, "kv_cache_dtype 'fp9'"),
        ({"weight_dtype": "fp9"}, "weight_dtype 'fp9'"),
    ],
)
def test_settings_that_cannot_be_are_one_line(settings: dict[str, Any], said: str) -> None:
    """The value and the rule, never a traceback from deep inside."""
    with pytest.raises(MemoryLedgerError) as caught:
        ledger(**settings)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_left_open_takes_the_engines_defaults() -> None:
    """By GPU size; an A100 counts as small although it has 80 GB."""
    limits = {
        name: (
            memory_ledger(load_gpu(name), load_model("Qwen3-4B"), MemorySettings()).limits.max_num_batched_tokens,
            memory_ledger(load_gpu(name), load_model("Qwen3-4B"), MemorySettings()).limits.max_num_seqs,
        )
        for name in ("L4", "A100", "H100", "B200")
    }
    assert limits == {"L4": (2048, 256), "A100": (2048, 256), "H100": (8192, 1024), "B200": (16384, 1024)}
    assert memory_ledger(load_gpu("L4"), load_model("Qwen3-4B"), MemorySettings()).limits.max_model_len == 40_960


shapes = st.tuples(st.sampled_from(gpu_names()), st.sampled_from(model_names()))
shares = st.floats(0.05, 1.0)


@given(shapes, shares, shares)
def test_a_larger_share_never_gives_fewer_blocks(shape: tuple[str, str], one: float, other: float) -> None:
    """More memory, at least as many blocks."""
    low, high = sorted((one, other))
    less, more = (ledger(*shape, gpu_memory_utilization=share) for share in (low, high))
    assert less.num_gpu_blocks <= more.num_gpu_blocks


@given(shapes, st.integers(0, 64 * GIB))
def test_a_larger_gpu_never_gives_fewer_blocks(shape: tuple[str, str], extra_bytes: int) -> None:
    """Batch limits held fixed, memory only helps."""
    gpu = load_gpu(shape[0])
    larger = replace(gpu, visible_bytes=gpu.usable_bytes + extra_bytes)
    fixed = {"max_num_batched_tokens": 2048, "max_num_seqs": 256}
    assert ledger(gpu, shape[1], **fixed).num_gpu_blocks <= ledger(larger, shape[1], **fixed).num_gpu_blocks


@given(shapes, st.integers(1, 10**6), st.integers(1, 10**6))
def test_longer_requests_never_raise_concurrency(shape: tuple[str, str], one: int, other: int) -> None:
    """Nor do they change the blocks; and what starts long also starts short."""
    fixed = {"max_num_batched_tokens": 2048, "max_num_seqs": 256, "enable_chunked_prefill": True}
    short, long = (ledger(*shape, max_model_len=length, **fixed) for length in sorted((one, other)))
    assert short.num_gpu_blocks == long.num_gpu_blocks
    assert short.max_concurrency >= long.max_concurrency
    assert short.starts or not long.starts


@given(shapes, st.integers(1, 2**16), st.integers(1, 2**16))
def test_larger_batches_never_leave_more_kv(shape: tuple[str, str], one: int, other: int) -> None:
    """The activation peak grows with max_num_batched_tokens."""
    less, more = (ledger(*shape, max_num_batched_tokens=tokens) for tokens in sorted((one, other)))
    assert less.kv_bytes >= more.kv_bytes


@given(shapes, shares, st.sampled_from(["0.20.2", "0.25.0", "0.32.0"]))
def test_ranges_are_in_order(shape: tuple[str, str], share: float, version: str) -> None:
    """Low, likely, high, for every size that is not known exactly."""
    it = ledger(*shape, gpu_memory_utilization=share, vllm_version=version)
    rank = it.rank
    parts = (rank.activation_bytes, rank.non_torch_bytes, rank.cuda_graph_bytes, rank.kv_bytes)
    for part in (*parts, it.num_gpu_blocks_range):
        assert part.low <= part.likely <= part.high


@given(shapes, shares)
def test_the_largest_length_that_fits_starts_and_the_next_does_not(shape: tuple[str, str], share: float) -> None:
    """The refusal's advice is right to the token."""
    largest = ledger(*shape, gpu_memory_utilization=share).largest_max_model_len
    if largest:
        assert ledger(*shape, gpu_memory_utilization=share, max_model_len=largest).starts
    if largest < 10**8:  # a model of windows alone takes any length
        assert not ledger(*shape, gpu_memory_utilization=share, max_model_len=largest + 1).starts


def test_largest_length_leaves_the_engines_block_out() -> None:
    """One block is no block for requests; older versions do not know it when they check."""
    sizes = [ledger(num_gpu_blocks_override=blocks, max_model_len=16).largest_max_model_len for blocks in (1, 2, 101)]
    assert sizes == [0, 16, 1_600]
    older = ledger(num_gpu_blocks_override=101, max_model_len=16, vllm_version="0.25.0")
    assert older.largest_max_model_len == 1_616
