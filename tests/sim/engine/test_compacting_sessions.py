"""Sessions that compact, strip and rewrite, in the engine: what it finds cached, and what it may forget."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from sim.engine.clients import Population, StopRule
from sim.engine.record import Outcome, TurnRecord
from sim.engine.simulation import LoadSetup, simulate
from sim.load import load_deployment
from workloads import CommonStart, Compaction, Constant, GrowingWorkload, Lognormal, Rewrites, StaggeredStart, Uniform

ENGINE = load_deployment(Path(__file__).parents[3] / "scenarios" / "h100-qwen3-4b-fp8.yaml").engine
CHANGING = GrowingWorkload(
    shared_prefix_tokens=256,
    turns=Constant(12),
    first_tokens=Lognormal(900, 0.8),
    new_tokens=Lognormal(200, 1.0),
    output_tokens=Uniform(1, 90),
    think_s=Uniform(0, 2),
    stripped_share=0.2,
    compaction=Compaction(0.1, Uniform(0.2, 0.9), Uniform(0, 0.5)),
    rewrites=Rewrites(0.2, Uniform(0, 1)),
    most_tokens=20_000,
)


class Kept:
    """Takes records as a run writes them while it goes on, so that the engine forgets what is over."""

    def __init__(self) -> None:
        self.records: list[TurnRecord] = []

    def append(self, record: TurnRecord, /) -> None:
        """Take a record."""
        self.records.append(record)

    def over(self, record: TurnRecord, /) -> None:
        """Leave it as it is."""


def load(workload: GrowingWorkload, clients: int, sessions: int = 2) -> LoadSetup:
    """Return so many clients, each with a few sessions."""
    population = Population("session", workload, StaggeredStart(5), clients=clients)
    return LoadSetup((population,), StopRule(sessions_per_client=sessions))


def test_what_is_over_is_never_missed() -> None:
    """The same hits and times whether the engine forgets contents or not, with plenty of blocks and with few."""
    for blocks in (200_000, 1_500):
        engine = replace(ENGINE, num_gpu_blocks=blocks)
        kept = Kept()
        simulate(engine, load(CHANGING, 12), 5, kept)
        whole = simulate(engine, load(CHANGING, 12), 5).records
        assert len(kept.records) == len(list(whole)) > 200
        for one, other in zip(kept.records, whole, strict=True):
            assert one.outcome is Outcome.COMPLETED
            assert (one.hit_tokens, one.ttft_s, one.e2e_s) == (other.hit_tokens, other.ttft_s, other.e2e_s)


def test_with_room_for_all_a_prompt_finds_what_the_session_holds() -> None:
    """To the block of 16 tokens, and all but the last token of a prompt that grew by less than a block."""
    population = Population("session", CHANGING, CommonStart(), clients=1)
    run = simulate(
        replace(ENGINE, num_gpu_blocks=200_000), LoadSetup((population,), StopRule(sessions_per_client=3)), 7
    )
    rng = np.random.default_rng(np.random.SeedSequence([7, 0, 0]))  # the client's own stream
    lengths = [length for number in range(3) for length in CHANGING.session(f"session 0.{number}", rng).lengths()]
    for record, length in zip(run.records, lengths, strict=True):
        assert record.prompt_tokens == length.tokens
        held = min(length.held_tokens, length.tokens - 1) // 16 * 16
        assert held - 16 <= record.hit_tokens <= held
