"""From a scenario's engine flags to the settings of the ledger and of the scheduler, under the same names."""

from dataclasses import fields
from typing import Any

from sim.memory import BatchLimits, MemorySettings
from sim.scenario import EngineSpec, Scenario
from sim.scheduling.config import SchedulerConfig


def memory_settings(scenario: Scenario) -> MemorySettings:
    """Return the ledger's part of a scenario: the engine flags both know, under vLLM's names."""
    return MemorySettings(weight_dtype=scenario.weight_dtype, **_shared_flags(scenario.engine, MemorySettings))


def scheduler_config(engine: EngineSpec, limits: BatchLimits) -> SchedulerConfig:
    """Return the scheduler's part of the engine flags, what they leave open filled in."""
    flags = _shared_flags(engine, SchedulerConfig)
    flags |= {"max_num_batched_tokens": limits.max_num_batched_tokens, "max_num_seqs": limits.max_num_seqs}
    quotas = tuple(sorted(engine.priority_quotas.items()))
    flags |= {"priority_quotas": quotas, "shed_priority": engine.lowest_shed_priority}
    if engine.prefill_chunk_tokens is None:
        del flags["prefill_chunk_tokens"]
    return SchedulerConfig(policy=engine.scheduling_policy, **flags)


def _shared_flags(engine: EngineSpec, into: type) -> dict[str, Any]:
    names = {field.name for field in fields(into)}
    return {name: getattr(engine, name) for name in engine.__struct_fields__ if name in names}
