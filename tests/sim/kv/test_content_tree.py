"""Two prompts share a block's place in a chain exactly if all tokens up to its end agree."""

from hypothesis import given
from hypothesis import strategies as st
from strategies import spans, tokens_of

from sim.kv.content import Chain, Content, ContentTree
from workloads.span import Span

Place = tuple[Chain, int]


def places(content: Content) -> list[Place]:
    """Return every block's chain and its place there."""
    return [(chain, block) for chain, blocks in content for block in range(blocks)]


class SpelledOut:
    """Names of blocks by every token up to their end, spelled out."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.place_of: dict[tuple[object, ...], Place] = {}
        self.key_of: dict[Place, tuple[object, ...]] = {}

    def check(self, prompt: list[Span] | tuple[Span, ...], found: list[Place]) -> None:
        """Compare with everything seen so far: same tokens, same place, and no place for two contents."""
        tokens = tokens_of(prompt)
        assert len(found) == len(tokens) // self.block_size
        for index, place in enumerate(found, start=1):
            key = tuple(tokens[: index * self.block_size])
            assert self.place_of.setdefault(key, place) == place
            assert self.key_of.setdefault(place, key) == key


@given(block_size=st.integers(1, 9), prompts=st.lists(spans(), max_size=12))
def test_places_are_shared_exactly_as_far_as_tokens_agree(block_size: int, prompts: list[list[Span]]) -> None:
    """Random spans on few lines, cut anywhere: within a block, across spans, with empty ones between."""
    tree, spelled = ContentTree(block_size), SpelledOut(block_size)
    for prompt in prompts:
        spelled.check(prompt, places(tree.content(prompt)))


@given(
    block_size=st.integers(1, 9),
    turns=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20), st.booleans()), max_size=20),
)
def test_growing_sessions_keep_their_places(block_size: int, turns: list[tuple[int, int, bool]]) -> None:
    """Sessions grow from one shared prefix, or part again after a common turn, and stay prefixes of themselves."""
    tree, spelled = ContentTree(block_size), SpelledOut(block_size)
    sessions: list[list[Span]] = [[Span("shared", 0, 13)] for _ in range(4)]
    for which, length, common in turns:
        before = places(tree.content(sessions[which]))
        own = sum(span.length for span in sessions[which])
        sessions[which].append(Span("common" if common else which, own, length))
        after = places(tree.content(sessions[which]))
        assert after[: len(before)] == before
        spelled.check(sessions[which], after)


@given(spans(), st.integers(1, 9), st.data())
def test_how_a_prompt_is_cut_into_spans_does_not_matter(
    prompt: list[Span], block_size: int, data: st.DataObject
) -> None:
    """The same tokens in more spans, or one by one, have the same places."""
    tree = ContentTree(block_size)
    whole = tree.content(prompt)
    pieces: list[Span] = []
    for content, start, length in prompt:
        cut = data.draw(st.integers(0, length))
        pieces += [Span(content, start, cut), Span(content, start + cut, length - cut)]
    assert tree.content(pieces) == whole
    assert tree.content([Span(*token, 1) for token in tokens_of(prompt)]) == whole


def test_a_stretch_inside_one_span_is_one_chain() -> None:
    """Nothing is done token by token: a million tokens are one look-up, and so are the first half of them."""
    tree = ContentTree(16)
    ((chain, blocks),) = tree.content([Span("a", 0, 1_600_000)])
    assert blocks == 100_000
    assert tree.content([Span("a", 0, 800_000)]) == ((chain, 50_000),)
    assert len(tree._chains) == 1


def test_a_partial_last_block_has_no_content() -> None:
    """And an empty prompt none at all."""
    tree = ContentTree(16)
    assert tree.content([Span("a", 0, 15)]) == ()
    assert len(places(tree.content([Span("a", 0, 31)]))) == 1
    assert tree.content([]) == ()
