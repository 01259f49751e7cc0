"""Batching policies beside vLLM's own, step by step on small cases whose numbers can be counted by hand."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.kv.block_pool import BlockPool
from sim.kv.content import ContentTree
from sim.scheduling.batch import Batch
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.no_kv_cache import rows_recomputed
from sim.scheduling.order import shortest_remaining_first
from sim.scheduling.policies import SCHEDULERS, VLLM_V1, scheduler_named
from sim.scheduling.request import Request
from sim.scheduling.static_batches import StaticBatches
from workloads.span import Span

BLOCK = 16


class Bench:
    """A scheduler, requests by number, and what each step held."""

    def __init__(self, name: str, blocks: int = 1000, **flags: object) -> None:
        config = SchedulerConfig(**{"max_num_batched_tokens": 8192, "max_num_seqs": 4, **flags})  # type: ignore[arg-type]
        self.scheduler = scheduler_named(name, config, BlockPool(blocks))
        self.tree = ContentTree(BLOCK)
        self.order: list[int] = []
        self.first_step: dict[int, int] = {}

    def add(self, number: int, prompt: int, output: int, priority: int = 0, due_s: float = 0.0) -> Request:
        """Put a request in line."""
        content = self.tree.content((Span(number, 0, prompt + output),))
        request = Request(str(number), number, prompt, output, content, priority, float(number))
        request.due_s = due_s
        assert self.scheduler.can_ever_fit(prompt, output)
        self.scheduler.add(request)
        return request

    def step(self) -> Batch:
        """Schedule and process a batch."""
        batch = self.scheduler.schedule()
        for request in self.scheduler.process(batch):
            self.order.append(request.number)
            self.first_step[request.number] = request.token_steps[0]
        tables = [request.table for request in self.scheduler.running]
        if isinstance(self.scheduler, StaticBatches):
            tables += self.scheduler.done_tables
        self.scheduler.pool.check_integrity(tables)
        return batch

    def run(self, most: int = 10_000) -> list[Batch]:
        """Go on until nobody is left."""
        steps = []
        while self.scheduler.has_requests:
            steps.append(self.step())
            assert len(steps) < most
        return steps


def _tokens(batch: Batch) -> dict[int, int]:
    return {entry.request.number: entry.tokens for entry in batch.scheduled}


def test_without_a_cache_every_token_costs_all_rows_before_it() -> None:
    """16 tokens of prompt and 48 of answer: 1,896 rows where 63 would do, and no memory held."""
    bench = Bench("no_kv_cache")
    bench.add(0, 16, 48)
    steps = bench.run()
    rows = [_tokens(batch)[0] for batch in steps]
    assert rows == list(range(16, 64))
    assert sum(rows) == rows_recomputed(16, 48) == 1896
    assert bench.scheduler.pool.num_free == bench.scheduler.pool.usable_blocks


@pytest.mark.parametrize("name", ["no_kv_cache", "one_at_a_time"])
def test_one_at_a_time_lets_nobody_in_before_the_last_token(name: str) -> None:
    """Steps hold one request each, in order."""
    bench = Bench(name)
    for number in range(3):
        bench.add(number, 20, 5)
    owners = [list(_tokens(batch)) or [None] for batch in bench.run()]
    assert all(len(owner) == 1 for owner in owners)
    assert bench.order == [0, 1, 2]


def test_static_batches_wait_for_the_longest_and_pad_the_rest() -> None:
    """Thirty answers of 20 tokens idle for 480 steps beside one of 500: the founding document's 96 %."""
    bench = Bench("static_batches", max_num_seqs=31, max_model_len=1000, blocks=2000)
    for number in range(30):
        bench.add(number, 40 if number else 60, 20)
    bench.add(30, 40, 500)
    bench.add(31, 40, 1)
    steps = bench.run()
    assert bench.order[-2:] == [30, 31]
    assert steps[0].padding_tokens == 30 * 20
    decodes = steps[1:500]
    assert [batch.rows + len(batch.scheduled) for batch in decodes] == [31] * 499
    assert sum(batch.rows for batch in decodes) == 30 * 480
    waste = bench.scheduler.waste
    assert waste is not None
    assert waste.idle_share == pytest.approx(0.96)
    assert bench.scheduler.pool.num_free == bench.scheduler.pool.usable_blocks


