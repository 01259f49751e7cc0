"""Deployments and loads of every kind, small, tight and full of ties: what a fast path could get wrong."""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from engine_strategies import engine_setup, step_times
from hypothesis import strategies as st

from sim.engine.clients import Population, StopRule
from sim.engine.frontend import FrontendTimes
from sim.engine.recorded import RecordedLoad
from sim.engine.simulation import EngineSetup, LoadSetup
from sim.steptime.ahead import StepPrices
from sim.steptime.model import StepTimeModel
from sim.steptime.whole_steps import Scatter, ScatteredSteps
from workloads.agent import AgentWorkload
from workloads.arrivals import Bursts, CommonStart, ConstantRate, Poisson, StaggeredStart
from workloads.distributions import Constant, Exponential, Uniform
from workloads.recorded import RecordedRequest
from workloads.session import Prompt, Session
from workloads.span import Span

TICK_S = 0.125  # steps of whole ticks and arrivals at whole ticks meet exactly


@dataclass(frozen=True, slots=True)
class Parrots(AgentWorkload):
    """Sessions of which only a few are different: the others say, and are answered, the very same."""

    different: int = 1

    def session(self, name: str, rng: np.random.Generator) -> Session:
        """Draw a session and let it speak another's lines."""
        session = AgentWorkload.session(self, name, rng)
        return replace(session, name=f"parrot {sum(map(ord, name)) % self.different}")


def _ticking(ticks: int) -> StepTimeModel:
    return step_times(overhead_s=ticks * TICK_S)


@st.composite
def _bent(draw: st.DrawFn) -> StepTimeModel:
    """Draw a model with everything that a device profile knows."""
    per_token_s = draw(st.sampled_from([1e-5, 3e-4]))
    return StepTimeModel(
        step_overhead_s=draw(st.sampled_from([0.0, 0.007])),
        linear_s=lambda tokens: max(0.003, tokens * per_token_s),
        head_per_step_s=1e-4,
        head_per_sequence_s=draw(st.sampled_from([0.0, 3e-4])),
        prefill_s_per_pair=1e-7,
        decode_s_per_kv_token=draw(st.sampled_from([1e-7, 1e-5])),
        prefill_tile_rows=draw(st.sampled_from([1.0, 64.0])),
        shared_tokens_read_once=draw(st.sampled_from([0.0, 30.0, math.inf])),
        prefill_s_per_token=draw(st.sampled_from([0.0, 1e-5])),
        prefill_s_per_kv_token=draw(st.sampled_from([0.0, 1e-5])),
        prefill_overhead_s=draw(st.sampled_from([0.0, 1e-3])),
        decode_overhead_s=draw(st.sampled_from([0.0, 1e-3])),
        decode_s_per_row=draw(st.sampled_from([0.0, 1e-4, 1e-3])),
        decode_sharpness=draw(st.sampled_from([1.0, 2.5, math.inf])),
        decode_on_its_own=draw(st.booleans()),
        cuda_graph_tokens=draw(st.sampled_from([0, 2, 512])),
        eager_floor_s=draw(st.sampled_from([0.0, 0.01, 0.05])),
    )


@st.composite
def _scattered(draw: st.DrawFn) -> ScatteredSteps:
    """Draw step times that are never the same twice."""
    seed = draw(st.integers(0, 99))
    factors = np.random.default_rng(seed).uniform(0.5, 2.0, 300)
    scatters = [Scatter(factors, np.random.default_rng([seed, index])) for index in range(2)]
    return ScatteredSteps((0.01, 2e-3, 1e-4, 1e-7, 1e-4, 1e-6), *scatters)


linear = st.builds(
    step_times,
    overhead_s=st.just(0.01),
    per_token_s=st.sampled_from([0.0, 1e-4]),
    per_pair_s=st.just(1e-7),
    per_kv_token_s=st.just(1e-6),
    read_once_tokens=st.sampled_from([0.0, 40.0, math.inf]),
)


def prices(*, scattered: bool = True) -> st.SearchStrategy[StepPrices]:
    """Return step times of every kind; random ones are drawn in an order that several engines would not share."""
    kinds: list[st.SearchStrategy[StepPrices]] = [linear, linear, _bent(), st.builds(_ticking, st.integers(1, 8))]
    return st.one_of(*kinds, _scattered()) if scattered else st.one_of(*kinds)


