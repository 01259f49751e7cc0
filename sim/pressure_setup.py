"""From a scenario's keys about memory pressure to what the engine needs: host blocks, seconds a copied block."""

from dataclasses import replace

from sim.catalog import Gpu
from sim.engine.admission import AdmissionLimit
from sim.engine.pressure_costs import PressureCosts
from sim.memory import MemoryLedger
from sim.pressure_spec import PressureSpec
from sim.scheduling.batch_limit import BatchLimit
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.under_pressure import SWAP
from sim.units import GIB

V0_SWAP_SPACE_GIB = 4.0
RESTART_S = 60.0


def under_pressure(config: SchedulerConfig, engine: PressureSpec, ledger: MemoryLedger) -> SchedulerConfig:
    """Return the scheduler's settings with the remedies that an engine has."""
    limit = engine.dynamic_max_num_seqs
    gib = V0_SWAP_SPACE_GIB if engine.swap_space is None else engine.swap_space
    blocks = int(gib * GIB // block_bytes(ledger, config.block_size)) if engine.preemption_mode == SWAP else 0
    return replace(
        config,
        host_blocks=blocks,
        batch_limit=None if limit is None else BatchLimit(limit.from_kv_usage, limit.least),
    )


def pressure_costs(engine: PressureSpec, ledger: MemoryLedger, gpu: Gpu) -> PressureCosts:
    """Return when the engine rejects, what a copied block takes, and how long a restart does.

    Each GPU copies its own share of a block over its own link, at the catalog's rate, one way at a time.
    """
    seconds = 0.0
    if engine.preemption_mode == SWAP:
        seconds = block_bytes(ledger, ledger.settings.block_size) / gpu.pcie_bytes_per_s
    return PressureCosts(
        AdmissionLimit(engine.max_num_queued_reqs, engine.reject_above_kv_usage),
        seconds,
        RESTART_S if engine.restart_s is None else engine.restart_s,
    )


def block_bytes(ledger: MemoryLedger, block_size: int) -> float:
    """Return the bytes of a block on one GPU."""
    return ledger.bytes_per_token * block_size
