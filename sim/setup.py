"""From a scenario to something that runs: catalog, ledger and profile looked up, names resolved, all once."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sim.catalog import Gpu, Model, linear_weight_bytes, load_model
from sim.cost_spec import costs_of
from sim.engine.clients import Population, StopRule
from sim.engine.frontend import FrontendTimes
from sim.engine.given import GivenRequests
from sim.engine.retry import Retry
from sim.engine.simulation import EngineSetup, LoadSetup
from sim.engine_flags import memory_settings, scheduler_config
from sim.errors import RefusalError, ScenarioError
from sim.memory import MemoryLedger, SessionArithmetic, memory_ledger
from sim.memory_request import MemoryRequest
from sim.memory_request.from_log import like_log
from sim.pressure_setup import pressure_costs, under_pressure
from sim.results.metrics import Slo
from sim.scenario import (
    BurstsSpec,
    ClosedLoopSpec,
    CommonStartSpec,
    ConstantRateSpec,
    LoadSpec,
    PoissonSpec,
    Scenario,
    StaggeredStartSpec,
)
from sim.scheduling.policies import VLLM_V1
from sim.steptime.compose import layer_shape
from sim.steptime.costed import costed
from sim.steptime.costs import Costs
from sim.steptime.pricing import AnyProfile, StepTimes, find_gpu, find_profile, price
from sim.steptime.pricing import Engine as StepEngine
from sim.steptime.profile import Frontend
from sim.trace_setup import find_replay, find_trace
from sim.trace_spec import TraceSpec
from sim.workload_setup import workload
from workloads.arrivals import Arrivals, Bursts, CommonStart, ConstantRate, Poisson, StaggeredStart, Start
from workloads.errors import WorkloadError

if TYPE_CHECKING:
    from sim.startup_log import StartupFacts
    from workloads.traces.open_loop import Trace
    from workloads.traces.replay import Replay
    from workloads.workload import Workload

MAIN = "session"
BACKGROUND = "background"


@dataclass(frozen=True, slots=True)
class Parts:
    """A scenario and everything it names: plain data, from which any process assembles the same deployment."""

    scenario: Scenario
    gpu: Gpu
    model: Model
    profile: AnyProfile | None  # None: a roofline
    trace: "Trace | None" = None  # of a load that is one
    replay: "Replay | None" = None  # recorded sessions in place of drawn ones
    log: "StartupFacts | None" = None  # of an engine like it, whose own figures go before the estimate


@dataclass(frozen=True, slots=True)
class Deployment:
    """A scenario's parts, put together."""

    parts: Parts
    ledger: MemoryLedger
    step_times: StepTimes
    engine: EngineSetup
    overrides: tuple[str, ...] = ()  # of --set, for whoever reads the result

    @property
    def scenario(self) -> Scenario:
        """What was asked for."""
        return self.parts.scenario

    @property
    def gpu(self) -> Gpu:
        """What it runs on."""
        return self.parts.gpu

    @property
    def model(self) -> Model:
        """What it serves."""
        return self.parts.model

    @property
    def trace(self) -> "Trace | None":
        """What is sent, where the load is a recorded trace."""
        return self.parts.trace

    @property
    def replay(self) -> "Replay | None":
        """What clients live through, where sessions are recorded ones."""
        return self.parts.replay

    @property
    def slo(self) -> Slo:
        """The scenario's promise."""
        return Slo(self.scenario.slo.ttft_p99_s, self.scenario.slo.tpot_p99_s)

    @property
    def arithmetic(self) -> SessionArithmetic:
        """The division people make by hand: with the source's tokens a session where it names them, else ours.

        For a trace it is of whole requests.
        """
        if self.trace is not None:
            totals = self.trace.totals
            unique = (totals.prompt_tokens + totals.output_tokens) // totals.requests
            return SessionArithmetic(self.ledger.capacity_tokens, 0, unique)
        main = _main_sessions(self.parts)
        published = self.scenario.published
        given = published.unique_tokens_per_session if published is not None else None
        unique = given or max(1, round(main.mean_unique_tokens))
        return SessionArithmetic(self.ledger.capacity_tokens, main.shared_prefix_tokens, unique)

    def load_at(self, level: int) -> LoadSetup:
        """Return the users at one load level."""
        scenario = self.scenario
        stop = scenario.stop
        retry = Retry() if scenario.retry is None else Retry(**msgspec.structs.asdict(scenario.retry))
        rule = StopRule() if stop is None else StopRule(stop.requests, stop.duration_s, stop.sessions_per_client)
        if self.trace is not None:
            return LoadSetup((), rule, scenario.warm_start, GivenRequests(MAIN, self.trace), retry)
        populations = [_population(self.parts, level)]
        if scenario.background is not None:
            background = scenario.background
            populations.append(
                Population(
                    BACKGROUND,
                    workload(background.workload, scenario.engine.max_model_len, "background prefix"),
                    CommonStart(),
                    clients=background.sessions,
                    priority=background.priority,
                    ends_run=False,
                )
            )
        return LoadSetup(tuple(populations), rule, scenario.warm_start, retry=retry)


def deploy(scenario: Scenario, place: str) -> Deployment:
    """Look everything up; `place` names the scenario in errors.

    Raises a KvcliffError for an unknown GPU, model, dtype or profile, and RefusalError if the engine would
    refuse to start.
    """
    return assemble(look_up(scenario, place), place)


