import re
from collections.abc import Callable

import pytest
import shown_ledgers as ledgers
from shown_ledgers import ledger, shown, uniform

from sim.catalog import load_gpu, load_model
from sim.memory import MemoryLedger, MemorySettings, SglangPools
from sim.memory.remedies import remedies_of
from sim.report.ledger_table import ledger_table

Ledger = MemoryLedger | SglangPools


def words(it: Ledger, **more: object) -> str:
    """Return the table on one line, so that line breaks do not part what is looked for."""
    return re.sub(r"\s+", " ", shown(ledger_table(it, **more), width=100))  # type: ignore[arg-type]


def test_each_part_stands_with_range_and_origin() -> None:
    """And the budget, which the parts before the last fill."""
    text = words(ledger("L4", "Qwen3-4B", max_model_len=32_768))
    for part in ("weights", "activation peak", "outside torch", "CUDA graphs", "KV cache", "left to others"):
        assert re.search(rf"{part} +-?[\d.]+ GiB", text), part
    assert re.search(r"activation peak [\d.]+ GiB [\d.]+ to [\d.]+ GiB fitted", text)
    assert "visible 22.03 GiB catalog" in text
    assert "budget, 0.92 of it 20.27 GiB config" in text


def test_blocks_requests_and_the_engines_own_lines_are_said() -> None:
    """With thousands separators, as the version prints them."""
    text = words(uniform())
    assert "5,000 of 16 tokens" in text
    assert "147,456 bytes a token on each GPU" in text
    assert "36 layers keep every token, 16 tokens a block" in text
    assert "625 blocks at most for 10,000 tokens, 63 for 1,000" in text
    assert '"GPU KV cache size: 80,000 tokens"' in text
    assert '"Maximum concurrency for 10,000 tokens per request: 8.00x"' in text
    assert "8, bound by the KV cache (max_num_seqs 256)" in text
    assert "max_model_len up to 79,984 starts" in text
    assert '"# GPU blocks: 5000"' in words(uniform(vllm_version="0.8.5"))


def test_a_cap_below_the_print_is_named() -> None:
    """8.00x that run 3."""
    assert "8.00x printed, but max_num_seqs 3 admits 3" in words(uniform(max_num_seqs=3))


def test_kinds_of_layers_have_a_line_each() -> None:
    """Windows with what they reserve, states with their blocks a sequence."""
    gemma = words(ledger("H100", "gemma-4-26B-A4B-it", max_model_len=131_072, async_scheduling=False))
    assert "25 layers keep a window of 1,024 in 5 groups: 1,023 + 8,192 in-flight tokens = 577 blocks each" in gemma
    assert "5 layers keep every token, 32 tokens a block" in gemma
    qwen = words(ledger("H200", "Qwen3.5-27B", max_model_len=65_536))
    states = "48 layers keep a state in 3 groups: 6 state blocks a sequence whatever its length"
    assert f"{states} (mamba_cache_mode align)" in qwen
    assert "16 layers keep every token, 784 tokens a block" in qwen
    assert "requests of 1,000 tokens: " in qwen
    assert "bound by state slots" in qwen


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.19.0", "is blocks // groups x block size; what fits is"),
        ("0.25.0", "concurrency x max_model_len: they hold"),
    ],
)
def test_the_print_of_mixed_layers_is_explained(version: str, said: str) -> None:
    """By what the version means."""
    text = words(ledger("H100", "gemma-4-26B-A4B-it", max_model_len=65_536, vllm_version=version))
    assert said in text
    assert said not in words(uniform(vllm_version=version))


def test_stages_and_replicas_are_told_apart() -> None:
    """Which stage decides, and what all replicas hold."""
    text = words(ledgers.stages())
    assert "Qwen3-14B on 2 x L4 (PP 2)" in text
    assert re.search(r"0, L4, layers 0 to 23: weights [\d.]+ GiB, KV [\d.]+ GiB, [\d,]+ blocks: decides", text)
    assert re.search(r"1, L4, layers 24 to 39: weights [\d.]+ GiB, KV [\d.]+ GiB, [\d,]+ blocks known", text)
    assert "times 2 replicas, each with its own KV cache: 16.00x" in words(uniform(data_parallel_size=2))


def test_the_widest_term_and_an_open_verdict_are_named() -> None:
    """Nothing is known least where the KV memory is given."""
    assert "known least activation peak, " in words(ledger("L4", "Qwen3-4B", max_model_len=32_768))
    assert "known least" not in words(uniform())
    near = ledger("L4", "Qwen3-4B", max_model_len=ledger("L4", "Qwen3-4B").largest_max_model_len)
    assert re.search(
        r"would probably start: one request takes 11\.22 GiB .* may find 10\.\d+ to 12\.\d+ GiB", words(near)
    )
    beyond = ledger("L4", "Qwen3-4B", max_model_len=near.limits.max_model_len + 1)
    assert re.search(r"would probably not start: .*; it may find 10\.\d+ to 12\.\d+ GiB of KV memory\.", words(beyond))
    assert "probably" not in words(ledger("L4", "Qwen3-4B", max_model_len=32_768))
    assert "probably" not in words(ledgers.refused())


