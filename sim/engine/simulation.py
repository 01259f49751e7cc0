"""One run: an engine, its audience, a seed; records out. The same inputs give the same records, byte for byte."""

from dataclasses import dataclass

import simpy

from sim.engine.clients import Audience, Population, StopRule
from sim.engine.engine import Engine
from sim.engine.frontend import FrontendTimes
from sim.engine.record import Run
from sim.kv.block_pool import BlockPool
from sim.scheduling.continuous import ContinuousScheduler, SchedulerConfig
from sim.steptime.model import StepTimeModel


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """Everything about the deployment that a run depends on."""

    scheduler: SchedulerConfig
    num_gpu_blocks: int  # block 0 included, as vLLM counts
    steps: StepTimeModel
    frontend: FrontendTimes = FrontendTimes()
    enable_prefix_caching: bool = True


@dataclass(frozen=True, slots=True)
class LoadSetup:
    """Everything about the users that a run depends on."""

    populations: tuple[Population, ...]
    stop: StopRule
    warm_start: bool = True


def engine_of(env: simpy.Environment, setup: EngineSetup) -> Engine:
    """Return a fresh engine of a deployment."""
    pool = BlockPool(setup.num_gpu_blocks, enable_prefix_caching=setup.enable_prefix_caching)
    return Engine(env, ContinuousScheduler(setup.scheduler, pool), setup.steps)


def simulate(engine_setup: EngineSetup, load: LoadSetup, seed: int) -> Run:
    """Run until the stop rule ends it."""
    env = simpy.Environment()
    engine = engine_of(env, engine_setup)
    if load.warm_start:
        for population in load.populations:
            engine.warm(population.workload.prefix)
    audience = Audience(env, engine, engine_setup.frontend, load.stop)
    for index, population in enumerate(load.populations):
        audience.add(population, index, seed)
    env.run(until=audience.stop)
    return Run(audience.records, engine.log, env.now, engine_setup.num_gpu_blocks)
