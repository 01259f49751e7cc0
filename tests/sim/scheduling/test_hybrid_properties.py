"""What must hold in every step of every run of a hybrid model, whatever its groups and settings."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_strategies import MOST_TOKENS, Asked, asked, configs
from strategies import cases

from sim.kv.content import ContentTree
from sim.kv.group_cache import Holding
from sim.memory.kv_groups import Keeps, KvGroup
from sim.scheduling.batch import Batch
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.hybrid import HybridScheduler, hybrid_scheduler, needs_groups
from sim.scheduling.request import Request, Status
from workloads.span import Span

ROUTER = (KvGroup(Keeps.ALL, 10, 1088), *[KvGroup(Keeps.STATE, 10, 1088, state_blocks=6)] * 3)


@st.composite
def models(draw: st.DrawFn) -> tuple[KvGroup, ...]:
    """Draw groups as models have them: windows, chunks or states beside full attention, or windows alone."""
    size = draw(st.sampled_from([1, 2, 4, 8]))
    full = KvGroup(Keeps.ALL, 1, size)
    window = KvGroup(Keeps.WINDOW, 1, draw(st.sampled_from([size, 2 * size])), draw(st.integers(2, 30)))
    chunk = KvGroup(Keeps.CHUNK, 1, size, size * draw(st.integers(1, 5)))
    state = KvGroup(Keeps.STATE, 1, size, state_blocks=draw(st.integers(2, 4)))
    few = draw(st.integers(1, 3))
    kinds = [(window,) * few, (full, *[window] * few), (full, *[state] * few), (*[state] * few, full)]
    return draw(st.sampled_from([*kinds, (full, chunk), (full, replace(window, block_size=size), state)]))


class Run:
    """A hybrid scheduler driven to the end, with everything checked at every step."""

    def __init__(
        self,
        config: SchedulerConfig,
        groups: Sequence[KvGroup],
        asked: list[Asked],
        spare_blocks: int,
        *,
        caching: bool,
        interval: int | None,
    ) -> None:
        def of(blocks: int) -> HybridScheduler:
            return hybrid_scheduler(
                config,
                groups,
                blocks,
                enable_prefix_caching=caching,
                prefix_cache_retention_interval=interval,
            )

        most = max(one.shared + one.own + one.output - 1 for one in asked)
        self.groups = groups
        self.asked = asked
        self.scheduler = of(1 + of(2).cache.most_blocks(most) + spare_blocks)
        tree = ContentTree(self.scheduler.config.block_size)
        self.requests = [one.request(tree, number) for number, one in enumerate(asked)]
        self.preemptions = 0

    def go(self) -> None:
        """Step until nothing is left."""
        in_flight: deque[Batch] = deque()
        scheduler = self.scheduler
        total = sum(request.prompt_tokens + request.output_tokens for request in self.requests)
        most_steps = 60 + 2 * total * (len(self.requests) + 1)
        step = 0
        while step <= 20 or scheduler.has_requests:
            assert step < most_steps, "no progress"
            for request, of in zip(self.requests, self.asked, strict=True):
                if of.step == step:
                    scheduler.add(request)
            assert scheduler.quiet_steps() == 0
            batch = scheduler.schedule()
            self.check(batch)
            in_flight.append(batch)
            if not scheduler.config.async_scheduling or len(in_flight) == 2:
                scheduler.process(in_flight.popleft())
            scheduler.check_blocks()
            step += 1
        assert scheduler.pool.num_free == scheduler.pool.usable_blocks

    def check(self, batch: Batch) -> None:
        """Check what one step decided."""
        scheduler, cache = self.scheduler, self.scheduler.cache
        scheduler.check_blocks()
        self.preemptions += len(batch.preempted)
        assert sum(entry.tokens for entry in batch.scheduled) <= scheduler.config.max_num_batched_tokens
        for admission in batch.admitted:
            assert admission.hit_tokens % cache.rules.hit_tokens == 0
            assert admission.hit_tokens < admission.request.known_tokens
        for request in scheduler.running:
            holding = scheduler.holding_of(request)
            assert holding is not None
            self.check_tables(request, holding)
        for request in scheduler.waiting:
            waiting = scheduler.holding_of(request)
            assert waiting is None or not any(row for table in waiting.tables for row in table.rows)

    def check_tables(self, request: Request, holding: Holding) -> None:
        """Check that a request has what its next token looks at, and no more than is reserved for it."""
        computed = request.computed_tokens
        for kind, table in zip(self.scheduler.cache.kinds, holding.tables, strict=True):
            assert len({tuple(block > 0 for block in row) for row in table.rows}) == 1, "rows out of step"
            row = table.rows[0]
            held = sum(block > 0 for block in row)
            assert held * len(table.rows) <= kind.most_blocks(self.scheduler.config.max_model_len)
            if kind.group.keeps is Keeps.STATE:
                assert row[-1 - kind.scratch], "no running state"  # type: ignore[attr-defined]
                continue
            first = kind.skipped_tokens(computed) // kind.size
            assert all(row[first : -(-computed // kind.size)]), "a block that is looked at is gone"


@settings(max_examples=cases(400))
@given(
    config=configs,
    groups=models(),
    asked=st.lists(asked, min_size=1, max_size=9),
    spare_blocks=st.integers(0, 12),
    caching=st.sampled_from([True, True, False]),
    interval=st.sampled_from([0, 0, None, 1, 3]),
)
def test_every_request_that_fits_finishes(  # noqa: PLR0917
    config: SchedulerConfig,
    groups: tuple[KvGroup, ...],
    asked: list[Asked],
    spare_blocks: int,
    caching: bool,  # noqa: FBT001
    interval: int | None,
) -> None:
    """Blocks are conserved, shared by content alone, windows stay within their reserve, hits hold in every group."""
    if interval:
        interval *= 2 * max(group.block_size for group in groups)
    run = Run(config, groups, asked, spare_blocks, caching=caching, interval=interval)
    assert all(run.scheduler.can_ever_fit(one.prompt_tokens, one.output_tokens) for one in run.requests)
    run.go()
    for request in run.requests:
        assert request.status is Status.FINISHED
        assert request.generated_tokens == request.output_tokens


@given(groups=models(), shared=st.integers(1, 80), seed=st.integers(0, 5))
def test_the_hit_is_the_longest_that_holds_in_every_group(groups: tuple[KvGroup, ...], shared: int, seed: int) -> None:
    """Every multiple of the common block size that all groups have, tried one by one."""
    config = SchedulerConfig(max_num_batched_tokens=17 + seed, max_model_len=MOST_TOKENS + 1)
    run = Run(config, groups, [Asked(shared, 5, 3, 0, 0), Asked(shared // 2, 9, 3, 4, 0)], 40, caching=True, interval=0)
    run.go()
    cache = run.scheduler.cache
    tree_request = run.requests[0]
    prefix = cache.holding(tree_request.content, tree_request.prompt_tokens).prefix

    def holds(tokens: int) -> bool:
        return all(
            kind.is_cached(prefix, place)
            for kind in cache.kinds
            for place in range(kind.skipped_tokens(tokens) // kind.size, tokens // kind.size)
        )

    limit = tree_request.prompt_tokens - 1
    align = cache.rules.hit_tokens
    longest = max(tokens for tokens in range(0, limit + 1, align) if holds(tokens))
    assert cache.longest_hit(prefix, limit)[0] == longest


@pytest.mark.parametrize(("requests", "gauge"), [(8, 0.1912), (32, 0.7648)])
@pytest.mark.parametrize("caching", [False, True])
def test_the_router_s_gauge_is_a_slot_meter(requests: int, gauge: float, *, caching: bool) -> None:
    """8 requests 19.12 % and 32 requests 76.48 %, as vLLM's own metrics said, whatever they ask."""
    groups = ROUTER if not caching else tuple(replace(one, state_blocks=7 * (one.state_blocks > 0)) for one in ROUTER)
    config = SchedulerConfig(max_num_batched_tokens=4096, max_num_seqs=128, max_model_len=262_144)
    scheduler = hybrid_scheduler(config, groups, 796, enable_prefix_caching=caching)
    tree = ContentTree(scheduler.config.block_size)
    for number in range(requests):
        spans = [Span(f"own {number}", 0, 120)]
        scheduler.add(Request(str(number), number, 90, 30, tree.content(spans), arrival=float(number)))
    scheduler.process(scheduler.schedule())
    scheduler.process(scheduler.schedule())
    assert scheduler.pool.usage == pytest.approx(gauge, abs=5e-5)


