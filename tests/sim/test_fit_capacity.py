"""A fitted profile gives the capacity answer of the trace it was fitted to.

A trace's sessions, sent in a closed loop as they were recorded, and sessions drawn from their profile, on the same
engine: Qwen3-Coder-30B-A3B on one H100, its KV cache cut so that few sessions fill it.

AIPerf's 41 sessions are compared by the KV knee: p99 TTFT more than three times what it is with unlimited KV. In the 27
recorded ones of Claude Code about one prompt in a hundred is cold and huge, so p99 hangs on a few of them even then;
there the knee is where ten points of hit rate are lost against unlimited KV, and p99 around it is compared too.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from sim.engine.clients import Population, StopRule
from sim.engine.record import Outcome
from sim.engine.simulation import LoadSetup, simulate
from sim.load import load_deployment
from sim.workload_setup import workload
from sim.workload_spec import WorkloadSpec
from workloads import Session, Span, StaggeredStart, Workload
from workloads.fit import fitted_workload
from workloads.traces.open import open_trace
from workloads.traces.session_steps import session_steps

SCENARIO = Path(__file__).parents[2] / "scenarios" / "coding-agent-h100.yaml"
TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"
WEKA, AIPERF = TRACES / "weka_cc", TRACES / "aiperf_agentic_code" / "dataset_40_sessions_seed42.jsonl"
SEEDS = 3
UNLIMITED = 10_000_000
KNEE_RATIO = 3.0
LOST = 0.10  # of the hit rate
KNEE_WITHIN, P99_WITHIN, HITS_WITHIN = 0.25, 0.25, 0.03

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="shared/data/traces is not beside the checkout")


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
    """By number of sessions: hit rates and p99 TTFT with the cache cut, and without a limit."""

    levels: tuple[int, ...]
    hits: list[float]
    p99_s: list[float]
    unlimited_hits: list[float]
    unlimited_p99_s: list[float]

    @property
    def kv_knee(self) -> float:
        """Return at how many sessions p99 is three times that without a limit."""
        ratios = [own / roomy for own, roomy in zip(self.p99_s, self.unlimited_p99_s, strict=True)]
        return self._where(ratios, KNEE_RATIO)

    @property
    def thrashing_knee(self) -> float:
        """Return how many sessions it takes to lose so much of the hit rate."""
        return self._where([roomy - own for roomy, own in zip(self.unlimited_hits, self.hits, strict=True)], LOST)

    def _where(self, values: list[float], limit: float) -> float:
        """Between the levels in a straight line."""
        assert values[0] < limit < values[-1]
        return float(np.interp(limit, np.maximum.accumulate(values), self.levels))


def answer(sessions: Workload, kv_cache_tokens: int, levels: tuple[int, ...], start_s: float, until_s: float) -> Answer:
    """Simulate each level, seeds pooled."""
    engine = load_deployment(SCENARIO, [f"engine.kv_cache_tokens={kv_cache_tokens}"]).engine
    found = Answer(levels, [], [], [], [])
    for clients in levels:
        population = Population("session", sessions, StaggeredStart(start_s), clients=clients)
        load = LoadSetup((population,), StopRule(duration_s=until_s))
        for blocks in (engine.num_gpu_blocks, UNLIMITED):
            runs = [simulate(replace(engine, num_gpu_blocks=blocks), load, seed) for seed in range(SEEDS)]
            turns = [turn for run in runs for turn in run.records if turn.outcome is Outcome.COMPLETED]
            hits = sum(turn.hit_tokens for turn in turns) / sum(turn.prompt_tokens for turn in turns)
            p99_s = float(np.percentile([turn.ttft_s for turn in turns], 99))
            limited = blocks != UNLIMITED
            (found.hits if limited else found.unlimited_hits).append(hits)
            (found.p99_s if limited else found.unlimited_p99_s).append(p99_s)
    return found


def both(path: Path, *load: Any) -> tuple[Answer, Answer]:
    """Return the answers of a trace and of its profile."""
    steps = session_steps(open_trace(path))
    recorded = Recorded(tuple(steps.sessions()), steps.shared_tokens)
    spec = msgspec.convert(fitted_workload(steps), WorkloadSpec)
    return answer(recorded, *load), answer(workload(spec, 262144), *load)


def test_a_profile_of_aiperfs_agents_has_the_kv_knee_of_their_trace() -> None:
    """In sessions; and the hits and p99 that it has with unlimited KV."""
    trace, profile = both(AIPERF, 1_200_000, (12, 13, 14, 15), 120, 1800)
    assert profile.kv_knee == pytest.approx(trace.kv_knee, rel=KNEE_WITHIN)
    assert profile.unlimited_hits == pytest.approx(trace.unlimited_hits, abs=HITS_WITHIN)
    assert profile.unlimited_p99_s == pytest.approx(trace.unlimited_p99_s, rel=P99_WITHIN)


def test_a_profile_of_recorded_agents_has_the_knee_p99_and_hits_of_their_trace() -> None:
    """Where the cache begins to thrash."""
    trace, profile = both(WEKA, 400_000, (6, 8, 10, 12), 600, 7200)
    assert profile.thrashing_knee == pytest.approx(trace.thrashing_knee, rel=KNEE_WITHIN)
    assert profile.p99_s == pytest.approx(trace.p99_s, rel=P99_WITHIN)
    assert profile.unlimited_hits == pytest.approx(trace.unlimited_hits, abs=HITS_WITHIN)
