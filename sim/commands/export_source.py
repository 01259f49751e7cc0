"""What `kvcliff export` takes its load from: a scenario or a trace file, told apart, as requests with content."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sim.commands.levels import levels_of
from sim.engine.clients import Population
from sim.errors import ScenarioError
from sim.export.model_id import model_id
from sim.export.sessions import drawn, simulated
from sim.load import load_deployment
from sim.setup import Deployment
from sim.strict_yaml import load_yaml
from workloads.errors import WorkloadError
from workloads.traces.format import Clock
from workloads.traces.open import OpenTrace, open_trace
from workloads.traces.reading import ReadOptions
from workloads.traces.request import BlockIds, TraceRequest

RECORDED, SIMULATED = "recorded", "simulated"
_OF_SCENARIOS = {"gpu", "engine", "profile"}


@dataclass(frozen=True, slots=True)
class TraceSource:
    """Requests of a file."""

    trace: OpenTrace
    has_clock: bool  # its sessions' times count from one start

    @property
    def name(self) -> str:
        """What files are named after."""
        return self.trace.path.stem

    def block_tokens(self) -> int | None:
        """Return the block size of the ids of the first request, if it has any."""
        alone = replace(self.trace, options=replace(self.trace.options, limit=1))
        content = next(iter(alone)).content
        return content.block_tokens if isinstance(content, BlockIds) else None

    def requests(self) -> Iterable[TraceRequest]:
        """Return the requests, read as they are asked for."""
        return self.trace

    def timed(self) -> Iterable[TraceRequest]:
        """Return the requests; raises WorkloadError if nobody can tell when they came."""
        if not self.has_clock:
            title = self.trace.format.title
            what = "no times" if self.trace.format.clock is Clock.NONE else "times within each session alone"
            raise WorkloadError(
                f"{self.trace.path}: {title} has {what}, and this export needs to know when each request was sent: "
                "export sessions instead (agentic-rows, weka, conversation-replay)"
            )
        return self.trace


@dataclass(frozen=True, slots=True)
class ScenarioSource:
    """Requests of a scenario, at any of its levels."""

    deployment: Deployment
    levels: Sequence[int]
    times: str | None
    seed: int
    sessions: int | None
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What files are named after."""
        return self.deployment.scenario.name

    @property
    def model(self) -> str:
        """What a server calls the model."""
        return model_id(self.deployment.scenario.model)

    def populations(self, level: int) -> Sequence[Population]:
        """Return who sends sessions; raises ScenarioError for a load that is a trace."""
        found = self.deployment.load_at(level).populations
        if not found:
            raise ScenarioError(f"{self.name}: its load is a trace: export the trace itself")
        return found

    def requests(self, level: int) -> Sequence[TraceRequest]:
        """Return the requests at a level, with times if they are simulated or a trace's."""
        if self.times == SIMULATED or self.deployment.trace is not None:
            return self.timed(level)
        if self.deployment.scenario.background is not None:
            self.notes.append("background sessions are left out: --times simulated has them too")
        return drawn(self.deployment, level, self.seed, self.sessions)

    def timed(self, level: int) -> Sequence[TraceRequest]:
        """Return the requests as a simulation sent them.

        Raises ScenarioError if nobody asked for a simulation: what a closed loop sends depends on its answers.
        """
        if self.times != SIMULATED and self.deployment.trace is None:
            raise ScenarioError(
                f"{self.name}: when a session sends its next turn depends on the answer before it, so the scenario has "
                "no times of its own: add --times simulated for those of a simulation"
            )
        sent, refused = simulated(self.deployment, level, self.seed)
        if refused:
            self.notes.append(f"{refused:,} turns that can never fit are left out")
        if self.sessions is not None:
            names = list(dict.fromkeys(one.session for one in sent))[: self.sessions]
            sent = [one for one in sent if one.session in names]
        return sent


Source = TraceSource | ScenarioSource


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The flags that say what to export."""

    path: Path
    overrides: Sequence[str] = ()
    level: int | None = None
    seed: int = 0
    sessions: int | None = None
    times: str | None = None
    trace_format: str | None = None
    limit: int | None = None
    skip_bad_rows: bool = False


def source_of(options: SourceOptions) -> Source:
    """Return what a file holds.

    Raises a KvcliffError or WorkloadError for a file that is neither, and for a flag that has no place with it.
    """
    return _scenario(options) if _is_scenario(options) else _trace(options)


def _is_scenario(options: SourceOptions) -> bool:
    if options.trace_format is not None or options.path.suffix.lower() not in {".yaml", ".yml"}:
        return False
    return bool(_OF_SCENARIOS & {key for key in load_yaml(options.path).data if isinstance(key, str)})


def _scenario(options: SourceOptions) -> ScenarioSource:
    deployment = load_deployment(options.path, options.overrides)
    for flag, given in (("--limit", options.limit is not None), ("--skip-bad-rows", options.skip_bad_rows)):
        if given:
            raise ScenarioError(f"{options.path}: {flag} is for traces, and this is a scenario")
    if options.times == RECORDED and deployment.trace is None:
        raise ScenarioError(f"{options.path}: nothing of a scenario is recorded: --times simulated")
    if options.level is not None and deployment.trace is not None:
        raise ScenarioError(f"{options.path}: its load is a trace, which has no levels: leave --level out")
    asked = None if options.level is None else [options.level]
    levels = levels_of(deployment, asked)
    return ScenarioSource(deployment, levels, options.times, options.seed, options.sessions)


def _trace(options: SourceOptions) -> TraceSource:
    if options.overrides:
        raise ScenarioError(f"{options.path}: --set is for scenarios, and this is a trace")
    if options.times == SIMULATED:
        raise ScenarioError(f"{options.path}: --times simulated needs a scenario, and this is a trace")
    trace = open_trace(
        options.path,
        ReadOptions(
            format=options.trace_format,
            limit=options.limit,
            seed=options.seed,
            skip_bad_rows=options.skip_bad_rows,
            sessions=options.sessions,
        ),
    )
    return TraceSource(trace, trace.format.clock is Clock.TRACE)
