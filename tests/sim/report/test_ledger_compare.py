import re

import pytest
import shown_ledgers as ledgers
from shown_ledgers import ledger, shown, uniform

from sim.catalog import load_model
from sim.memory import MemoryLedger, SglangPools
from sim.report.ledger_causes import main_cause
from sim.report.ledger_compare import compare_table

V19_AND_V32 = ("0.19.0", "0.32.0")


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
    assert "B: concurrency x 2.00: the KV type, 73,728 instead of 147,456 bytes a token" in text


def test_causes_that_act_together_are_named_with_their_shares() -> None:
    """From 0.19 on to 0.32 a window reserves for two steps, and the sampler takes more; the shares multiply up."""
    pair = [ledger("H100", "gemma-4-26B-A4B-it", vllm_version=version) for version in V19_AND_V32]
    found = re.fullmatch(
        r"concurrency -(\d+) %: the window groups reserve 16,384 instead of 8,192 in-flight tokens \(-(\d+) %\); "
        r"the activation peak leaves [\d.]+ GiB less for KV, for the sampler .* \(-(\d+) %\)",
        main_cause(*pair),
    )
    assert found is not None
    whole, windows, memory = (1 - int(share) / 100 for share in found.groups())
    assert whole == pytest.approx(windows * memory, abs=0.015)


def test_a_single_cause_needs_no_share() -> None:
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


def test_replicas_are_judged_by_the_whole_deployment() -> None:
    """One replica of eight holds less than TP 8, all of them more."""
    tensor = ledger("H200", "DeepSeek-V3", tensor_parallel_size=8)
    data = ledger("H200", "DeepSeek-V3", data_parallel_size=8, enable_expert_parallel=True)
    said = main_cause(tensor, data)
    assert data.max_concurrency < tensor.max_concurrency
    assert said.startswith("concurrency of the whole deployment x 5.")
    assert "8 replicas instead of 1 (x 8.00); the weights leave" in said
    text = words(tensor, data)
    assert "replicas 1 8 (x 8.00)" in text
    assert f"whole deployment {tensor.max_concurrency:.2f} {8 * data.max_concurrency:.2f}" in text
    assert "whole deployment" not in words(uniform(), uniform(max_num_seqs=8))


def test_the_samplers_version_is_the_reason_of_a_changed_peak() -> None:
    """0.19 takes 22 bytes a logit, 0.32 38.4."""
    pair = [ledger("H100", "Qwen3-8B", vllm_version=version, gpu_memory_utilization=0.9) for version in V19_AND_V32]
    assert "for the sampler of 0.32.0 takes 38.4 bytes a logit and that of 0.19.0 22" in main_cause(*pair)


def test_refused_columns_show_what_would_start() -> None:
    """And nothing that the engine never prints."""
    it = ledger("L4", "Qwen3-8B", max_model_len=40_960)
    text = words(it, it)
    assert f"largest max_model_len {it.largest_max_model_len:,}" in text
    for absent in ("printed size", "max concurrency", "binding limit"):
        assert absent not in text
    assert "largest max_model_len" not in words(uniform(), uniform())
    near = ledger("L4", "Qwen3-8B", max_model_len=it.largest_max_model_len)
    assert "starts refused probably" in words(it, near)


def test_what_is_compared_stands_above() -> None:
    """What all have in common, how the name was read, and each name by its letter."""
    model = load_model("Qwen3.5-27B-FP8")
    pair = [ledger("H100", "Qwen3.5-27B", vllm_version=version) for version in V19_AND_V32]
    text = shown(compare_table(("as given", "--max-num-batched-tokens 2048"), pair, models=[model, model]))
    assert text.splitlines()[:4] == [
        "Qwen3.5-27B on one H100-80GB-SXM, vLLM",
        "read as Qwen3.5-27B with fp8 weights, from the name",
        "A  as given",
        "B  --max-num-batched-tokens 2048",
    ]


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
    assert "which is blocks // groups x block concurrency x length" in text
    assert "graphs taken on top from KV" in text


def test_a_refusal_beside_a_start_says_what_makes_the_difference() -> None:
    """Without blocks there is no change in percent."""
    after = ledger("L4", "Qwen3-8B", max_model_len=8_192)
    text = words(ledgers.refused(), after)
    assert "starts refused yes" in text
    assert "B: starts: the budget leaves 6.87 GiB more for KV" in text
    assert main_cause(after, ledgers.refused()).startswith("refused: the budget leaves 6.87 GiB less")


def test_three_ledgers_and_two_engines_stand_side_by_side() -> None:
    """Rows that one engine has not are empty there."""
    assert "C: concurrency unchanged" in words(uniform(), uniform(max_num_seqs=8), uniform(max_num_seqs=4))
    text = words(ledger("H200", "Qwen3.5-27B"), ledgers.pools())
    assert "engine vLLM SGLang" in text
    assert re.search(r"states [\d.]+ GiB", text)


def test_it_fits_80_columns() -> None:
    """Four of them, with nothing cut off, nor a change parted from its sign."""
    four = [uniform(), uniform(num_gpu_blocks_override=6_000, max_num_seqs=8), ledgers.refused(), uniform()]
    text = shown(compare_table(("one", "two", "three", "four"), four))
    assert "(+20 %)" in text
    assert max(map(len, text.splitlines())) <= 80
    assert all(line == line.rstrip() for line in text.splitlines())
    assert "…" not in text
