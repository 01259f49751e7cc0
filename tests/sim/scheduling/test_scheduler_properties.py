"""What must hold in every step of every run, whatever the settings: conservation, budgets, progress, exact counts."""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.kv import BlockPool, ContentTree
from sim.scheduling import ContinuousScheduler, Request, SchedulerConfig
from sim.scheduling.continuous import Batch, check_integrity
from sim.scheduling.request import Status
from workloads import Span

MOST_TOKENS = 90


@dataclass(frozen=True)
class Asked:
    """A request to be made: how much of its prompt is shared, how much its own, and when it comes."""

    shared: int
    own: int
    output: int
    step: int
    priority: int


asked = st.builds(
    Asked, st.integers(0, 40), st.integers(1, 20), st.integers(1, 30), st.integers(0, 20), st.integers(0, 2)
)
configs = st.builds(
    SchedulerConfig,
    max_num_batched_tokens=st.integers(1, 70),
    max_num_seqs=st.integers(1, 6),
    max_model_len=st.just(MOST_TOKENS + 1),
    block_size=st.sampled_from([1, 2, 4, 5, 16]),
    enable_chunked_prefill=st.booleans(),
    policy=st.sampled_from(["fcfs", "priority"]),
    long_prefill_token_threshold=st.sampled_from([0, 0, 1, 7]),
    long_prefill_token_threshold_adaptive=st.booleans(),
    watermark=st.sampled_from([0.0, 0.0, 0.1, 0.5]),
    scheduler_reserve_full_isl=st.booleans(),
    async_scheduling=st.booleans(),
).map(lambda config: config if config.enable_chunked_prefill else replace(config, max_num_batched_tokens=MOST_TOKENS))


class Run:
    """A scheduler driven to the end, with everything checked at every step."""

    def __init__(self, config: SchedulerConfig, asked: list[Asked], spare_blocks: int, *, caching: bool) -> None:
        tree = ContentTree(config.block_size)
        self.asked = asked
        self.requests = [self.request(tree, number, of, config.block_size) for number, of in enumerate(asked)]
        most = max(request.prompt_tokens + request.output_tokens - 1 for request in self.requests)
        pool = BlockPool(1 - (-most // config.block_size) + spare_blocks, enable_prefix_caching=caching)
        self.scheduler = ContinuousScheduler(config, pool)
        self.tokens = dict.fromkeys(self.requests, 0)
        self.preemptions = 0

    @staticmethod
    def request(tree: ContentTree, number: int, of: Asked, block_size: int) -> Request:
        """Make a request whose content is settled beforehand, its answer included."""
        spans = [Span("shared", 0, of.shared), Span(number, 0, of.own + of.output)]
        return Request(
            f"r{number}",
            number,
            of.shared + of.own,
            of.output,
            tree.nodes(spans),
            block_size,
            priority=of.priority,
            arrival=float(number),
        )

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
                    assert request.num_blocks == 0
            self.check_state()
            step += 1

    def check_batch(self, batch: Batch) -> None:
        """Check what one step decided."""
        config = self.scheduler.config
        assert sum(entry.tokens for entry in batch.scheduled) <= config.max_num_batched_tokens
        assert len(self.scheduler.running) <= config.max_num_seqs
        assert len({entry.request for entry in batch.scheduled}) == len(batch.scheduled)
        assert not (batch.preempted and batch.admitted), "a step that preempted admits nobody"
        for request, hit, _ in batch.admitted:
            assert hit % config.block_size == 0
            assert hit < request.known_tokens, "a hit leaves at least one token to compute"
        for request, tokens, before, samples in batch.scheduled:
            assert tokens > 0
            assert request.computed_tokens == before + tokens
            assert samples == (before + tokens == request.known_tokens + request.in_flight_outputs - samples)
            self.tokens[request] += tokens
        self.preemptions += len(batch.preempted)

    def check_state(self) -> None:
        """Check what one step left behind."""
        check_integrity(self.scheduler)
        for request in self.scheduler.running:
            assert request.computed_tokens <= request.known_tokens + request.in_flight_outputs
            assert request.num_blocks * request.block_size >= request.computed_tokens
            assert request.num_registered <= request.num_blocks
        for request in self.scheduler.waiting:
            assert request.num_blocks == request.computed_tokens == 0
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
    assert sum(entry.tokens for entry in scheduler.schedule().scheduled) == 0
    assert scheduler.process(Batch()) == []
