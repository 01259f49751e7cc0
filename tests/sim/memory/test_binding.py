from sim.catalog import load_gpu, load_model
from sim.memory import MemoryLedger, MemorySettings, SglangSettings, memory_ledger, sglang_pools
from sim.memory.binding import (
    KV,
    MAX_NUM_SEQS,
    STATE_SLOTS,
    longest_requests,
    replicas_of,
    short_requests,
    total_concurrency,
)


def ledger(model: str = "Qwen3-4B", **settings: object) -> MemoryLedger:
    """Account for a model on an L4."""
    return memory_ledger(load_gpu("L4"), load_model(model), MemorySettings(**settings))  # type: ignore[arg-type]


def test_kv_binds_long_requests_and_the_cap_short_ones() -> None:
    """5,000 blocks hold 2.44 requests of 32,768 tokens, and 4,999 // 63 of 1,000 tokens, of which 64 may run."""
    it = ledger(num_gpu_blocks_override=5_000, max_model_len=32_768, max_num_seqs=64)
    longest, short = longest_requests(it), short_requests(it)
    assert (longest.binding.name, longest.binding.requests, longest.blocks) == (KV, it.max_concurrency, 2_048)
    assert (short.binding.name, short.binding.requests, short.tokens) == (MAX_NUM_SEQS, 64, 1_000)
    assert {limit.requests for limit in short.limits} == {79, 64}


def test_the_cap_on_sequences_binds_whatever_is_printed() -> None:
    """A print of 40x with max_num_seqs 8 is 8."""
    it = ledger(num_gpu_blocks_override=5_000, max_model_len=2_000, max_num_seqs=8)
    assert it.max_concurrency == 40
    assert longest_requests(it).binding.name == MAX_NUM_SEQS
    assert longest_requests(it).binding.requests == 8


def test_states_bind_short_requests_of_a_hybrid() -> None:
    """796 blocks of which a request of up to one block takes 19 run 41, as one router's log shows."""
    it = ledger(
        "Qwen3.5-35B-A3B",
        num_gpu_blocks_override=796,
        max_model_len=262_144,
        enable_prefix_caching=False,
        num_speculative_tokens=5,
        speculative_method="mtp",
        max_num_seqs=128,
    )
    short = short_requests(it)
    assert (short.blocks, short.binding.name, short.binding.requests) == (19, STATE_SLOTS, 41)


def test_sglangs_state_slots_bind_short_requests() -> None:
    """KV would hold hundreds."""
    pools = sglang_pools(load_gpu("H200"), load_model("Qwen3.5-27B"), MemorySettings(), SglangSettings())
    assert short_requests(pools).binding.name == STATE_SLOTS
    assert short_requests(pools).binding.requests == pools.max_running_requests
    assert longest_requests(pools).binding.name == KV


def test_replicas_add_up() -> None:
    """Each has a KV cache of its own, of either engine."""
    one, four = (ledger(num_gpu_blocks_override=5_000, data_parallel_size=count) for count in (1, 4))
    assert (replicas_of(four), total_concurrency(four)) == (4, 4 * one.max_concurrency)
    settings = MemorySettings(data_parallel_size=4)
    pools = sglang_pools(load_gpu("H200"), load_model("Qwen3-8B"), settings, SglangSettings())
    assert total_concurrency(pools) == 4 * pools.max_concurrency
