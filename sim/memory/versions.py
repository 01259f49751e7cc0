"""What changed between vLLM's versions, as far as memory goes: one function a rule.

Found in the engine's own source and in prints of `shared/data/capacity_cases`; where only prints tell, it says so.
"""

import re

from sim.errors import MemoryLedgerError

NEWEST_KNOWN_VLLM = "0.32.0"
Version = tuple[int, int]
_LONGEST = 60  # characters of a version with all its suffixes


def parse_version(vllm_version: str) -> Version:
    """Return major and minor. Raises MemoryLedgerError when the version is unreadable."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\D|$)", vllm_version)
    if found is None or len(vllm_version) > _LONGEST:
        raise MemoryLedgerError(f"vllm_version {vllm_version[:40]!r} must look like '{NEWEST_KNOWN_VLLM}'")
    return int(found[1]), int(found[2])


def default_gpu_memory_utilization(vllm_version: str) -> float:
    """0.92 from 0.20 on, 0.9 before: 0.9 is stated up to 0.19.1, 0.92 printed by 0.29 and in 0.32's source."""
    return 0.92 if parse_version(vllm_version) >= (0, 20) else 0.9


def graphs_reduce_kv(vllm_version: str) -> bool:
    """Whether this version takes its CUDA graph estimate out of the KV memory by default.

    0.21 to 0.27 do. Up to 0.20 graphs come on top of the budget. Prints of 0.29 and 0.31 close without a
    graph term; that 0.28 already does is inferred.
    """
    return (0, 21) <= parse_version(vllm_version) <= (0, 27)


def prints_concurrency_tokens(vllm_version: str) -> bool:
    """Whether "GPU KV cache size" is concurrency x max_model_len (from 0.21) rather than blocks // groups x block."""
    return parse_version(vllm_version) >= (0, 21)


def has_hybrid_groups(vllm_version: str) -> bool:
    """Whether windows give their blocks back (from 0.10): before, such layers are charged in full."""
    return parse_version(vllm_version) >= (0, 10)


def has_chunk_groups(vllm_version: str) -> bool:
    """Whether layers with chunked attention give blocks back unless told not to: 0.32 yes, 0.13 no (0.14 inferred)."""
    return parse_version(vllm_version) >= (0, 14)


def steps_in_flight(vllm_version: str, *, async_scheduling: bool, pipeline_parallel_size: int) -> int:
    """Return for how many step budgets a window reserves.

    From 0.26 on one for each batch that may be under way: two with asynchronous scheduling, or the pipeline's stages
    (source; it is why a fixed KV size stopped sufficing at 0.26, issue 49878). One before. The second model runner,
    the default by 0.29 (its start-up line), overlaps one more step with a pipeline.
    """
    version = parse_version(vllm_version)
    if version < (0, 26):
        return 1
    if version >= (0, 29):
        return pipeline_parallel_size + (1 if async_scheduling else 0)
    return max(pipeline_parallel_size, 2 if async_scheduling else 1)


def keeps_a_block(vllm_version: str) -> bool:
    """Whether the start-up check leaves out the block the engine never hands out: 0.32 does, 0.27 does not."""
    return parse_version(vllm_version) >= (0, 32)


def checks_whole_model(vllm_version: str) -> bool:
    """Whether the check holds the whole model's need against one pipeline stage's memory (issue 34076, 0.15)."""
    return parse_version(vllm_version) <= (0, 15)


def caches_hybrid_prefixes(vllm_version: str) -> bool:
    """Whether models with recurrent layers cache prefixes unless told not to: from 0.28 (0.23 no, 0.28.1 yes)."""
    return parse_version(vllm_version) >= (0, 28)


def latent_alignment_tokens(vllm_version: str) -> int:
    """Return the multiple of a block over MLA and recurrent layers: 64, then 128 (from 0.26, inferred)."""
    return 128 if parse_version(vllm_version) >= (0, 26) else 64


def keeps_prefill_checkpoints(vllm_version: str) -> bool:
    """Whether cached prefixes reserve one more state where a prefill may write one on its way: 0.32 (source)."""
    return parse_version(vllm_version) >= (0, 32)


def raises_in_own_blocks(vllm_version: str) -> bool:
    """Whether a block over recurrent layers is raised in multiples of the `block_size` asked for.

    0.32 does (source; 128 makes 896 of Qwen3.5-27B's 784); early hybrids knew the kernels' 16 only. 0.22 is inferred.
    """
    return parse_version(vllm_version) >= (0, 22)


def pads_up_to(vllm_version: str) -> float:
    """Return how many times as many layers the largest kind may have for the others to be padded to it.

    1.5 in newer source, 1.25 before, none in the first hybrid releases; the versions (0.17, 0.11) are inferred.
    """
    version = parse_version(vllm_version)
    if version < (0, 11):
        return 1.0
    return 1.5 if version >= (0, 17) else 1.25


def sampler_bytes_per_logit(vllm_version: str) -> float:
    """Return the bytes that sampling takes at its peak, a sequence and vocabulary entry.

    38.4 up to 0.16, with sorted copies and their indices: the mean of five H100 prints of late 2025 with 1,024
    sequences (Qwen3-0.6B and 32B, Llama-8B and 70B, gpt-oss), each met within 1 %, and Gemma 3's on B200 to 3 %. Six
    start-ups of 0.17 to 0.21 leave room for 14 to 32, five of them for less than 24; four of 0.28 on Ada and Blackwell
    cards for 40 again. That a leaner sampler came and a wider workspace later is inferred from that.
    """
    return 22.0 if (0, 17) <= parse_version(vllm_version) <= (0, 25) else 38.4


def is_v0(vllm_version: str) -> bool:
    """Whether this is the first engine, which prints "# GPU blocks" (up to 0.8)."""
    return parse_version(vllm_version) <= (0, 8)
