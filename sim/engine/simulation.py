"""One run: an engine, its audience, a seed; records out. The same inputs give the same records, byte for byte."""

from dataclasses import dataclass
from typing import Protocol

import simpy

from sim.engine.clients import Audience, Population, StopRule
from sim.engine.collector import collector_off
from sim.engine.engine import Engine
from sim.engine.extras import Extras
from sim.engine.frontend import FrontendTimes
from sim.engine.given import GivenRequests
from sim.engine.record import Records, Run, TurnRecord
from sim.kv.block_pool import BlockPool
from sim.memory.kv_groups import KvGroup
from sim.scheduling.continuous import ContinuousScheduler, SchedulerConfig
from sim.scheduling.hybrid import hybrid_scheduler, needs_groups
from sim.scheduling.policies import VLLM_V1, scheduler_named
from sim.steptime.ahead import StepPrices
from sim.steptime.costs import Costs


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """Everything about the deployment that a run depends on."""

    scheduler: SchedulerConfig
    num_gpu_blocks: int  # block 0 included, as vLLM counts
    steps: StepPrices
    frontend: FrontendTimes = FrontendTimes()
    enable_prefix_caching: bool = True
    kv_groups: tuple[KvGroup, ...] = ()  # where layers keep different things; none: one group that keeps every token
    prefix_cache_retention_interval: int | None = 0  # vLLM's flag, tokens; of windows and states. None: keep all
    states_apart: bool = False  # a counterfactual: states of recurrent layers take no blocks of the pool
    scheduler_name: str = VLLM_V1  # of policies.SCHEDULERS
    first_token_due_s: float | None = None  # from arrival, for the order by deadline
    costs: Costs = Costs()  # those that depend on requests; `steps` hold what they cost


@dataclass(frozen=True, slots=True)
class LoadSetup:
    """Everything about the users that a run depends on."""

    populations: tuple[Population, ...]
    stop: StopRule
    warm_start: bool = True
    given: GivenRequests | None = None


def engine_of(env: simpy.Environment, setup: EngineSetup) -> Engine:
    """Return a fresh engine of a deployment."""
    costs = setup.costs
    hashes = setup.enable_prefix_caching and costs.hashing_token_s > 0
    extras = None
    if hashes or costs.penalised_share or costs.structured_share:
        extras = Extras(costs.penalised_share, costs.structured_share, hashes=hashes)
    return Engine(env, scheduler_of(setup), setup.steps, setup.first_token_due_s, extras, costs.delivery_s)


def scheduler_of(setup: EngineSetup) -> ContinuousScheduler:
    """Return a fresh scheduler with its blocks."""
    if needs_groups(setup.kv_groups):
        return hybrid_scheduler(
            setup.scheduler,
            setup.kv_groups,
            setup.num_gpu_blocks,
            enable_prefix_caching=setup.enable_prefix_caching,
            prefix_cache_retention_interval=setup.prefix_cache_retention_interval,
            states_apart=setup.states_apart,
        )
    pool = BlockPool(setup.num_gpu_blocks, enable_prefix_caching=setup.enable_prefix_caching)
    return scheduler_named(setup.scheduler_name, setup.scheduler, pool)


class Keeper(Records, Protocol):
    """Takes the records of a run and is told when each changes no more, so that memory need not hold it."""

    def over(self, record: TurnRecord, /) -> None:
        """Take note that a turn that was sent is over."""
        ...


def simulate(
    engine_setup: EngineSetup, load: LoadSetup, seed: int, keeper: Keeper | None = None, *, keeps_chunks: bool = False
) -> Run:
    """Run until the stop rule ends it, or everybody is done; with a `keeper` the run itself has no records."""
    with collector_off():
        env = simpy.Environment(0.0)  # a float from the start, as all later times are
        engine = engine_of(env, engine_setup)
        engine.keeps_chunks = keeps_chunks
        if load.warm_start:
            for population in load.populations:
                engine.warm(population.workload.prefix)
        records: list[TurnRecord] = []
        if keeper is not None:
            engine.on_over = keeper.over
        delivery_s = engine_setup.costs.delivery_s
        audience = Audience(env, engine, engine_setup.frontend, load.stop, keeper or records, delivery_s)
        for index, population in enumerate(load.populations):
            audience.add(population, index, seed)
        if load.given is not None:
            audience.give(load.given)
        env.run(until=audience.stop)
    engine.settle()
    return Run(records, engine.log(), env.now, engine_setup.num_gpu_blocks)
