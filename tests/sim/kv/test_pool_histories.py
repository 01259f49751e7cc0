"""Any history gives the same hits, blocks, evictions and losses in four pools: ours twice, a plain and a slow one."""

import random

import pytest
from four_pools import FourPools, Prompt
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import cases

from workloads.span import Span

pieces = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6)), max_size=3)
moves = st.one_of(
    st.tuples(st.just("admit"), pieces, st.one_of(st.none(), st.integers(0, 6)), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("release"), st.integers(0, 99)),
    st.tuples(st.just("take"), st.integers(0, 99), st.integers(1, 3)),
    st.tuples(st.just("register"), st.integers(0, 99), st.integers(1, 4)),
    st.tuples(st.just("each"), st.lists(st.integers(0, 99), max_size=6)),
)


def spelled(parts: list[tuple[str, int]]) -> Prompt:
    """Return a prompt of prefixes of lines."""
    return tuple(Span(name, 0, length) for name, length in parts)


@settings(max_examples=cases(600))
@given(
    num_gpu_blocks=st.integers(2, 24),
    caching=st.sampled_from([True, True, True, False]),
    block_size=st.integers(1, 3),
    history=st.lists(moves, max_size=40),
    order=st.randoms(use_true_random=False),
)
def test_any_history_is_that_of_the_slow_pool(
    num_gpu_blocks: int, *, caching: bool, block_size: int, history: list[tuple], order: random.Random
) -> None:
    """Hits cut short, contents computed twice, growth one by one and in turns, late registration, releases."""
    pools = FourPools(num_gpu_blocks, caching=caching, block_size=block_size)
    for taker, (move, *how) in enumerate(history):
        if move == "admit":
            parts, limit, beyond, register = how
            pools.admit(spelled(parts), limit=limit, beyond=beyond, register=register, taker=taker)
        elif pools.held and move == "each":
            chosen = [(pools.held[which % len(pools.held)], taker + which) for which in how[0]]
            pools.take_each(chosen[: pools.num_free])
        elif pools.held:
            held = pools.held[how[0] % len(pools.held)]
            if move == "take":
                pools.take(held, min(how[1], pools.num_free), taker)
            elif move == "register":
                pools.register(held, held.registered + how[1])
            else:
                pools.release(held)
    while pools.held:
        pools.release(order.choice(pools.held))
    pools.drain()


@pytest.mark.parametrize("seed", range(2))
def test_long_histories_of_few_prompts(seed: int) -> None:
    """Prompts that part and meet again in a pool of a few of them: thousands of evictions, splits and merges."""
    rng = random.Random(seed)
    pools = FourPools(200)
    for taker in range(250):
        parts = [(rng.choice("ab"), rng.choice([20, 35])), (rng.choice("cde"), rng.randint(5, 40))]
        limit = rng.choice([None, None, None, 0, rng.randint(0, 60)])
        held = pools.admit(spelled(parts), limit=limit, beyond=rng.randint(0, 2), taker=taker)
        while pools.held and (held is None or len(pools.held) > 3 or rng.random() < 0.5):
            pools.release(rng.choice(pools.held))
            held = pools.held[-1] if pools.held else None
    assert pools.slow.evicted > 1000
    while pools.held:
        pools.release(pools.held[-1])
    pools.drain()
