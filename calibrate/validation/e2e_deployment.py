"""From an experiment's row to an engine: scheduler flags, KV blocks, step times. What is not stated is a default.

Versions differ in two rules that decide latencies near the cliff: from 0.14 a step is scheduled while the last one
runs (release notes), from 0.19 a prompt is admitted only if all of it fits (0.11 admits it if its first chunk does).
"""

from collections.abc import Sequence
from typing import NamedTuple

from calibrate.validation.e2e_experiments import Experiment
from calibrate.validation.e2e_names import catalog_gpu, catalog_model, kv_cache_dtype, weight_dtype
from calibrate.validation.e2e_steps import step_model_for
from sim.engine.simulation import EngineSetup
from sim.errors import MeasurementError
from sim.memory import MemorySettings, memory_ledger
from sim.scheduling.continuous import SchedulerConfig

ASYNC_SCHEDULING_SINCE = (0, 14)
WHOLE_PROMPT_ADMISSION_SINCE = (0, 19)
_UTILIZATION = 0.9  # vLLM's default up to 0.30; rows that leave it open are older


class Deployed(NamedTuple):
    """An engine, how many of it share the endpoint, and what a reader must know."""

    setup: EngineSetup
    engines: int
    profile: str
    notes: tuple[str, ...]


def deployment_of(experiment: Experiment, profiles: Sequence[str]) -> Deployed:
    """Return the engine an experiment ran.

    Raises MeasurementError if it ran something that cannot be rebuilt, and a KvcliffError for an unknown GPU,
    model, dtype or profile.
    """
    _check(experiment)
    notes: list[str] = []
    gpu, model = catalog_gpu(experiment.gpu), catalog_model(experiment.model)
    settings = MemorySettings(
        gpu_memory_utilization=experiment.gpu_memory_utilization or _UTILIZATION,
        max_model_len=experiment.max_model_len,
        max_num_batched_tokens=experiment.max_num_batched_tokens,
        max_num_seqs=experiment.max_num_seqs,
        block_size=experiment.block_size,
        kv_cache_dtype=kv_cache_dtype(experiment.kv_cache_dtype),
        weight_dtype=weight_dtype(experiment.weight_dtype),
        tensor_parallel_size=experiment.tensor_parallel,
        enforce_eager=experiment.enforce_eager,
        kv_cache_tokens=experiment.kv_cache_tokens,
        vllm_version=".".join(map(str, experiment.version)) or MemorySettings().vllm_version,
    )
    ledger = memory_ledger(gpu, model, settings)
    if ledger.num_gpu_blocks < 2:
        raise MeasurementError(f"by our ledger the engine would not start: {ledger.refusal}")
    if experiment.kv_cache_tokens is None:
        notes.append(f"KV size not stated: {ledger.kv_cache_tokens:,} tokens by the memory ledger")
    if experiment.max_num_batched_tokens is None or experiment.max_num_seqs is None:
        limits = ledger.limits
        notes.append(f"not all limits stated: {limits.max_num_batched_tokens} tokens, {limits.max_num_seqs} seqs")
    priced = step_model_for(experiment, profiles)
    config = SchedulerConfig(
        max_num_batched_tokens=ledger.limits.max_num_batched_tokens,
        max_num_seqs=ledger.limits.max_num_seqs,
        max_model_len=ledger.limits.max_model_len,
        block_size=experiment.block_size,
        enable_chunked_prefill=experiment.chunked_prefill,
        scheduler_reserve_full_isl=_since(experiment, WHOLE_PROMPT_ADMISSION_SINCE),
        async_scheduling=_since(experiment, ASYNC_SCHEDULING_SINCE),
    )
    setup = EngineSetup(config, ledger.num_gpu_blocks, priced.steps, enable_prefix_caching=experiment.prefix_caching)
    return Deployed(setup, experiment.data_parallel, priced.profile, tuple(notes))


def _since(experiment: Experiment, version: tuple[int, ...]) -> bool:
    return not experiment.version or experiment.version >= version


def _check(experiment: Experiment) -> None:
    """Raise for what no engine of ours is like."""
    gpus = experiment.tensor_parallel * experiment.data_parallel
    reason = None
    if "V0" in experiment.engine or not experiment.engine.startswith("vLLM"):
        reason = f"engine {experiment.engine!r} is not vLLM V1"
    elif experiment.replicas > 1:
        reason = f"{experiment.replicas} replicas behind a router are not modelled"
    elif experiment.num_gpus != gpus:
        reason = f"{experiment.num_gpus} GPUs where tensor and data parallel sizes make {gpus}"
    elif "different nodes" in experiment.notes:
        reason = "tensor parallel over several nodes: the network between them is not modelled"
    elif "offload" in experiment.notes.lower() and "not mention" not in experiment.notes:
        reason = "KV offload to the CPU is not modelled"
    if reason is not None:
        raise MeasurementError(reason)
