"""What is measured, by name: each case says how to look up its deployments and draw its users.

The workloads are those of the shared data's README. What that leaves open is chosen here:

- conv: KV blocks as the ledger has them.
- closed: step prices that do not look at the context, so that every prefix length gives the same times token for
  token, and a difference is the simulator's alone. Blocks: the prefix, and 320 a session (none lacks any) or 100
  (past the cliff).
- doubling: real prices, 320 blocks a session.
- l4: the scenarios of the founding document.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.requests import Row, as_requests, repeated, trace_rows
from bench.sessions import Clipped, DrawnSessions, FirstArrivals

from sim.catalog import load_gpu, load_model
from sim.engine.clients import Population, StopRule
from sim.engine.given import GivenRequests
from sim.engine.record import Run
from sim.engine.recorded import POPULATION, RecordedLoad, simulate_recorded
from sim.engine.simulation import EngineSetup, LoadSetup, simulate
from sim.load import load_deployment
from sim.memory import MemorySettings, memory_ledger
from sim.results.metrics import Slo
from sim.results.table_keeper import TableKeeper
from sim.scheduling.continuous import SchedulerConfig
from sim.setup import MAIN
from sim.steptime.pricing import Engine as StepEngine
from sim.steptime.pricing import step_times
from workloads import AgentWorkload, CommonStart, Constant, Exponential, Normal, Poisson, Uniform

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
L4_SCENARIOS = tuple(SCENARIOS / f"l4-qwen3-4b-{dtype}.yaml" for dtype in ("fp8", "fp16", "tq4"))
L4_SESSIONS, L4_SEEDS, L4_KNEE = 48, 5, 14
BLOCK_SIZE = 16
SEED = 1


class Size(NamedTuple):
    """Where shared data lies, and which share of each case to take: all of it but in tests."""

    data: Path
    scale: float = 1.0

    def of(self, count: int) -> int:
        """Return a count at this size."""
        return max(2, round(count * self.scale))


class Job(NamedTuple):
    """One simulation."""

    run: Callable[[], Run]
    population: str = MAIN
    slo: Slo = Slo()
    keeper: TableKeeper | None = None  # takes the records, so that memory need not hold them


Draw = Callable[[], Iterable[Job]]  # draws the users of a case whose deployments were looked up


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the results."""

    name: str  # a group, a slash, what sets it apart
    plan: Callable[[Size], Draw]
    trace: Callable[[Size], list[Row]] | None = None  # what the plain loop can replay too
    against_plain_engine: bool = False
    rounds: int = 3  # fresh processes
    repeats: int = 5  # in each of them
    on_demand: bool = False  # measured only when named


def _engine(num_gpu_blocks: int | None = None, *, max_model_len: int, async_scheduling: bool = True) -> EngineSetup:
    """Llama-3.1-8B on an A100-80GB, priced by the shipped profile."""
    gpu, model = load_gpu("A100-80GB"), load_model("Llama-3.1-8B")
    flags = SchedulerConfig(
        max_num_batched_tokens=2048, max_num_seqs=256, max_model_len=max_model_len, async_scheduling=async_scheduling
    )
    settings = MemorySettings(max_model_len=max_model_len, max_num_batched_tokens=2048, max_num_seqs=256)
    blocks = num_gpu_blocks or memory_ledger(gpu, model, settings).num_gpu_blocks
    return EngineSetup(flags, blocks, step_times("auto", gpu, model, StepEngine(max_num_seqs=256)).steps)


def _whatever_the_context(setup: EngineSetup) -> EngineSetup:
    """Return an engine whose steps cost the same on any context."""
    free: dict[str, Any] = {"decode_s_per_kv_token": 0.0, "prefill_s_per_pair": 0.0, "prefill_s_per_kv_token": 0.0}
    return replace(setup, steps=replace(setup.steps, **free))


def _conversations(name: str, rows: int, size: Size) -> list[Row]:
    return trace_rows(size.data, name, size.of(rows))


def _replay(trace: Callable[[Size], list[Row]], size: Size, *, times: int = 1, async_scheduling: bool = True) -> Draw:
    setup = _engine(max_model_len=8192, async_scheduling=async_scheduling)

    def draw() -> list[Job]:
        load = RecordedLoad(list(as_requests(repeated(trace(size), times))))
        return [Job(lambda: simulate_recorded(setup, [load])[0], POPULATION)]

    return draw


