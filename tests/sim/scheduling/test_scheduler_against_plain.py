"""The scheduler with its decode group decides as the one that walks every request, step by step and in leaps."""

from collections import Counter

from both_schedulers import BothSchedulers, Manner
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_strategies import Asked, asked, configs
from strategies import cases

from sim.scheduling.continuous import SchedulerConfig

shares = st.sampled_from([0.0, 0.3, 1.0])


@st.composite
def driven(draw: st.DrawFn) -> tuple[SchedulerConfig, list[Asked], Manner]:
    """Draw requests that all fit a pool with little to spare, and how two schedulers are driven."""
    config = draw(configs)
    several = draw(st.lists(asked, min_size=1, max_size=9))
    most_tokens = max(of.shared + of.own + of.output - 1 for of in several)
    manner = Manner(
        1 - (-most_tokens // config.block_size) + draw(st.integers(0, 12)),
        caching=draw(st.sampled_from([True, True, False])),
        numbered=draw(st.sampled_from([False, False, False, True])),
        leaps=draw(shares),
        settles=draw(shares),
        aborts=draw(st.sampled_from([0.0, 0.0, 0.4])),
        seed=draw(st.integers(0, 2**32 - 1)),
    )
    return config, several, manner


def go(config: SchedulerConfig, several: list[Asked], manner: Manner) -> BothSchedulers:
    """Step to the end; twice all tokens a request is more than progress takes."""
    both = BothSchedulers(config, several, manner)
    total = sum(request.prompt_tokens + request.output_tokens for request in both.requests)
    both.go(60 + 2 * total * (len(both.requests) + 1))
    return both


@settings(max_examples=cases(800))
@given(driven())
def test_group_and_leaps_decide_as_the_plain_scheduler(case: tuple[SchedulerConfig, list[Asked], Manner]) -> None:
    """Sync and async, both policies, tiny pools, duplicates, aborts; what is put off is caught up with exactly."""
    go(*case)


def test_the_cases_reach_what_is_hard() -> None:
    """Half of all steps are taken ahead, and many cases preempt, evict and grow a group of several."""
    seen: Counter[str] = Counter()

    @settings(max_examples=200)
    @given(driven())
    def count(case: tuple[SchedulerConfig, list[Asked], Manner]) -> None:
        both = go(*case)
        seen["steps"] += both.step
        seen["ahead"] += both.steps_taken_ahead
        seen["preempting"] += both.preemptions > 0
        seen["preempting async"] += both.preemptions > 0 and both.config.async_scheduling
        seen["evicting"] += both.plain.pool.num_evicted > 0
        seen["leaping and evicting"] += both.plain.pool.num_evicted > 0 and both.steps_taken_ahead > 0

    count()
    assert seen["ahead"] > seen["steps"] / 8, seen
    assert min(seen[name] for name in ("preempting", "preempting async", "evicting", "leaping and evicting")) > 10, seen


def test_a_lone_decode_is_one_leap() -> None:
    """Of 60 steps only the first few and the last are decided one by one; nothing tells the two ways apart."""
    for async_scheduling in (False, True):
        config = SchedulerConfig(block_size=4, max_model_len=200, async_scheduling=async_scheduling)
        both = go(config, [Asked(0, 10, 60, 0, 0)], Manner(100, leaps=1.0))
        assert both.step - both.steps_taken_ahead <= 4
        assert both.requests[0].token_steps == [1, 60]
