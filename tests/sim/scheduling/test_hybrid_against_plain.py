"""With one group that keeps every token, the scheduler of several groups decides as the plain one: block for block."""

from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest
from both_schedulers import BothSchedulers, Manner
from hypothesis import given, settings
from plain.request import Request as PlainRequest
from scheduler_strategies import Asked
from strategies import cases
from test_recorded_decisions import RECORDINGS, assert_same_decisions, parametrised
from test_scheduler_against_plain import driven

from sim.kv.block_pool import BlockPool
from sim.memory.kv_groups import Keeps, KvGroup
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.hybrid import HybridScheduler, hybrid_scheduler
from sim.scheduling.request import Request


def one_group(config: SchedulerConfig) -> tuple[KvGroup, ...]:
    """Return the groups of a model whose layers all keep every token."""
    return (KvGroup(Keeps.ALL, 1, config.block_size),)


class HybridAndPlain(BothSchedulers):
    """The scheduler of several groups where there is one, beside the plain one."""

    ours: HybridScheduler

    def scheduler(self) -> HybridScheduler:
        """Return the scheduler to compare with the plain one."""
        caching = self.manner.caching
        groups = one_group(self.config)
        return hybrid_scheduler(self.config, groups, self.manner.num_gpu_blocks, enable_prefix_caching=caching)

    def compare_blocks(self, request: Request, twin: PlainRequest) -> None:
        """Compare what a request holds, by number."""
        holding = self.ours.holding_of(request)
        rows = [] if holding is None else holding.tables[0].rows[0]
        assert rows == twin.blocks.tolist()
        assert self.manner.caching is False or holding is None or holding.tables[0].registered == twin.num_registered

    def check(self) -> None:
        """Raise AssertionError unless blocks add up."""
        self.ours.check_blocks()


@settings(max_examples=cases(800))
@given(driven())
def test_one_group_decides_as_the_plain_scheduler(case: tuple[SchedulerConfig, list[Asked], Manner]) -> None:
    """Sync and async, both policies, tiny pools, duplicates, aborts; block numbers included."""
    config, several, manner = case
    both = HybridAndPlain(config, several, replace(manner, settles=1.0))
    total = sum(request.prompt_tokens + request.output_tokens for request in both.requests)
    both.go(60 + 2 * total * (len(both.requests) + 1))
    assert not both.steps_taken_ahead


def test_the_cases_reach_what_is_hard() -> None:
    """Many cases preempt and evict."""
    seen: Counter[str] = Counter()

    @settings(max_examples=100)
    @given(driven())
    def count(case: tuple[SchedulerConfig, list[Asked], Manner]) -> None:
        both = HybridAndPlain(*case)
        both.go(100_000)
        seen["preempting"] += both.preemptions > 0
        seen["evicting"] += both.plain.pool.num_evicted > 0

    count()
    assert min(seen["preempting"], seen["evicting"]) > 10, seen


@pytest.mark.parametrize("path", parametrised(RECORDINGS))
def test_recorded_vllm_decisions_are_reproduced_by_one_group(path) -> None:  # noqa: ANN001
    """Each of vLLM 0.32.0's recordings, through the scheduler of several groups."""

    def scheduler(config: SchedulerConfig, pool: BlockPool) -> HybridScheduler:
        caching = pool.enable_prefix_caching
        return hybrid_scheduler(config, one_group(config), pool.num_gpu_blocks, enable_prefix_caching=caching)

    with patch("sim.scheduling.replay.ContinuousScheduler", scheduler):
        assert_same_decisions(path, numbered=False)
