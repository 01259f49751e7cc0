from hypothesis import given
from hypothesis import strategies as st
from plain_caches import common, points

from workloads.sharing.known_blocks import KnownBlocks
from workloads.sharing.prefix_tree import PrefixTree
from workloads.sharing.span_blocks import blocks_of, common_tokens, without_first
from workloads.sharing.unlimited import UnlimitedCache
from workloads.span import Span, joined
from workloads.traces.request import BlockIds, TraceRequest

SPANS = st.lists(st.builds(Span, st.sampled_from("xy"), st.integers(0, 4), st.integers(0, 5)), max_size=5)
PROMPTS = st.lists(SPANS, min_size=1, max_size=12)
IDS = st.lists(
    st.lists(st.one_of(st.integers(-2, 5), st.just(2**40), st.just(5000), st.text("ab", max_size=1))), max_size=9
)


@given(PROMPTS)
def test_tree_hits_equal_a_comparison_token_by_token(prompts: list[list[Span]]) -> None:
    """However the same tokens are cut into spans; and what is new adds up."""
    tree, before, known = PrefixTree(), list[list[tuple[object, int]]](), set[tuple[tuple[object, int], ...]]()
    for spans in prompts:
        tokens = points(spans)
        assert tree.add(spans) == max((common(tokens, other) for other in before), default=0)
        before.append(tokens)
        known |= {tuple(tokens[: at + 1]) for at in range(len(tokens))}
        assert tree.tokens == len(known)


@given(SPANS, SPANS, st.integers(1, 4))
def test_spans_are_cut_into_full_blocks(one: list[Span], other: list[Span], block_tokens: int) -> None:
    """Blocks hold the tokens in order, all of a size; the tail is left out."""
    spans = joined(one)
    tokens, blocks = points(spans), list(blocks_of(spans, block_tokens))
    assert [token for block in blocks for token in points(block)] == tokens[: len(blocks) * block_tokens]
    assert len(blocks) == len(tokens) // block_tokens
    same = common_tokens(spans, joined(other))
    assert same == common(tokens, points(other))
    assert points(list(without_first(spans, same))) == tokens[same:]


@given(IDS)
def test_known_blocks_are_a_set(prompts: list[list[object]]) -> None:
    """Small numbers, large ones, negative ones and text, and any of them together."""
    known, seen = KnownBlocks(), set[object]()
    for ids in prompts:
        run = next((at for at, one in enumerate(ids) if one not in seen), len(ids))
        assert known.add(ids) == run  # type: ignore[arg-type]
        seen |= set(ids)
        assert known.count == len(seen)


def _turn(prompt: int, ids: list[int], session: str | None = "s", output: int = 10, **more: object) -> TraceRequest:
    return TraceRequest(1, prompt, output, session=session, content=BlockIds(ids, 16), **more)  # type: ignore[arg-type]


def test_a_partial_last_block_is_worth_what_it_holds() -> None:
    """Ceil: the last id covers less than a block; floor: the tail has no id."""
    cache = UnlimitedCache()
    cache.add(_turn(40, [1, 2, 3], None))
    assert cache.add(_turn(40, [1, 2, 3], None)) == (40, 0)
    assert cache.add(_turn(47, [1, 2], None)) == (32, 0)
    assert (cache.distinct_tokens, cache.distinct_blocks) == (40, 3)


def test_scopes_have_nothing_in_common_but_a_front_they_are_said_to_share() -> None:
    """The second session hits the front, and not of itself."""
    cache = UnlimitedCache()
    for scope, hit in (("a", (0, 0)), ("b", (20, 0))):
        content = BlockIds([1, 2, 3], 16, scope)
        assert cache.add(TraceRequest(1, 48, 1, session=scope, content=content, shared_tokens=20)) == hit
    assert cache.distinct_blocks == 6


def test_within_a_session_and_across() -> None:
    """What another session had is a hit of all, and none of the session alone."""
    cache = UnlimitedCache()
    cache.add(_turn(32, [1, 2], "a"))
    assert cache.add(_turn(32, [1, 3], "b")) == (16, 0)
    assert cache.add(_turn(48, [1, 3, 4], "b")) == (32, 32)


def test_answers_count_only_if_asked_and_if_the_prompt_grew_by_them() -> None:
    """The last token of an answer has no KV; a prompt that grew by less has lost the answer."""
    grew, shrank = _turn(60, [1, 2, 3, 4]), _turn(45, [1, 2, 5])
    for answers, expected in ((False, (32, 32)), (True, (49, 49))):
        cache = UnlimitedCache(answers=answers)
        cache.add(_turn(40, [1, 2, 9]))
        assert cache.add(grew) == expected
    cache = UnlimitedCache(answers=True)
    cache.add(_turn(40, [1, 2, 9]))
    assert cache.add(shrank) == (32, 32)
    assert (cache.answers_found, cache.answers_lost) == (0, 1)


def test_answers_of_spans_are_cached_but_for_their_last_token() -> None:
    """The next prompt holds the answer and more."""
    first = TraceRequest(1, 10, 5, session="s", content=(Span("s", 0, 10),), answer=Span("s", 10, 5))
    second = TraceRequest(2, 20, 5, session="s", content=(Span("s", 0, 20),))
    for answers, hit in ((False, 10), (True, 14)):
        cache = UnlimitedCache(answers=answers)
        cache.add(first)
        assert cache.add(second) == (hit, hit)


def test_lengths_alone_hit_nothing() -> None:
    """And are counted."""
    cache = UnlimitedCache()
    assert cache.add(TraceRequest(1, 10, 5)) == (0, 0)
    assert cache.without_content == 1