@pytest.mark.parametrize(
    ("it", "printed"),
    [
        (ledger("L4", "Qwen3-8B", max_model_len=40_960), r"max seq len \(40960\), \(5\.62 GiB KV cache is needed, .*"),
        (ledger("L4", "Qwen3-8B", max_model_len=40_960), r"\(3\.\d\d GiB\) .* maximum model length is 25\d\d\d"),
        (ledger("T4", "Qwen3-8B"), "torch.OutOfMemoryError: CUDA out of memory"),
        (ledger("L4", "Qwen3-8B", gpu_memory_utilization=0.7), "No available memory for the cache blocks"),
        (
            ledger("L4", "Qwen3-4B", free_bytes_at_start=18 * 2**30),
            r"Free memory on device .* \(18\.00/22\.03 GiB\) .* memory utilization \(0\.92, 20\.27 GiB\)",
        ),
        (ledger("L4", "Qwen3-8B", max_model_len=40_000, vllm_version="0.8.5"), r"stored in KV cache \(\d+\)"),
    ],
)
def test_a_refusal_is_quoted_as_the_log_has_it(it: MemoryLedger, printed: str) -> None:
    """With our numbers, and dots for the rest of the sentence."""
    assert re.search(f'vLLM prints "[^"]*{printed}', words(it))


def test_graphs_that_may_not_fit_and_lengths_beyond_the_model_are_said() -> None:
    """In words; a negative low end alone says nothing."""
    text = words(ledger("L4", "Qwen3-4B", max_model_len=32_768), model=load_model("Qwen3-4B"))
    assert "capturing CUDA graphs may run out of memory: at the high end of their range 0.64 GiB is missing" in text
    assert "beyond the model's own 40,960" in text
    assert "capturing" not in words(ledger("L4", "Qwen3-4B", enforce_eager=True))


def test_what_was_measured_is_named_in_full() -> None:
    """With graphs, where the budget is charged with them."""
    for version, charged in (("0.25.0", True), ("0.32.0", False)):
        text = words(ledger("L4", "Qwen3-4B", non_kv_bytes=10 * 2**30, vllm_version=version, max_model_len=8_192))
        assert "activation peak, outside torch" in text
        assert ("activation peak, outside torch, graphs " in text) is charged


def test_a_refusal_is_followed_by_its_remedies() -> None:
    """And nothing is quoted that a refused engine never prints."""
    card, model = load_gpu("L4"), load_model("Qwen3-8B")
    settings = MemorySettings(max_model_len=40_960)
    text = words(
        ledger("L4", "Qwen3-8B", max_model_len=40_960), model=model, remedies=remedies_of(card, model, settings)
    )
    assert "The engine would not start: one request of max_model_len 40,960 needs 5.62 GiB" in text
    assert re.search(r"--max-model-len \d+ 1.00x of [\d,]+ tokens shorter requests", text)
    assert "GPU KV cache size" not in text
    assert "KV cache (short) -" in words(ledgers.refused())
    assert "No single change to one flag makes it start." in words(ledgers.refused())


def test_how_a_name_was_read_is_said() -> None:
    """With the source of the shape."""
    model = load_model("Qwen3.5-27B-FP8")
    assert "read as Qwen3.5-27B with fp8 weights, from the name; shape from " in words(uniform(), model=model)


def test_sglang_has_its_own_words() -> None:
    """Tokens as it logs them, slots, and no blocks."""
    text = words(ledgers.pools(), model=load_model("Qwen3.5-27B"), gpu="H200")
    assert "Qwen3.5-27B on one H200, SGLang" in text
    assert re.search(r"max_total_num_tokens=\d+", text)
    assert re.search(r"states \d+ slots in [\d.]+ GiB", text)
    assert "bound by state slots" in text
    assert "block" not in text


@pytest.mark.parametrize("make", [uniform, ledgers.refused, ledgers.stages, ledgers.pools])
@pytest.mark.parametrize(("width", "most"), [(80, 80), (100, 100), (240, 100)])
def test_no_line_is_longer_than_the_console_or_100_columns(make: Callable[[], Ledger], width: int, most: int) -> None:
    """And nothing is cut off with an ellipsis."""
    text = shown(ledger_table(make(), model=load_model("Qwen3-4B")), width=width)
    assert max(map(len, text.splitlines())) <= most
    assert all(line == line.rstrip() for line in text.splitlines())
    assert "…" not in text
    assert "\x1b" not in text
