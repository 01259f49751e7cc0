"""What must hold in every step of every run, whatever the settings: conservation, budgets, progress, exact counts."""

from collections import deque
from dataclasses import replace
from typing import Any

import pytest
from batch_shares import shares_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_strategies import MOST_TOKENS, Asked, asked, configs

from sim.kv import BlockPool, ContentTree
from sim.scheduling import ContinuousScheduler, SchedulerConfig
from sim.scheduling.batch import Batch
from sim.scheduling.continuous import check_integrity
from sim.scheduling.request import Status


class Run:
    """A scheduler driven to the end, with everything checked at every step."""

    def __init__(self, config: SchedulerConfig, asked: list[Asked], spare_blocks: int, *, caching: bool) -> None:
        tree = ContentTree(config.block_size)
        self.asked = asked
        self.requests = [of.request(tree, number) for number, of in enumerate(asked)]
        most = max(request.prompt_tokens + request.output_tokens - 1 for request in self.requests)
        pool = BlockPool(1 - (-most // config.block_size) + spare_blocks, enable_prefix_caching=caching)
        self.scheduler = ContinuousScheduler(config, pool)
        self.tokens = dict.fromkeys(self.requests, 0)
        self.preemptions = 0

    def go(self) -> None:
        """Step until nothing is left; a run that takes longer than twice all its tokens a request is stuck."""
        in_flight: deque[Batch] = deque()
        scheduler = self.scheduler
        total = sum(request.prompt_tokens + request.output_tokens for request in self.requests)
        most_steps = 30 + 2 * total * (len(self.requests) + 1)
        step = 0
        while step <= 20 or scheduler.has_requests:
            assert step < most_steps, "no progress"
            for request, of in zip(self.requests, self.asked, strict=True):
                if of.step == step:
                    scheduler.add(request)
            batch = scheduler.schedule()
            self.check_batch(batch)
            in_flight.append(batch)
            if not scheduler.config.async_scheduling or len(in_flight) == 2:
                for request in scheduler.process(in_flight.popleft()):
                    assert request.status is Status.FINISHED
                    assert request.table.blocks == 0
            self.check_state()
            step += 1

    def check_batch(self, batch: Batch) -> None:
        """Check what one step decided."""
        config = self.scheduler.config
        shares = shares_of(batch, self.scheduler)
        self.scheduler.settle_all()
        assert sum(entry.tokens for entry in shares) <= config.max_num_batched_tokens
        assert len(self.scheduler.running) <= config.max_num_seqs
        assert len({entry.request for entry in shares}) == len(shares)
        assert not (batch.preempted and batch.admitted), "a step that preempted admits nobody"
        for admission in batch.admitted:
            assert admission.hit_tokens % config.block_size == 0
            assert admission.hit_tokens < admission.request.known_tokens, "a hit leaves at least one token to compute"
        for entry in shares:
            request, upto = entry.request, entry.computed_before + entry.tokens
            assert entry.tokens > 0
            assert request.computed_tokens == upto
            assert entry.samples == (upto == request.known_tokens + request.in_flight_outputs - entry.samples)
            self.tokens[request] += entry.tokens
        self.preemptions += len(batch.preempted)

    def check_state(self) -> None:
        """Check what one step left behind."""
        check_integrity(self.scheduler)
        for request in self.scheduler.running:
            assert request.computed_tokens <= request.known_tokens + request.in_flight_outputs
            assert request.table.blocks * self.scheduler.config.block_size >= request.computed_tokens
            assert 0 <= request.table.registered <= request.table.blocks
        for request in self.scheduler.waiting:
            assert request.table.blocks == request.computed_tokens == 0
        assert all(request.in_flight_outputs in {0, 1} for request in self.requests)


@settings(max_examples=300)
@given(
    config=configs,
    asked=st.lists(asked, min_size=1, max_size=9),
    spare_blocks=st.integers(0, 12),
    caching=st.booleans(),
)
def test_every_request_that_fits_finishes_with_exactly_its_tokens(
    config: SchedulerConfig, asked: list[Asked], spare_blocks: int, *, caching: bool
) -> None:
    """Whatever the settings; each token is generated once and every token with KV was computed or hit."""
    run = Run(config, asked, spare_blocks, caching=caching)
    assert all(run.scheduler.can_ever_fit(one.prompt_tokens, one.output_tokens) for one in run.requests)
    run.go()
    for request in run.requests:
        assert request.status is Status.FINISHED
        assert request.generated_tokens == request.output_tokens
        if not caching:
            assert run.tokens[request] >= request.prompt_tokens + request.output_tokens - 1
            if not request.num_preemptions:
                assert run.tokens[request] == request.prompt_tokens + request.output_tokens - 1
    assert run.scheduler.pool.num_free == run.scheduler.pool.usable_blocks
    assert run.preemptions == sum(request.num_preemptions for request in run.requests)


@given(asked=st.lists(asked, min_size=1, max_size=6))
def test_an_unlimited_pool_never_preempts_or_evicts(asked: list[Asked]) -> None:
    """The counterfactual that knees are measured against."""
    run = Run(SchedulerConfig(block_size=4, max_model_len=MOST_TOKENS + 1), asked, 1000, caching=True)
    run.go()
    assert run.preemptions == 0
    assert run.scheduler.pool.num_evicted == 0


def small(**changes: Any) -> tuple[ContinuousScheduler, ContentTree]:
    """Return a scheduler with 4 usable blocks of 4 tokens."""
    config = SchedulerConfig(block_size=4, max_model_len=100, **changes)
    return ContinuousScheduler(config, BlockPool(5)), ContentTree(4)


@pytest.mark.parametrize(
    ("prompt", "output", "fits"), [(16, 1, True), (16, 2, False), (12, 5, True), (12, 6, False), (17, 1, False)]
)
def test_what_can_ever_fit_counts_no_kv_for_the_last_token(prompt: int, output: int, *, fits: bool) -> None:
    """Prompt P and N outputs need P + N - 1 tokens of KV (rule 5)."""
    scheduler, _ = small()
    assert scheduler.can_ever_fit(prompt, output) == fits


def test_what_can_ever_fit_respects_the_other_limits() -> None:
    """max_model_len leaves room for an answer; without chunked prefill a resumed request is one chunk."""
    scheduler, _ = small()
    assert scheduler.can_ever_fit(10, 3)
    assert not replace_config(scheduler, max_model_len=10).can_ever_fit(10, 3)
    assert replace_config(scheduler, max_num_batched_tokens=2).can_ever_fit(10, 3)
    for budget, fits in ((11, False), (12, True)):
        changed = replace_config(scheduler, enable_chunked_prefill=False, max_num_batched_tokens=budget)
        assert changed.can_ever_fit(10, 3) == fits


def replace_config(scheduler: ContinuousScheduler, **changes: Any) -> ContinuousScheduler:
    """Return the same scheduler with other settings."""
    return ContinuousScheduler(replace(scheduler.config, **changes), scheduler.pool)


def test_an_idle_scheduler_schedules_nothing() -> None:
    """Neither requests nor tokens."""
    scheduler, _ = small()
    assert not scheduler.has_requests
    assert scheduler.schedule().is_empty
    assert scheduler.process(Batch()) == []
