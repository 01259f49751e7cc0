"""Our scheduler against a real vLLM 0.32.0, driven through its KV cliff on a CPU (shared/data/cpu_cliff)."""

import gzip
import json
from pathlib import Path

import pytest
from batch_shares import shares_of

from sim.kv.block_pool import BlockPool
from sim.kv.content import ContentTree
from sim.scheduling.continuous import ContinuousScheduler, SchedulerConfig
from sim.scheduling.request import Request
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
@pytest.mark.parametrize("numbered", [False, True], ids=["group", "one by one"])
def test_every_step_of_the_real_engine_is_scheduled_alike(run: str, *, numbered: bool) -> None:
    """Given the arrivals, tokens, hits, preemptions, finishes and free blocks of each step are the recorded ones."""
    prompts = {}
    for number, slot in enumerate(workload(run)["slots"]):
        turns = [
            (prompt, turn)
            for session in slot_sessions(slot)
            for prompt, turn in zip(session.prompts(), session.turns, strict=True)
        ]
        prompts |= {f"s{number}t{index}": pair for index, pair in enumerate(turns)}
    tree, scheduler = ContentTree(CONFIG.block_size), ContinuousScheduler(CONFIG, BlockPool(BLOCKS, numbered=numbered))
    count = 0
    for step in lines(run, "steps"):
        for name in step.get("arrived", []):
            prompt, turn = prompts[name]
            content = tree.content([*prompt.spans, prompt.output])
            tokens = total_tokens(prompt.spans)
            scheduler.add(Request(name, count, tokens, turn.output_tokens, content))
            count += 1
        batch = scheduler.schedule()
        assert {entry.request.id: entry.tokens for entry in shares_of(batch, scheduler)} == step["scheduled"]
        assert {entry.request.id: entry.hit_tokens for entry in batch.admitted} == step.get("hit", {})
        assert [request.id for request in batch.preempted] == step.get("preempted", [])
        assert [len(scheduler.running), len(scheduler.waiting), scheduler.pool.num_free] == step["sched"]
        finished = scheduler.process(batch)
        assert [request.id for request in finished] == step.get("finished", [])
        assert scheduler.pool.num_free == step["free_blocks"]