def look_up(scenario: Scenario, place: str) -> Parts:
    """Find everything a scenario names; paths in it are relative to `place`, its file.

    Raises a KvcliffError for an unknown GPU, model, dtype or profile, with the nearest valid name, and WorkloadError
    for a trace that cannot be read.
    """
    gpu, model = find_gpu(scenario.gpu, scenario.profile), load_model(scenario.model)
    if scenario.weight_dtype != "auto":
        linear_weight_bytes(scenario.weight_dtype)
    trace = find_trace(scenario.load, place) if isinstance(scenario.load, TraceSpec) else None
    spec = scenario.replay
    replay = None if spec is None else find_replay(spec, scenario.engine.max_model_len, place)
    named = scenario.engine.startup_log
    log = None if named is None else _read_log(Path(place).parent / named)
    return Parts(scenario, gpu, model, find_profile(scenario.profile, gpu), trace, replay, log)


def assemble(parts: Parts, place: str) -> Deployment:
    """Put together what was found; `place` names the scenario in errors.

    Raises RefusalError if the engine would refuse to start, another ScenarioError for settings that do not go together,
    ProfileError if the profile is of something else, and MemoryLedgerError if the model cannot be split so.
    """
    scenario, gpu, model = parts.scenario, parts.gpu, parts.model
    _check_sessions(parts, place)
    request = MemoryRequest((gpu,), model, memory_settings(scenario))
    if parts.log is not None:
        request = like_log(request, parts.log)
    ledger = memory_ledger(request.gpus[0], model, request.settings)
    if ledger.refusal is not None:
        raise RefusalError(f"{place}: the engine would not start: {ledger.refusal}")
    engine = scenario.engine
    is_other = engine.scheduler != VLLM_V1 or engine.scheduling_policy == "priority_quota" or engine.has_remedy
    if not ledger.layout.is_uniform and is_other:
        what = f"scheduler {engine.scheduler}, scheduling_policy {engine.scheduling_policy}"
        what += ", with swap, victims, limits or shedding," if engine.has_remedy else ""
        raise ScenarioError(
            f"{place}: engine: {what} is for models whose layers all keep every token, not {model.name}"
        )
    step_engine = StepEngine(
        weight_dtype=scenario.weight_dtype,
        kv_cache_dtype=engine.kv_cache_dtype,
        tensor_parallel_size=engine.tensor_parallel_size,
        max_num_seqs=ledger.limits.max_num_seqs,
        enforce_eager=engine.enforce_eager,
    )
    priced = price(parts.profile, gpu, model, step_engine, asked=scenario.profile)
    costs = costs_of(scenario.costs, priced.costs)
    steps = costed(
        priced.steps,
        costs,
        kernels=model.num_hidden_layers * layer_shape(model, 1).kernels,
        cuda_graph_tokens=step_engine.cuda_graph_tokens,
        async_scheduling=engine.async_scheduling,
    )
    setup = EngineSetup(
        scheduler=under_pressure(scheduler_config(engine, ledger.limits), engine, ledger),
        num_gpu_blocks=ledger.num_gpu_blocks,
        steps=steps,
        frontend=_frontend(scenario, priced.frontend, costs),
        enable_prefix_caching=ledger.settings.caches_prefixes(model),
        kv_groups=() if ledger.layout.is_uniform else ledger.layout.groups,
        scheduler_name=engine.scheduler,
        first_token_due_s=engine.first_token_due_s,
        under_pressure=pressure_costs(engine, ledger, gpu),
        costs=costs,
    )
    return Deployment(parts, ledger, priced, setup)


def _read_log(path: Path) -> "StartupFacts":
    from sim.startup_log import read_startup_log  # only a scenario that names a log needs it

    return read_startup_log(path)


def _frontend(scenario: Scenario, own: Frontend, costs: Costs) -> FrontendTimes:
    request_s, token_s = own.per_request_s.value, own.per_prompt_token_s.value
    if scenario.frontend is not None:
        request_s, token_s = scenario.frontend.per_request_s, scenario.frontend.per_prompt_token_s
    return FrontendTimes(request_s + costs.sending_s, token_s + costs.tokenising_token_s)


def _main_sessions(parts: Parts) -> "Workload | Replay":
    """Return what the load's sessions are like."""
    if parts.replay is not None:
        return parts.replay
    assert parts.scenario.workload is not None
    return workload(parts.scenario.workload, parts.scenario.engine.max_model_len)


def _check_sessions(parts: Parts, place: str) -> None:
    """Raise ScenarioError for a workload that max_model_len leaves no room for."""
    scenario = parts.scenario
    background = None if scenario.background is None else scenario.background.workload
    for key, spec in (("workload", scenario.workload), ("background.workload", background)):
        try:
            if spec is not None:
                workload(spec, scenario.engine.max_model_len)
        except WorkloadError as error:
            raise ScenarioError(f"{place}: {key}: {error}") from None


def _population(parts: Parts, level: int) -> Population:
    main = Population(MAIN, _main_sessions(parts), CommonStart(), priority=0)
    load = parts.scenario.load
    if isinstance(load, ClosedLoopSpec):
        return replace(main, clients=level, start=_start(load))
    return replace(main, arrivals=_arrivals(load, level))


def _start(load: ClosedLoopSpec) -> Start:
    start = load.start
    match start:
        case CommonStartSpec():
            return CommonStart(start.jitter_s)
        case StaggeredStartSpec():
            return StaggeredStart(start.over_s)


def _arrivals(load: LoadSpec, level: int) -> Arrivals:
    match load:
        case PoissonSpec():
            return Poisson(level / 60)
        case ConstantRateSpec():
            return ConstantRate(level / 60)
        case BurstsSpec():
            return Bursts(level, load.interval_s, load.jitter_s)
        case ClosedLoopSpec() | TraceSpec():
            raise AssertionError("closed loops and traces have no sessions that arrive")
