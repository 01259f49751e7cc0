import numpy as np
import pytest
from block_trees import BLOCK_TOKENS, paths_of, prompts
from hypothesis import given
from hypothesis import strategies as st
from plain_caches import Prompts, idle_hits, lru_hits, most_block_hits

from workloads.sharing.block_paths import as_tree
from workloads.sharing.kept import kept_curve
from workloads.sharing.lru import lru_curve
from workloads.sharing.optimum import next_uses, optimum_hits

UNLIMITED = 10**9


@given(prompts(), st.integers(0, BLOCK_TOKENS - 1), st.integers(1, 12), st.integers(0, 5))
def test_lru_of_all_sizes_equals_a_cache_of_each(paths: Prompts, lacking: int, size: int, first: int) -> None:
    """Stack distances tell, to the token, what a cache that evicts block by block hits."""
    known = paths_of(paths, lacking)
    hits = lru_hits(paths, size)
    plain = sum(known.hit_tokens(request, hit) for request, hit in enumerate(hits) if request >= first)
    assert lru_curve(known, measured_from=first).at(size) == plain


@given(prompts(most=7, deepest=4), st.integers(1, 5))
def test_the_optimum_is_the_best_of_all_ways_to_keep_blocks(paths: Prompts, size: int) -> None:
    """No choice of what to keep between requests hits more blocks."""
    known = paths_of(paths)
    assert optimum_hits(known, next_uses(known), size) == BLOCK_TOKENS * most_block_hits(paths, size)


@given(prompts(), st.integers(0, BLOCK_TOKENS - 1))
def test_curves_ascend_and_lru_never_beats_the_optimum(paths: Prompts, lacking: int) -> None:
    """More cache hits no less, and no cache hits more than an unlimited one, which both become."""
    known = paths_of(paths, lacking)
    lru, uses = lru_curve(known), next_uses(known)
    sizes = range(1, known.count + 2)
    best = [optimum_hits(known, uses, size) for size in sizes]
    plain = [lru.at(size) for size in sizes]
    assert plain == sorted(plain)
    assert best == sorted(best)
    assert best[-1] == plain[-1] == lru.at(UNLIMITED)
    if not lacking:  # a partial block is worth less, which the optimum in blocks does not look at
        assert all(one <= other for one, other in zip(plain, best, strict=True))


@given(
    prompts(), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=25, max_size=25), st.integers(0, 30)
)
def test_time_kept_equals_blocks_that_expire(paths: Prompts, steps: list[tuple[int, int]], kept_s: int) -> None:
    """Content is there for so long after the last request that had it, whoever that was."""
    begin_s = np.cumsum([gap for gap, _ in steps])[: len(paths)].astype(float).tolist()
    end_s = [begin + api for begin, (_, api) in zip(begin_s, steps, strict=False)]
    known = paths_of(paths, 0, list(zip(begin_s, end_s, strict=True)))
    hits = idle_hits(paths, begin_s, end_s, kept_s)
    assert kept_curve(known).at(kept_s) == sum(BLOCK_TOKENS * hit for hit in hits)


def test_half_life_is_the_time_for_half_of_what_comes_back() -> None:
    """One of three comes back after 10 s, another after 100 s."""
    curve = kept_curve(paths_of([[0], [0], [0]], 0, [(0.0, 0.0), (10.0, 10.0), (110.0, 110.0)]))
    assert curve.time_for(0.5) == pytest.approx(10)
    assert curve.time_for(1.0) == pytest.approx(100)
    assert kept_curve(paths_of([[0]], 0, [(0.0, 0.0)])).time_for(0.5) is None


@given(st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=10))
def test_ids_that_follow_different_ids_stand_for_several_blocks(paths: Prompts) -> None:
    """Two blocks are one exactly if all before them agree, too."""
    starts = np.cumsum([0, *map(len, paths)])
    blocks, count = as_tree(np.array([block for path in paths for block in path], np.int32), 4, starts)
    prefixes = [tuple(path[: at + 1]) for path in paths for at in range(len(path))]
    numbers = blocks.tolist()
    assert all(
        (prefixes[a] == prefixes[b]) == (numbers[a] == numbers[b]) for a in range(len(numbers)) for b in range(a)
    )
    assert count >= len(set(numbers))
