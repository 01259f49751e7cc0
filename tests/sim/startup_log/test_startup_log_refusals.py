"""What an engine says when it does not start."""

import pytest
from startup_log_facts import gib

from sim.startup_log import StartupFacts, parse_lines

ENGINE = "(EngineCore pid=94) INFO [core.py:97] Initializing a V1 LLM engine (v0.19.0) with config: model='m', "
LOADED = "(EngineCore pid=94) INFO [gpu_model_runner.py:4735] Model loading took 14.99 GiB memory and 9 seconds"
SIZED = "(EngineCore pid=94) INFO 01-30 08:00:50 [kv_cache_utils.py:1319] GPU KV cache size: 20,992 tokens"
READY = "(APIServer pid=1) INFO:     Application startup complete."
OUT_OF_MEMORY = "(EngineCore pid=94) ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 266.00 MiB."


def parsed(*lines: str) -> StartupFacts:
    """Return the facts of a start with these lines behind its engine's."""
    return parse_lines([ENGINE, *lines], "run.log")


@pytest.mark.parametrize("whose", ["models's", "model's"])
@pytest.mark.parametrize("bracket", ["(", ""])
def test_one_request_does_not_fit(whose: str, bracket: str) -> None:
    """Old and new wordings give the same numbers."""
    facts = parsed(
        "ERROR [core.py:708] ValueError: To serve at least one request with the "
        f"{whose} max seq len (262144), {bracket}24.00 GiB KV cache is needed, which is larger than the available KV "
        "cache memory (8.04 GiB). Based on the available memory, the estimated maximum model length is 87840. Try "
        "increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
    )
    refusal = facts.refusal
    assert facts.refused
    assert refusal is not None
    assert refusal.reason == "KV holds less than one request of max_model_len"
    assert (refusal.needed_bytes, refusal.available_bytes) == (gib(24), gib(8.04))
    assert (refusal.max_model_len, refusal.estimated_max_model_len) == (262_144, 87_840)
    assert refusal.line_number == 2
    assert not facts.is_cut


def test_a_refusal_that_was_wrapped_gives_the_same() -> None:
    """Pasted logs break lines anywhere between words."""
    refusal = parsed(
        "ValueError: To serve at least one request with the model's max seq len (32000),",
        "(1.1 GiB KV cache is needed, which is larger than the available KV cache memory (-0.59 GiB).",
        "Based on the available memory, the estimated maximum model length is 16384.",
    ).refusal
    assert refusal is not None
    assert (refusal.needed_bytes, refusal.available_bytes) == (gib(1.1), -gib(0.59))
    assert (refusal.max_model_len, refusal.estimated_max_model_len) == (32_000, 16_384)


def test_the_first_scheduler_counts_in_tokens() -> None:
    """Blocks are sized, then too few."""
    facts = parsed(
        "INFO 02-07 01:57:30 executor_base.py:111] # cuda blocks: 5860, # CPU blocks: 2048",
        "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored "
        "in KV cache (93760). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`.",
    )
    assert facts.refusal is not None
    assert (facts.refusal.max_model_len, facts.refusal.capacity_tokens) == (131_072, 93_760)
    assert facts.num_gpu_blocks == 5860


def test_too_little_is_free_to_begin_with() -> None:
    """The line gives free, total and asked memory."""
    facts = parsed(
        "(EngineCore pid=17) ValueError: Free memory on device cuda:0 (15.32/22.04 GiB) on startup is less than "
        "desired GPU memory utilization (0.88, 19.39 GiB). Decrease GPU memory utilization or reduce GPU memory used."
    )
    assert facts.refusal is not None
    assert facts.refusal.reason == "less memory is free than gpu_memory_utilization asks for"
    assert (facts.refusal.free_bytes, facts.refusal.asked_bytes) == (gib(15.32), gib(19.39))
    assert facts.ranks[0].total_bytes == gib(22.04)
    assert facts.gpu_memory_utilization == 0.88


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ValueError: No available memory for the cache blocks. Try increasing", "no memory is left for KV"),
        ("ValueError: Cannot auto-fit max_model_len: not enough GPU memory available", "no memory is left for KV"),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "no memory is left for KV"),
    ],
)
def test_nothing_is_left(line: str, reason: str) -> None:
    """The engines say it without numbers; the memory line above may be negative."""
    facts = parsed("(EngineCore pid=9) INFO [gpu_worker.py:440] Available KV cache memory: -3.31 GiB", line)
    assert facts.refusal is not None
    assert facts.refusal.reason == reason
    assert facts.kv_bytes == -gib(3.31)


def test_state_blocks_bound_the_sequences() -> None:
    """A hybrid model has fewer state blocks than max_num_seqs."""
    refusal = parsed(
        SIZED,
        "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (674). Each decode sequence needs one.",
    ).refusal
    assert refusal is not None
    assert (refusal.max_num_seqs, refusal.state_blocks) == (1024, 674)


@pytest.mark.parametrize(
    ("before", "stage"),
    [
        ([], "out of memory while the weights were loaded"),
        ([LOADED], "out of memory while memory was profiled"),
        (
            [LOADED, SIZED],
            "out of memory after KV was sized: while graphs were captured or the engine warmed up",
        ),
    ],
)
def test_out_of_memory_names_its_stage(before: list[str], stage: str) -> None:
    """What was printed before tells when memory ran out."""
    facts = parsed(*before, OUT_OF_MEMORY)
    assert facts.refusal is not None
    assert facts.refusal.reason == stage


def test_running_out_of_memory_while_serving_is_no_refusal() -> None:
    """The engine had started."""
    assert not parsed(LOADED, SIZED, READY, OUT_OF_MEMORY).refused


def test_trouble_that_was_overcome_is_a_note() -> None:
    """An autotuner may run out of memory and go on."""
    facts = parsed(LOADED, OUT_OF_MEMORY, SIZED, READY)
    assert not facts.refused
    assert facts.is_ready
    assert facts.notes == ("line 3: out of memory while memory was profiled, and yet the engine started",)


def test_what_the_documentation_says_is_no_fact() -> None:
    """A traceback shows the source line with its placeholders."""
    facts = parsed(
        LOADED, 'raise ValueError(f"model\'s max seq len ({max_model_len}), ({needed} GiB KV cache is N")', SIZED
    )
    assert not facts.refused
    assert facts.tokens == 20_992