@st.composite
def deployments(draw: st.DrawFn, *, scattered: bool = True) -> EngineSetup:
    """Draw engines, most with pools that hold hardly more than the largest request, some with plenty."""
    size = draw(st.sampled_from([1, 4, 16]))
    limit = draw(st.sampled_from([60, 120, 300]))
    chunked = draw(st.sampled_from([True, True, False]))
    spare = draw(st.sampled_from([-3, 0, 0, 0, 1, 2, 5, limit // size, 1000]))
    setup = engine_setup(
        draw(prices(scattered=scattered)),
        num_gpu_blocks=max(2, 2 + limit // size + spare),
        frontend=FrontendTimes(draw(st.sampled_from([0.0, 0.0, 0.02, TICK_S])), draw(st.sampled_from([0.0, 1e-4]))),
        block_size=size,
        max_model_len=limit,
        max_num_batched_tokens=draw(st.sampled_from([2, 8, 64, 256])) if chunked else limit,
        max_num_seqs=draw(st.sampled_from([12, 8, 3, 1])),
        enable_chunked_prefill=chunked,
        async_scheduling=draw(st.booleans()),
        policy=draw(st.sampled_from(["fcfs", "priority"])),
        watermark=draw(st.sampled_from([0.0, 0.0, 0.1, 0.5])),
        scheduler_reserve_full_isl=draw(st.booleans()),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 7])),
        long_prefill_token_threshold_adaptive=draw(st.booleans()),
    )
    return replace(setup, enable_prefix_caching=draw(st.sampled_from([True, True, True, False])))


@st.composite
def _workloads(draw: st.DrawFn) -> AgentWorkload:
    """Draw sessions; outputs are often long against the prompts, so that pools overflow while everybody decodes."""

    def lengths(*most: int) -> Constant | Uniform:
        high = draw(st.sampled_from(most))
        return draw(st.sampled_from([Constant(high), Uniform(1, high)]))

    kind = draw(st.sampled_from([AgentWorkload, AgentWorkload, Parrots]))
    workload = kind(
        draw(st.sampled_from([0, 5, 16, 32])),
        Uniform(1, draw(st.integers(1, 4))),
        lengths(1, 8, 16, 40),
        lengths(1, 5, 40, 200, 200),
        draw(st.sampled_from([Constant(0.0), Constant(TICK_S), Exponential(0.3)])),
        keeps_output=draw(st.booleans()),
        prefix_name=draw(st.sampled_from(["shared prefix", "shared prefix", "another prefix"])),
    )
    return replace(workload, different=draw(st.integers(1, 3))) if isinstance(workload, Parrots) else workload


@st.composite
def _populations(draw: st.DrawFn, name: str) -> Population:
    population = Population(
        name,
        draw(_workloads()),
        draw(st.sampled_from([CommonStart(0.0), CommonStart(0.1), StaggeredStart(1.0), StaggeredStart(8 * TICK_S)])),
        priority=draw(st.integers(0, 2)),
    )
    if draw(st.sampled_from([True, True, False])):
        return replace(population, clients=draw(st.sampled_from([1, 2, 4, 8])))
    rate = draw(st.sampled_from([1 / TICK_S, 0.25 / TICK_S, 2.0, 0.3]))
    kinds = [ConstantRate(rate), Poisson(rate), Bursts(3, 1.0, 0.2), Bursts(5, 8 * TICK_S)]
    return replace(population, arrivals=draw(st.sampled_from(kinds)))


@st.composite
def audiences(draw: st.DrawFn) -> LoadSetup:
    """Draw one to three kinds of sessions, closed or open, and a rule that ends the run, often in mid-answer."""
    names = ["session", "background", "other"][: draw(st.sampled_from([1, 1, 2, 3]))]
    populations = [draw(_populations(name)) for name in names]
    populations[1:] = [replace(one, ends_run=draw(st.booleans())) for one in populations[1:]]
    stop = StopRule(
        requests=draw(st.one_of(st.none(), st.integers(1, 25))),
        duration_s=draw(st.one_of(st.floats(0.3, 6), st.integers(2, 60).map(lambda ticks: ticks * TICK_S))),
        sessions_per_client=draw(st.one_of(st.none(), st.integers(1, 3))),
    )
    return LoadSetup(tuple(populations), stop, warm_start=draw(st.booleans()))


@st.composite
def storms(draw: st.DrawFn) -> tuple[EngineSetup, LoadSetup]:
    """Draw a crowd of short prompts with long answers on a pool for hardly more than one: they preempt each other."""
    setup, load = draw(deployments()), draw(audiences())
    size = setup.scheduler.block_size
    scheduler = replace(
        setup.scheduler,
        max_model_len=200,
        max_num_batched_tokens=draw(st.sampled_from([8, 256])) if setup.scheduler.enable_chunked_prefill else 200,
        max_num_seqs=draw(st.sampled_from([4, 12])),
        watermark=0.0,
    )
    workload = replace(load.populations[0].workload, new_tokens=Uniform(1, 12), output_tokens=Uniform(60, 120))
    crowd = replace(load.populations[0], workload=workload, clients=6, arrivals=None)
    blocks = 2 + 200 // size + draw(st.integers(0, 3))
    return replace(setup, scheduler=scheduler, num_gpu_blocks=blocks), replace(
        load, populations=(crowd, *load.populations[1:]), stop=replace(load.stop, duration_s=4.0, requests=None)
    )


@st.composite
def ties(draw: st.DrawFn) -> tuple[EngineSetup, LoadSetup]:
    """Draw runs in which all that happens does so at whole ticks: arrivals, ends of steps and of thought, the stop."""
    setup, load = draw(deployments()), draw(audiences())
    setup = replace(
        setup,
        steps=_ticking(draw(st.sampled_from([1, 1, 2]))),
        num_gpu_blocks=draw(st.sampled_from([setup.num_gpu_blocks, 1000])),
        frontend=FrontendTimes(draw(st.sampled_from([0.0, 0.0, TICK_S])), 0.0),
    )
    arrivals = st.sampled_from([ConstantRate(1.0), ConstantRate(0.5 / TICK_S), Bursts(2, 8 * TICK_S)])
    populations = []
    for one in load.populations:
        thought = Constant(draw(st.integers(0, 3)) * TICK_S)
        workload = replace(one.workload, think_s=thought, new_tokens=Constant(4))
        start = draw(st.sampled_from([CommonStart(0.0), StaggeredStart(8 * TICK_S)]))
        comes = draw(arrivals) if one.arrivals else None
        populations.append(replace(one, workload=workload, start=start, arrivals=comes))
    stop = replace(load.stop, duration_s=draw(st.integers(8, 60)) * TICK_S)
    return setup, replace(load, populations=tuple(populations), stop=stop)


def session_cases() -> st.SearchStrategy[tuple[EngineSetup, LoadSetup]]:
    """Return deployments with their audiences; every fourth is a storm, every fourth full of ties."""
    usual = st.tuples(deployments(), audiences())
    return st.one_of(usual, usual, storms(), ties())


@st.composite
def _recorded_loads(draw: st.DrawFn) -> RecordedLoad:
    count = draw(st.integers(1, 14))
    gaps = draw(
        st.one_of(
            st.just([0.0] * count),
            st.lists(st.sampled_from([0.0, TICK_S, 3 * TICK_S]), min_size=count, max_size=count),
            st.lists(st.floats(0.0, 1.0), min_size=count, max_size=count),
        )
    )
    requests = []
    for number, at_s in enumerate(itertools.accumulate(gaps)):
        shared, own, output = draw(st.sampled_from([0, 16, 33])), draw(st.integers(1, 40)), draw(st.integers(1, 60))
        line = draw(st.sampled_from(["twin", f"own {number}"]))
        prompt = Prompt((Span("shared", 0, shared), Span(line, 0, own)), Span(line, own, output))
        requests.append(RecordedRequest(at_s, prompt))
    return RecordedLoad(
        tuple(requests),
        most_in_flight=draw(st.sampled_from([None, None, 1, 3])),
        time_out_s=draw(st.one_of(st.none(), st.floats(0.05, 4.0), st.sampled_from([TICK_S, 8 * TICK_S]))),
        duration_s=draw(st.one_of(st.none(), st.none(), st.floats(0.1, 4.0), st.just(12 * TICK_S))),
        per_request_s=draw(st.sampled_from([0.0, 0.0, 0.01, TICK_S])),
    )


@st.composite
def recorded_cases(draw: st.DrawFn) -> tuple[EngineSetup, list[RecordedLoad], int]:
    """Draw given requests for one to three engines, in one load or two; clients may give up or stop."""
    engines = draw(st.sampled_from([1, 1, 2, 3]))
    setup = draw(deployments(scattered=engines == 1))
    return setup, draw(st.lists(_recorded_loads(), min_size=1, max_size=2)), engines
