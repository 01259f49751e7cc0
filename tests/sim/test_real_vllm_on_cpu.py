"""Our scheduler and engine against a real vLLM 0.32.0, driven through its KV cliff on a CPU (shared/data/cpu_cliff)."""

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from sim.engine.clients import Population, StopRule
from sim.engine.frontend import FrontendTimes
from sim.engine.simulation import EngineSetup, LoadSetup, simulate
from sim.kv.block_pool import BlockPool
from sim.kv.content import ContentTree
from sim.results.metrics import Slo, run_metrics
from sim.scheduling.continuous import ContinuousScheduler, SchedulerConfig
from sim.scheduling.request import Request
from sim.steptime.batch import BatchShape
from workloads.session import Session, Turn
from workloads.span import Span, total_tokens

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "cpu_cliff"
RUNS = ["agent_cpu_n02", "agent_cpu_n04", "agent_cpu_n08", "repeat/agent_cpu_n08", "repeat2/agent_cpu_n08"]
CONFIG = SchedulerConfig(max_num_batched_tokens=512, max_num_seqs=16, max_model_len=4096, block_size=32)
BLOCKS = 320
PREFIX = (Span("shared", 0, 512),)

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data/cpu_cliff is not beside the checkout")


def lines(run: str, what: str) -> list[dict]:
    """Return the records of one of a run's files."""
    with gzip.open(DATA / f"{run}.{what}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def workload(run: str) -> dict:
    """Return what a run's clients were told to do."""
    with gzip.open(DATA / f"{Path(run).name}.workload.json.gz", "rt") as file:
        return json.load(file)


def slot_sessions(slot: dict) -> list[Session]:
    """Return a slot's sessions; the recorded pause comes before a turn, ours after the one before it."""
    pauses = [*(turn["think"] for turn in slot["turns"][1:]), 0.0]
    grouped: dict[str, list[Turn]] = {}
    for turn, pause in zip(slot["turns"], pauses, strict=True):
        grouped.setdefault(turn["session"], []).append(Turn(turn["new_tokens"], turn["output_len"], pause))
    return [Session(name, PREFIX, tuple(turns)) for name, turns in grouped.items()]


@pytest.mark.parametrize("run", RUNS)
def test_every_step_of_the_real_engine_is_scheduled_alike(run: str) -> None:
    """Given the arrivals, tokens, hits, preemptions, finishes and free blocks of each step are the recorded ones."""
    prompts = {}
    for number, slot in enumerate(workload(run)["slots"]):
        turns = [
            (prompt, turn)
            for session in slot_sessions(slot)
            for prompt, turn in zip(session.prompts(), session.turns, strict=True)
        ]
        prompts |= {f"s{number}t{index}": pair for index, pair in enumerate(turns)}
    tree, scheduler = ContentTree(CONFIG.block_size), ContinuousScheduler(CONFIG, BlockPool(BLOCKS))
    for index, step in enumerate(lines(run, "steps")):
        for name in step.get("arrived", []):
            prompt, turn = prompts[name]
            nodes = tree.nodes([*prompt.spans, prompt.output])
            tokens = total_tokens(prompt.spans)
            scheduler.add(Request(name, index, tokens, turn.output_tokens, nodes, CONFIG.block_size))
        batch = scheduler.schedule()
        assert {entry.request.id: entry.tokens for entry in batch.scheduled} == step["scheduled"]
        assert {entry.request.id: entry.hit_tokens for entry in batch.admitted} == step.get("hit", {})
        assert [request.id for request in batch.preempted] == step.get("preempted", [])
        assert [len(scheduler.running), len(scheduler.waiting), scheduler.pool.num_free] == step["sched"]
        finished = scheduler.process(batch)
        assert [request.id for request in finished] == step.get("finished", [])
        assert scheduler.pool.num_free == step["free_blocks"]


def features(shape: BatchShape) -> list[float]:
    """Return what a step's time is linear in, on this CPU."""
    prefill_tokens = shape.tokens - shape.decode_rows
    return [1.0, prefill_tokens, shape.decode_rows, shape.decode_kv_tokens, shape.prefill_pairs, shape.holds_prefill]


@dataclass
class LinearSteps:
    """A step-time model fitted to recorded steps; it stands in for a profile."""

    weights: np.ndarray
    shared_tokens_read_once: float = 0.0

    def seconds(self, shape: BatchShape) -> float:
        """Return how long a step takes."""
        return max(float(np.dot(features(shape), self.weights)), 1e-4)


@dataclass
class SlotWorkload:
    """Hands out one slot's recorded sessions in order."""

    sessions: list[Session]
    prefix: tuple[Span, ...] = PREFIX
    _next: int = field(default=0)

    def session(self, name: str, rng: np.random.Generator) -> Session:  # noqa: ARG002 (recorded, not drawn)
        """Return the next recorded session."""
        self._next += 1
        over = Session(name, (), (Turn(10_000, 1),))  # refused and not counted: nothing follows the recorded ones
        return self.sessions[self._next - 1] if self._next <= len(self.sessions) else over


def fitted_steps(runs: list[str]) -> LinearSteps:
    """Fit the linear model on the steps of some runs."""
    rows, times = [], []
    for run in runs:
        prompts = {record["id"]: record["prompt_len"] for record in lines(run, "requests")}
        computed: dict[str, int] = {}
        for step in lines(run, "steps"):
            computed |= step.get("hit", {})
            for name in step.get("preempted", []):
                computed[name] = 0
            prefill = decode = decode_kv = 0
            pairs = 0.0
            for name, tokens in step["scheduled"].items():
                before = computed[name]
                computed[name] = before + tokens
                if tokens == 1 and before >= prompts[name]:
                    decode, decode_kv = decode + 1, decode_kv + before + 1
                else:
                    prefill, pairs = prefill + tokens, pairs + tokens * (before + (tokens + 1) / 2)
            rows.append(features(BatchShape(prefill + decode, 0, pairs, decode, decode_kv, 0.0, prefill > 0)))
            times.append(step["cpu"])
    weights, *_ = np.linalg.lstsq(np.array(rows, float), np.array(times), rcond=None)
    return LinearSteps(weights)


@pytest.fixture(scope="module")
def predicted() -> dict[int, dict[str, float]]:
    """Return the metrics our engine predicts for 2, 4 and 8 slots, its steps fitted on 2 and 4 alone."""
    steps = fitted_steps(["agent_cpu_n02", "agent_cpu_n04"])
    found = {}
    for count in (2, 4, 8):
        slots = workload(f"agent_cpu_n{count:02}")["slots"]
        sessions = [slot_sessions(slot) for slot in slots]
        populations = tuple(
            Population("slot", SlotWorkload(own), FixedStart(slot["start"]), clients=1)
            for own, slot in zip(sessions, slots, strict=True)
        )
        turns = sum(len(slot["turns"]) for slot in slots)
        load = LoadSetup(populations, StopRule(requests=turns), warm_start=False)
        setup = EngineSetup(CONFIG, BLOCKS, steps, FrontendTimes())
        found[count] = run_metrics(simulate(setup, load, 0), "slot", Slo())
    return found


@dataclass(frozen=True)
class FixedStart:
    """Every client begins at one given time."""

    at_s: float

    def offsets_s(self, clients: int, rng: np.random.Generator) -> list[float]:  # noqa: ARG002 (given, not drawn)
        """Return the recorded start for each client."""
        return [self.at_s] * clients


def recorded(run: str) -> dict[str, float]:
    """Return what the real engine reached."""
    summary = json.loads((DATA / f"{run}.summary.json").read_text())
    return {
        "requests_per_s": summary["turns_per_s"],
        "prefix_hit_rate": summary["hit_rate"],
        "ttft_p50_s": summary["ttft"]["p50"],
        "busy_s": summary["busy_cpu"],
    }


@pytest.mark.parametrize("slots", [2, 4])
def test_below_the_cliff_throughput_and_hits_are_the_recorded_ones(
    slots: int, predicted: dict[int, dict[str, float]]
) -> None:
    """With room for every session, throughput is within 1 %, the hit rate within 0.005, median TTFT within 5 %."""
    real = recorded(f"agent_cpu_n{slots:02}")
    assert predicted[slots]["requests_per_s"] == pytest.approx(real["requests_per_s"], rel=0.01)
    assert predicted[slots]["prefix_hit_rate"] == pytest.approx(real["prefix_hit_rate"], abs=0.005)
    assert predicted[slots]["ttft_p50_s"] == pytest.approx(real["ttft_p50_s"], rel=0.05)


def test_past_the_cliff_the_prediction_lies_near_the_spread_of_the_repeats(
    predicted: dict[int, dict[str, float]],
) -> None:
    """At 8 slots the cache thrashes: within 0.15 requests/s and 0.05 of hit rate of three real runs."""
    repeats = [recorded(run) for run in RUNS[2:]]
    for metric, slack in (("requests_per_s", 0.15), ("prefix_hit_rate", 0.05)):
        values = [repeat[metric] for repeat in repeats]
        assert min(values) - slack <= predicted[8][metric] <= max(values) + slack
