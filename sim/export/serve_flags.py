"""A scenario's engine as a `vllm serve` command: the settings it was simulated with, under vLLM's own flags."""

from collections.abc import Iterator

from sim.export.model_id import model_id
from sim.scheduling.policies import VLLM_V1
from sim.setup import Deployment

_KV_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "tq4": "turboquant_4bit_nc"}
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def serve_command(deployment: Deployment) -> list[str]:
    """Return the words of the command."""
    return ["vllm", "serve", model_id(deployment.scenario.model), *_flags(deployment)]


def _flags(deployment: Deployment) -> Iterator[str]:
    engine, limits, ledger = deployment.scenario.engine, deployment.ledger.limits, deployment.ledger
    yield from _weights(deployment)
    values: dict[str, object] = {
        "--max-model-len": engine.max_model_len,
        "--kv-cache-dtype": _KV_DTYPES.get(engine.kv_cache_dtype, engine.kv_cache_dtype),
        "--gpu-memory-utilization": f"{ledger.settings.utilization:g}",
        "--max-num-batched-tokens": limits.max_num_batched_tokens,
        "--max-num-seqs": limits.max_num_seqs,
        "--block-size": engine.block_size,
    }
    if engine.tensor_parallel_size > 1:
        values["--tensor-parallel-size"] = engine.tensor_parallel_size
    if engine.kv_cache_memory_bytes is not None:
        values["--kv-cache-memory-bytes"] = engine.kv_cache_memory_bytes
    elif engine.kv_cache_tokens is not None or engine.num_gpu_blocks_override is not None:
        values["--num-gpu-blocks-override"] = ledger.num_gpu_blocks
    if engine.scheduling_policy == "priority":
        values["--scheduling-policy"] = engine.scheduling_policy
    if engine.long_prefill_token_threshold:
        values["--long-prefill-token-threshold"] = engine.long_prefill_token_threshold
    if engine.watermark:
        values["--watermark"] = f"{engine.watermark:g}"
    if engine.mamba_cache_mode is not None:
        values["--mamba-cache-mode"] = engine.mamba_cache_mode
    if engine.mamba_ssm_cache_dtype != "auto":
        values["--mamba-ssm-cache-dtype"] = engine.mamba_ssm_cache_dtype
    for flag, value in values.items():
        yield from (flag, str(value))
    caches = ledger.settings.caches_prefixes(deployment.model)
    yield "--enable-prefix-caching" if caches else "--no-enable-prefix-caching"
    switches = {
        "--no-enable-chunked-prefill": not engine.enable_chunked_prefill,
        "--long-prefill-token-threshold-adaptive": engine.long_prefill_token_threshold_adaptive,
        "--no-async-scheduling": not engine.async_scheduling,
        "--no-scheduler-reserve-full-isl": not engine.scheduler_reserve_full_isl,
        "--enforce-eager": engine.enforce_eager,
        "--disable-hybrid-kv-cache-manager": engine.disable_hybrid_kv_cache_manager,
        "--language-model-only": engine.language_model_only,
    }
    yield from (flag for flag, given in switches.items() if given)


def _weights(deployment: Deployment) -> Iterator[str]:
    asked = deployment.scenario.weight_dtype
    if asked in {"auto", deployment.model.weight_dtype}:
        return
    if asked in _DTYPES:
        yield from ("--dtype", _DTYPES[asked])
    elif asked == "fp8":  # quantised as it is loaded
        yield from ("--quantization", "fp8")


def remarks(deployment: Deployment) -> list[str]:
    """Return what the command cannot ask for: another checkpoint, and what vLLM does not have."""
    scenario, engine = deployment.scenario, deployment.scenario.engine
    found: list[str] = []
    asked = scenario.weight_dtype
    if asked not in {"auto", "fp8", deployment.model.weight_dtype, *_DTYPES}:
        found.append(f"the scenario's weights are {asked}: name a checkpoint of {scenario.model} that has them")
    if engine.scheduler != VLLM_V1:
        found.append(
            f"the scenario's scheduler is {engine.scheduler}, which vLLM does not have: this server is another"
        )
    if engine.scheduling_policy not in {"fcfs", "priority"}:
        found.append(
            f"the scenario's queue order is {engine.scheduling_policy}, which vLLM does not have: this is fcfs"
        )
    return found