def test_a_static_batch_is_as_large_as_its_longest_rows_allow() -> None:
    """Each row holds the longest prompt and answer of the batch."""
    bench = Bench("static_batches", blocks=41, max_model_len=1000)  # 40 usable blocks, 640 tokens
    bench.add(0, 100, 60)  # 10 blocks
    bench.add(1, 100, 60)
    bench.add(2, 140, 20)
    bench.add(3, 200, 120)  # with this one each would hold 20 blocks
    first = bench.step()
    assert [entry.request.number for entry in first.scheduled] == [0, 1, 2]
    assert bench.scheduler.pool.usable_blocks - bench.scheduler.pool.num_free == 3 * 13  # ceil((140 + 60) / 16)


def test_fixed_slots_admit_whole_prompts_beside_decodes() -> None:
    """No step budget: a newcomer's prompt comes whole in the step after a slot is free."""
    bench = Bench("fixed_slots", max_num_seqs=2, max_num_batched_tokens=64)
    bench.add(0, 300, 2)
    bench.add(1, 10, 9)
    bench.add(2, 500, 2)
    steps = bench.run()
    assert _tokens(steps[0]) == {0: 300, 1: 10}
    assert _tokens(steps[2]) == {1: 1, 2: 500}


def test_prefill_first_lets_decodes_wait() -> None:
    """While somebody can be admitted no step mixes prompts and decodes."""
    bench = Bench("prefill_first", max_num_batched_tokens=512, max_num_seqs=3)
    bench.add(0, 300, 4)
    assert _tokens(bench.step()) == {0: 300}
    assert _tokens(bench.step()) == {0: 1}
    bench.add(1, 400, 4)
    bench.add(2, 400, 4)
    assert _tokens(bench.step()) == {1: 400}
    assert _tokens(bench.step()) == {2: 400}
    assert _tokens(bench.step()) == {0: 1, 1: 1, 2: 1}


def test_chunked_prefill_has_a_chunk_beside_its_budget() -> None:
    """Decodes first, then chunks of at most 100 tokens until the budget of 150 is spent."""
    bench = Bench("chunked_prefill", max_num_batched_tokens=150, prefill_chunk_tokens=100)
    bench.add(0, 30, 9)
    bench.step()
    bench.add(1, 250, 2)
    bench.add(2, 90, 2)
    assert _tokens(bench.step()) == {0: 1, 1: 100, 2: 49}
    assert _tokens(bench.step()) == {0: 1, 1: 100, 2: 41}
    assert _tokens(bench.step()) == {0: 1, 1: 50, 2: 1}


def test_areas_leave_holes_and_blocks_do_not() -> None:
    """Two short areas go, a long one between them stays: free is enough, no hole is."""
    usage = {}
    for reservation in ("paged", "request"):
        bench = Bench("fixed_slots", blocks=13, kv_reservation=reservation, max_model_len=200)  # 12 blocks, 192 tokens
        bench.add(0, 32, 16)
        bench.add(1, 32, 64)
        bench.add(2, 30, 2)
        bench.step()
        while 0 not in bench.order:
            bench.step()
        bench.add(3, 60, 18)  # 5 blocks: holes of 3 and of 3
        for _ in range(3):
            bench.step()
        usage[reservation] = 3 in [request.number for request in bench.scheduler.running]
        waste = bench.scheduler.waste
        assert waste is not None
        assert (waste.external_fragmentation > 0) == (reservation == "request")
        bench.run()
    assert usage == {"paged": True, "request": False}


@pytest.mark.parametrize(("reservation", "running"), [("paged", 4), ("request", 4), ("max_model_len", 2)])
def test_worst_case_reservation_halves_the_batch(reservation: str, running: int) -> None:
    """416 tokens of memory hold two requests of at most 200, or four of 64."""
    bench = Bench("fixed_slots", blocks=27, kv_reservation=reservation, max_model_len=200)
    for number in range(4):
        bench.add(number, 48, 16)
    assert len(bench.step().scheduled) == running


@pytest.mark.parametrize("size", [1, 4, 16, 64, 256])
def test_paging_wastes_half_a_block_a_request(size: int) -> None:
    """Internal fragmentation grows with the block size and stays below a block each."""
    bench = Bench("fixed_slots", blocks=10_000, block_size=size, max_num_seqs=50)
    bench.tree = ContentTree(size)
    for number in range(50):
        bench.add(number, 100 + 7 * number, 40)
    bench.run()
    waste = bench.scheduler.waste
    assert waste is not None
    mean_tokens = waste.filled_tokens / waste.reserved_tokens
    assert 1 - mean_tokens == pytest.approx((size - 1) / 2 / (300 + size / 2), abs=0.06)


