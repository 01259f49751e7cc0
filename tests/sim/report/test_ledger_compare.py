import re

import shown_ledgers as ledgers
from shown_ledgers import ledger, shown, uniform

from sim.memory import MemoryLedger, SglangPools
from sim.report.ledger_compare import compare_table, main_cause


def words(*compared: MemoryLedger | SglangPools) -> str:
    """Return the table on one line."""
    names = [f"case {letter}" for letter in "abc"][: len(compared)]
    return re.sub(r"\s+", " ", shown(compare_table(names, compared), width=100))


def test_only_settings_that_differ_are_shown_with_what_they_do() -> None:
    """Half the bytes a token are twice the blocks."""
    pair = [ledger("L4", "Qwen3-4B", max_model_len=32_768, kv_cache_dtype=dtype) for dtype in ("auto", "fp8")]
    text = words(*pair)
    assert "kv_cache_dtype auto fp8" in text
    assert "max_num_seqs" not in text
    assert "bytes a token 147,456 73,728" in text
    assert f"{pair[1].num_gpu_blocks:,} (x 2.00)" in text
    assert "case b: concurrency x 2.00: the KV type, 73,728 instead of 147,456 bytes a token" in text


def test_in_flight_tokens_of_windows_are_a_cause() -> None:
    """Larger steps reserve more, with next to the same memory."""
    pair = [
        ledger(
            "H100", "gemma-4-26B-A4B-it", max_model_len=65_536, max_num_batched_tokens=tokens, async_scheduling=False
        )
        for tokens in (2_048, 8_192)
    ]
    cause = main_cause(*pair)
    assert cause.startswith("concurrency -")
    assert cause.endswith("the window groups reserve 8,192 instead of 2,048 in-flight tokens")


def test_other_causes_are_told_apart() -> None:
    """Length, states, ranks, and each part of the budget."""
    base = ledger("L4", "Qwen3-4B", max_model_len=32_768)
    for changed, cause in (
        ({"max_model_len": 16_384}, "requests of 16,384 instead of 32,768 tokens"),
        ({"gpu_memory_utilization": 0.6}, "the budget leaves"),
        ({"weight_dtype": "awq"}, "the weights leave"),
        ({"tensor_parallel_size": 2}, "tensor_parallel_size 2 instead of 1"),
    ):
        after = ledger("L4", "Qwen3-4B", **({"max_model_len": 32_768} | changed))
        assert cause in main_cause(base, after)
    states = [ledger("H200", "Qwen3.5-27B", max_model_len=4_096, enable_prefix_caching=on) for on in (True, False)]
    assert main_cause(*states) == "concurrency +33 %: 3 instead of 6 blocks a sequence for states"
    assert main_cause(base, base) == "concurrency unchanged"


def test_versions_say_what_they_mean_by_tokens() -> None:
    """The same words count something else from 0.21 on."""
    text = words(
        *(ledger("H100", "gemma-4-26B-A4B-it", max_model_len=65_536, vllm_version=v) for v in ("0.19.0", "0.25.0"))
    )
    assert "vllm_version 0.19.0 0.25.0" in text
    assert "which is blocks // groups x block concurrency x max_model_len" in text
    assert "graphs taken on top from KV" in text


def test_a_refusal_beside_a_start_says_what_makes_the_difference() -> None:
    """Without blocks there is no change in percent."""
    after = ledger("L4", "Qwen3-8B", max_model_len=8_192)
    text = words(ledgers.refused(), after)
    assert "starts refused yes" in text
    assert "case b: starts: the budget leaves 6.87 GiB more for KV" in text
    assert main_cause(after, ledgers.refused()).startswith("refused: the budget leaves 6.87 GiB less")


def test_three_ledgers_and_two_engines_stand_side_by_side() -> None:
    """Rows that one engine has not are empty there."""
    assert "case c: " in words(uniform(), uniform(max_num_seqs=8), uniform(max_num_seqs=4))
    text = words(ledger("H200", "Qwen3.5-27B"), ledgers.pools())
    assert "engine vLLM SGLang" in text
    assert re.search(r"states [\d.]+ GiB", text)


def test_it_fits_80_columns() -> None:
    """Three of them, with nothing cut off."""
    text = shown(compare_table(("one", "two", "three"), [uniform(), uniform(max_num_seqs=8), ledgers.refused()]))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
