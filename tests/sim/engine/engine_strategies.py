"""Small engines and audiences with step times one can add up by hand, and random ones for property tests."""

from collections.abc import Callable
from typing import Any

import simpy
from hypothesis import strategies as st
from turn_records import FIELDS

from sim.engine.clients import Population, Sessions, StopRule
from sim.engine.engine import Engine
from sim.engine.frontend import FrontendTimes
from sim.engine.record import Run
from sim.engine.simulation import EngineSetup, LoadSetup
from sim.kv.block_pool import BlockPool
from sim.scheduling.continuous import ContinuousScheduler, SchedulerConfig
from sim.steptime.model import StepTimeModel
from workloads.agent import AgentWorkload
from workloads.arrivals import CommonStart, StaggeredStart
from workloads.distributions import Constant, Exponential, Uniform

PLENTY_OF_BLOCKS = 1 << 16


def step_times(
    *,
    overhead_s: float = 0.0,
    per_token_s: float = 0.0,
    per_pair_s: float = 0.0,
    per_kv_token_s: float = 0.0,
    read_once_tokens: float = 0.0,
) -> StepTimeModel:
    """Return a model without a bend: every term is a constant times a sum."""
    return StepTimeModel(
        step_overhead_s=overhead_s,
        linear_s=lambda tokens: tokens * per_token_s,
        head_per_step_s=0.0,
        head_per_sequence_s=0.0,
        prefill_s_per_pair=per_pair_s,
        decode_s_per_kv_token=per_kv_token_s,
        prefill_tile_rows=64,
        shared_tokens_read_once=read_once_tokens,
    )


def engine_setup(
    steps: StepTimeModel,
    *,
    num_gpu_blocks: int = PLENTY_OF_BLOCKS,
    frontend: FrontendTimes | None = None,
    **flags: Any,
) -> EngineSetup:
    """Return an engine; `flags` are the scheduler's."""
    return EngineSetup(SchedulerConfig(**flags), num_gpu_blocks, steps, frontend or FrontendTimes())


def agent(
    prefix: int = 0, turns: float = 1, new: float = 100, output: float = 10, think_s: float = 0.0, **more: Any
) -> AgentWorkload:
    """Return a workload of constants."""
    return AgentWorkload(prefix, Constant(turns), Constant(new), Constant(output), Constant(think_s), **more)


def closed(workload: Sessions, clients: int, *, jitter_s: float = 0.0, warm: bool = True, **stop: Any) -> LoadSetup:
    """Return `clients` sessions always under way until the stop rule ends it."""
    population = Population("session", workload, CommonStart(jitter_s), clients=clients)
    return LoadSetup((population,), StopRule(**stop), warm)


def bare_engine(setup: EngineSetup) -> tuple[simpy.Environment, Engine]:
    """Return an engine and its clock, without clients."""
    env = simpy.Environment()
    pool = BlockPool(setup.num_gpu_blocks, enable_prefix_caching=setup.enable_prefix_caching)
    return env, Engine(env, ContinuousScheduler(setup.scheduler, pool), setup.steps)


def everything(run: Run) -> list[tuple[str, ...]]:
    """Return all fields of all records and of the log as text, so that NaN equals NaN and no bit is lost."""
    names = [name for name in FIELDS if name != "steps"]  # token_times_s says what they mean
    rows = [tuple(repr(getattr(record, name)) for name in [*names, "token_times_s"]) for record in run.records]
    return [*rows, (repr(run.log), repr(run.duration_s))]


@st.composite
def engines(draw: Callable[..., Any]) -> EngineSetup:
    """Draw small engines whose pools are tight enough to evict and preempt."""
    size = draw(st.sampled_from([1, 4, 16]))
    limit = draw(st.sampled_from([100, 200, 300]))
    chunked = draw(st.booleans())
    budget = draw(st.sampled_from([8, 64, 256])) if chunked else limit
    return engine_setup(
        step_times(
            overhead_s=0.01, per_token_s=draw(st.sampled_from([0.0, 1e-4])), per_pair_s=1e-7, per_kv_token_s=1e-6
        ),
        num_gpu_blocks=2 + limit // size + draw(st.integers(-limit // size // 2, limit // size)),
        frontend=FrontendTimes(draw(st.sampled_from([0.0, 0.02])), 0.0),
        block_size=size,
        max_model_len=limit,
        max_num_batched_tokens=budget,
        max_num_seqs=draw(st.sampled_from([8, 3, 1])),
        enable_chunked_prefill=chunked,
        async_scheduling=draw(st.booleans()),
        policy=draw(st.sampled_from(["fcfs", "priority"])),
        watermark=draw(st.sampled_from([0.0, 0.1])),
        scheduler_reserve_full_isl=draw(st.booleans()),
        long_prefill_token_threshold=draw(st.sampled_from([0, 7])),
    )


@st.composite
def loads(draw: Callable[..., Any]) -> LoadSetup:
    """Draw a closed loop of a few clients, sometimes with a background that comes second."""
    workload = AgentWorkload(
        draw(st.sampled_from([0, 5, 32, 60])),
        Uniform(1, draw(st.integers(1, 4))),
        Uniform(1, draw(st.sampled_from([1, 16, 60]))),
        Uniform(1, draw(st.sampled_from([5, 40, 80]))),
        draw(st.sampled_from([Constant(0.0), Exponential(0.3)])),
        keeps_output=draw(st.booleans()),
    )
    start = draw(st.sampled_from([CommonStart(0.0), CommonStart(0.1), StaggeredStart(1.0)]))
    populations = [Population("session", workload, start, clients=draw(st.integers(1, 8)))]
    if draw(st.booleans()):
        populations.append(Population("background", workload, start, clients=2, priority=1))
    return LoadSetup(tuple(populations), draw(stop_rules()), warm_start=draw(st.booleans()))


@st.composite
def stop_rules(draw: Callable[..., Any]) -> StopRule:
    """Draw rules that end a run within a few dozen turns."""
    return StopRule(
        requests=draw(st.one_of(st.none(), st.integers(5, 60))),
        duration_s=draw(st.one_of(st.none(), st.floats(1, 60))),
        sessions_per_client=draw(st.integers(1, 3)),
    )