ORDERS = {
    "fcfs": [0, 1, 2, 3],
    "lifo": [3, 2, 1, 0],
    "shortest_first": [2, 0, 3, 1],
    "shortest_remaining": [1, 3, 0, 2],
    "priority": [3, 0, 2, 1],
    "earliest_deadline": [1, 0, 3, 2],
}


@pytest.mark.parametrize("policy", ORDERS)
def test_the_queue_has_its_order(policy: str) -> None:
    """All wait at once; one slot."""
    bench = Bench(VLLM_V1, policy=policy, max_num_seqs=1)
    for number, (prompt, output, priority, due_s) in enumerate(
        [(50, 7, 1, 2.0), (90, 3, 3, 1.0), (20, 9, 2, 4.0), (60, 5, 0, 3.0)]
    ):
        bench.add(number, prompt, output, priority, due_s)
    bench.run()
    assert bench.order == ORDERS[policy]


def test_a_quota_keeps_slots_for_others() -> None:
    """Two of class 0 at most: the third waits though a slot is free, class 1 goes by."""
    bench = Bench(VLLM_V1, policy="priority_quota", priority_quotas=((0, 2),), max_num_seqs=4)
    for number in range(4):
        bench.add(number, 20, 5, priority=0)
    bench.add(4, 20, 5, priority=1)
    assert sorted(_tokens(bench.step())) == [0, 1, 4]
    bench.run()
    assert sorted(bench.order) == [0, 1, 2, 3, 4]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(SCHEDULERS)),
    st.lists(st.tuples(st.integers(1, 90), st.integers(1, 40), st.integers(0, 2)), min_size=1, max_size=12),
    st.fixed_dictionaries(
        {
            "blocks": st.integers(10, 40),
            "policy": st.sampled_from(["fcfs", "lifo", "shortest_first", "shortest_remaining", "priority"]),
            "max_num_seqs": st.integers(1, 6),
            "async_scheduling": st.booleans(),
        }
    ),
)
def test_every_policy_finishes_everybody_and_loses_no_block(
    name: str, asked: list[tuple[int, int, int]], flags: dict[str, Any]
) -> None:
    """Tokens come one a step to each, memory is whole at the end, whatever the pressure."""
    bench = Bench(name, max_model_len=200, **flags)
    requests = [bench.add(number, *one) for number, one in enumerate(asked)]
    flight: list[Batch] = []
    steps = 0
    while bench.scheduler.has_requests or flight:
        batch = bench.scheduler.schedule()
        if not batch.is_empty:
            flight.append(batch)
        if flight and (len(flight) > flags["async_scheduling"] or batch.is_empty):
            bench.scheduler.process(flight.pop(0))
        steps += 1
        assert steps < 20_000
    assert [request.generated_tokens for request in requests] == [output for _, output, _ in asked]
    assert bench.scheduler.pool.num_free == bench.scheduler.pool.usable_blocks
    bench.scheduler.pool.check_integrity([])


@pytest.mark.parametrize("comes_at", range(1, 25))
def test_a_token_in_flight_moves_nobody_who_waits(comes_at: int) -> None:
    """The queue keeps its order when a preempted request's last token comes back after it."""
    bench = Bench(VLLM_V1, blocks=8, policy="shortest_remaining", max_num_seqs=3, async_scheduling=True)
    bench.add(0, 12, 28)
    bench.add(1, 54, 26)
    flight: list[Batch] = []
    for step in range(120):
        if step == comes_at:
            bench.add(2, 24, 7)
        flight.append(bench.scheduler.schedule())
        if len(flight) > 1:
            bench.scheduler.process(flight.pop(0))
        waiting = bench.scheduler.waiting
        assert waiting == sorted(waiting, key=shortest_remaining_first)


def test_static_batches_know_no_preemption() -> None:
    """What a batch needs is reserved before it begins."""
    assert isinstance(Bench("static_batches").scheduler, StaticBatches)
    bench = Bench("static_batches", blocks=12)
    for number in range(6):
        bench.add(number, 30, 60)
    assert not any(batch.preempted for batch in bench.run())
