"""A fitted profile gives the capacity answer of the trace it was fitted to.

The recorded sessions, sent in a closed loop as they were recorded, and sessions drawn from their profile, on the same
engine (Qwen3-Coder-30B-A3B on one H100, its KV cache cut to 400,000 tokens so that few sessions fill it).

Compared are the sessions at which thrashing costs ten points of hit rate against an unlimited cache (the knee, robust
where a few huge cold prompts make up p99), p99 TTFT before, at and after it, and hit rates with an unlimited cache.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from weka_sample import FOLDER, weka_requests

from sim.engine.clients import Population, StopRule
from sim.engine.record import Outcome
from sim.engine.simulation import LoadSetup, simulate
from sim.load import load_deployment
from sim.workload_setup import workload
from sim.workload_spec import WorkloadSpec
from workloads import Session, Span, StaggeredStart, Workload
from workloads.fit import fitted_workload
from workloads.traces.steps import session_steps

SCENARIO = Path(__file__).parents[2] / "scenarios" / "coding-agent-h100.yaml"
LEVELS = (6, 8, 10, 12)
SEEDS = 3
UNLIMITED = 10_000_000
LOST = 0.10  # of the hit rate
KNEE_WITHIN, P99_WITHIN, HITS_WITHIN = 0.25, 0.25, 0.03

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="shared/data/traces/weka_cc is not beside the checkout")


@dataclass(frozen=True)
class Recorded:
    """Recorded sessions, one after another by chance."""

    sessions: tuple[Session, ...]
    shared_prefix_tokens: int
    mean_unique_tokens: float = 0.0

    @property
    def prefix(self) -> tuple[Span, ...]:
        """What all share."""
        return self.sessions[0].prefix

    def session(self, name: str, rng: np.random.Generator) -> Session:
        """Return one of them under another name."""
        return replace(self.sessions[int(rng.integers(len(self.sessions)))], name=name)


class Answer(NamedTuple):
    """By number of sessions: hit rates and p99 TTFT with the cache cut, and hit rates without a limit."""

    hits: list[float]
    p99_s: list[float]
    unlimited_hits: list[float]

    @property
    def knee(self) -> float:
        """Return how many sessions it takes to lose so much, between the levels in a straight line."""
        lost = [roomy - own for roomy, own in zip(self.unlimited_hits, self.hits, strict=True)]
        assert lost[0] < LOST < lost[-1]
        return float(np.interp(LOST, np.maximum.accumulate(lost), LEVELS))


def answer(sessions: Workload) -> Answer:
    """Simulate two hours at each level, seeds pooled."""
    engine = load_deployment(SCENARIO, ["engine.kv_cache_tokens=400000"]).engine
    found = Answer([], [], [])
    for clients in LEVELS:
        load = LoadSetup(
            (Population("session", sessions, StaggeredStart(600), clients=clients),), StopRule(duration_s=7200)
        )
        for blocks in (engine.num_gpu_blocks, UNLIMITED):
            runs = [simulate(replace(engine, num_gpu_blocks=blocks), load, seed) for seed in range(SEEDS)]
            turns = [turn for run in runs for turn in run.records if turn.outcome is Outcome.COMPLETED]
            hits = sum(turn.hit_tokens for turn in turns) / sum(turn.prompt_tokens for turn in turns)
            if blocks == UNLIMITED:
                found.unlimited_hits.append(hits)
            else:
                found.hits.append(hits)
                found.p99_s.append(float(np.percentile([turn.ttft_s for turn in turns], 99)))
    return found


@pytest.fixture(scope="module")
def answers() -> tuple[Answer, Answer]:
    """Return that of the trace and that of its profile."""
    steps = session_steps(weka_requests())
    recorded = Recorded(tuple(steps.sessions()), steps.shared_tokens)
    spec = msgspec.convert(fitted_workload(steps), WorkloadSpec)
    return answer(recorded), answer(workload(spec, 262144))


def test_the_knee_is_that_of_the_trace(answers: tuple[Answer, Answer]) -> None:
    """In sessions."""
    trace, profile = answers
    assert profile.knee == pytest.approx(trace.knee, rel=KNEE_WITHIN)


def test_p99_is_that_of_the_trace(answers: tuple[Answer, Answer]) -> None:
    """At every level."""
    trace, profile = answers
    assert profile.p99_s == pytest.approx(trace.p99_s, rel=P99_WITHIN)


def test_hits_without_a_limit_are_those_of_the_trace(answers: tuple[Answer, Answer]) -> None:
    """In points."""
    trace, profile = answers
    assert profile.unlimited_hits == pytest.approx(trace.unlimited_hits, abs=HITS_WITHIN)