def _endless_replay(trace: Callable[[Size], list[Row]], size: Size, *, requests: int) -> Draw:
    """Make requests as they are sent, and keep columns of what became of them: what `run --records` does."""
    setup = _engine(max_model_len=8192)

    def draw() -> list[Job]:
        rows, keeper = trace(size), TableKeeper()
        given = GivenRequests(MAIN, as_requests(repeated(rows, size.of(requests) // len(rows))))
        load = LoadSetup((), StopRule(), given=given)
        return [Job(lambda: simulate(setup, load, SEED, keeper), keeper=keeper)]

    return draw


def _open_loop(size: Size, *, blocks: int, async_scheduling: bool = True) -> Draw:
    """sess48: 80 sessions of ten turns, 1.6 requests a second."""
    setup = _engine(blocks, max_model_len=32_768, async_scheduling=async_scheduling)
    count, turns = size.of(80), 10
    tokens = Clipped(Normal(200, 50), 100, 300)
    workload = AgentWorkload(10_000, Constant(turns), tokens, tokens, Constant(5.0))
    arrivals = FirstArrivals(Poisson(1.6 / turns), count)

    def draw() -> list[Job]:
        sessions = DrawnSessions.of(workload, [f"{MAIN} {number}" for number in range(count)])
        population = Population(MAIN, sessions, CommonStart(), arrivals=arrivals)
        return [Job(partial(simulate, setup, LoadSetup((population,), StopRule()), SEED))]

    return draw


def _closed_loop(
    size: Size, *, clients: int, prefix_tokens: int, blocks_per_session: int, real_prices: bool = False
) -> Draw:
    """closed48: ten turns a client."""
    count = size.of(clients)
    blocks = 1 + prefix_tokens // BLOCK_SIZE + count * blocks_per_session
    setup = _engine(blocks, max_model_len=131_072)
    setup = setup if real_prices else _whatever_the_context(setup)
    workload = AgentWorkload(prefix_tokens, Constant(10), Uniform(100, 300), Uniform(100, 300), Exponential(5.0))

    def draw() -> list[Job]:
        sessions = DrawnSessions.of(workload, [f"{MAIN} {client}.0" for client in range(count)])
        population = Population(MAIN, sessions, CommonStart(30.0), clients=count)
        return [Job(partial(simulate, setup, LoadSetup((population,), StopRule(sessions_per_client=1)), SEED))]

    return draw


def _l4(size: Size, *, scenarios: Iterable[Path], sessions: Iterable[int]) -> Draw:
    """Run the founding document's scenarios, all seeds, without the runs with unlimited KV that the knee needs."""
    deployments = [load_deployment(path) for path in scenarios]
    levels = [level for level in sessions if level <= size.of(L4_SESSIONS)] or [size.of(L4_SESSIONS)]

    def draw() -> Iterator[Job]:
        for deployment in deployments:
            for level in levels:
                load = deployment.load_at(level)
                for seed in range(L4_SEEDS):
                    yield Job(partial(simulate, deployment.engine, load, seed), MAIN, deployment.slo)

    return draw


def _cases() -> Iterator[Case]:
    conv500, conv2000 = partial(_conversations, "conv500", 500), partial(_conversations, "conv2000", 2000)
    yield Case("conv500", partial(_replay, conv500), conv500, against_plain_engine=True)
    yield Case("conv2000", partial(_replay, conv2000), conv2000, against_plain_engine=True)
    synchronous = partial(_replay, conv2000, async_scheduling=False)
    yield Case("conv2000/sync", synchronous, against_plain_engine=True)
    tenfold = partial(_replay, conv2000, times=10)
    yield Case("conv20000", tenfold, lambda size: list(repeated(conv2000(size), 10)), repeats=1)
    for blocks in (14_000, 8_000, 3_500):
        yield Case(f"sess48/{blocks}", partial(_open_loop, blocks=blocks), against_plain_engine=True)
    for blocks in (14_000, 8_000):
        synchronous = partial(_open_loop, blocks=blocks, async_scheduling=False)
        yield Case(f"sess48/{blocks}/sync", synchronous, against_plain_engine=True)
    for clients in (48, 200):
        for state, blocks in (("below", 320), ("past", 100)):
            for prefix in (0, 10_000, 100_000):
                plan = partial(_closed_loop, clients=clients, prefix_tokens=prefix, blocks_per_session=blocks)
                yield Case(f"closed{clients}/{prefix}/{state}", plan, against_plain_engine=clients == 48)
    for clients in (24, 48, 96, 192):
        plan = partial(_closed_loop, clients=clients, prefix_tokens=10_000, blocks_per_session=320, real_prices=True)
        yield Case(f"doubling/{clients}", plan)
    knee = partial(_l4, scenarios=L4_SCENARIOS[:1], sessions=[L4_KNEE])
    yield Case("l4/knee", knee, against_plain_engine=True, repeats=2)
    sweep = partial(_l4, scenarios=L4_SCENARIOS, sessions=range(1, L4_SESSIONS + 1))
    yield Case("l4/sweep", sweep, rounds=1, repeats=1)
    million = partial(_endless_replay, conv2000, requests=1_000_000)
    yield Case("million", million, rounds=1, repeats=1, on_demand=True)


CASES = {case.name: case for case in _cases()}


@dataclass(frozen=True, slots=True)
class Command:
    """A whole `kvcliff` command, measured from outside."""

    name: str
    arguments: Callable[[Size], list[str]]
    rounds: int = 5


def _l4_command(size: Size) -> list[str]:
    levels = ",".join(str(level) for level in range(1, size.of(L4_SESSIONS) + 1))
    return ["run", *map(str, L4_SCENARIOS), "--points", levels, "--quick", "--json"]


COMMANDS = {
    command.name: command
    for command in (
        Command("command/help", lambda _: ["--help"]),
        Command("command/run", lambda _: ["run", str(L4_SCENARIOS[0]), "--points", "1", "--seeds", "1", "--json"]),
        Command("command/l4-sweep", _l4_command, rounds=1),
    )
}