def test_state_slots_bound_the_running_sequences_before_max_num_seqs() -> None:
    """795 usable blocks, 19 a sequence."""
    config = SchedulerConfig(max_num_batched_tokens=8192, max_num_seqs=128, max_model_len=262_144)
    for apart, running in ((False, 41), (True, 60)):
        scheduler = hybrid_scheduler(config, ROUTER, 796, enable_prefix_caching=False, states_apart=apart)
        for number in range(60):
            scheduler.add(Request(str(number), number, 90, 30, (), arrival=float(number)))
        scheduler.process(scheduler.schedule())
        assert (len(scheduler.running), len(scheduler.waiting)) == (running, 60 - running)


def test_what_can_ever_fit_counts_all_groups() -> None:
    """10 blocks of 4 tokens: a window of 5 with 4 in flight takes at most 3, so that full attention has 7 at least."""
    groups = (KvGroup(Keeps.ALL, 1, 4), KvGroup(Keeps.WINDOW, 1, 4, 5))
    scheduler = hybrid_scheduler(SchedulerConfig(max_num_batched_tokens=4, max_model_len=100), groups, 11)
    assert scheduler.can_ever_fit(20, 9)  # 28 tokens with KV: 7 + 3
    assert not scheduler.can_ever_fit(20, 10)
    assert not hybrid_scheduler(SchedulerConfig(max_num_batched_tokens=8, max_model_len=100), groups, 11).can_ever_fit(
        20, 9
    )


def test_one_group_that_keeps_everything_needs_no_other_scheduler() -> None:
    """None given, or one; a window alone does need it."""
    full, window = KvGroup(Keeps.ALL, 1, 16), KvGroup(Keeps.WINDOW, 1, 16, 128)
    assert not needs_groups(())
    assert not needs_groups((full,))
    assert needs_groups((window,))
    assert needs_groups((full, full))
