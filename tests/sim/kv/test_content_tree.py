"""Two prompts share the node of a block exactly if all tokens up to its end agree."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import spans, tokens_of

from sim.kv.content import ContentTree
from workloads.span import Span


class SpelledOut:
    """Names of blocks by every token up to their end, spelled out."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.node_of: dict[tuple[object, ...], int] = {}
        self.key_of: dict[int, tuple[object, ...]] = {}

    def check(self, prompt: list[Span] | tuple[Span, ...], nodes: list[int]) -> None:
        """Compare with everything seen so far: same tokens, same node, and no node for two contents."""
        tokens = tokens_of(prompt)
        assert len(nodes) == len(tokens) // self.block_size
        for index, node in enumerate(nodes, start=1):
            key = tuple(tokens[: index * self.block_size])
            assert node > 0
            assert self.node_of.setdefault(key, node) == node
            assert self.key_of.setdefault(node, key) == key


@given(block_size=st.integers(1, 9), prompts=st.lists(spans(), max_size=12))
def test_nodes_are_shared_exactly_as_far_as_tokens_agree(block_size: int, prompts: list[list[Span]]) -> None:
    """Random spans on few lines, cut anywhere: within a block, across spans, with empty ones between."""
    tree, spelled = ContentTree(block_size), SpelledOut(block_size)
    for prompt in prompts:
        spelled.check(prompt, tree.nodes(prompt).tolist())


@given(
    block_size=st.integers(1, 9),
    turns=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20), st.booleans()), max_size=20),
)
def test_growing_sessions_keep_their_nodes(block_size: int, turns: list[tuple[int, int, bool]]) -> None:
    """Sessions grow from one shared prefix, or part again after a common turn, and stay prefixes of themselves."""
    tree, spelled = ContentTree(block_size), SpelledOut(block_size)
    sessions: list[list[Span]] = [[Span("shared", 0, 13)] for _ in range(4)]
    for which, length, common in turns:
        before = tree.nodes(sessions[which]).tolist()
        own = sum(span.length for span in sessions[which])
        sessions[which].append(Span("common" if common else which, own, length))
        after = tree.nodes(sessions[which]).tolist()
        assert after[: len(before)] == before
        spelled.check(sessions[which], after)


@given(spans(), st.integers(1, 9), st.data())
def test_how_a_prompt_is_cut_into_spans_does_not_matter(
    prompt: list[Span], block_size: int, data: st.DataObject
) -> None:
    """The same tokens in more spans, or one by one, have the same nodes."""
    tree = ContentTree(block_size)
    nodes = tree.nodes(prompt).tolist()
    pieces: list[Span] = []
    for content, start, length in prompt:
        cut = data.draw(st.integers(0, length))
        pieces += [Span(content, start, cut), Span(content, start + cut, length - cut)]
    assert tree.nodes(pieces).tolist() == nodes
    assert tree.nodes([Span(*token, 1) for token in tokens_of(prompt)]).tolist() == nodes


def test_a_stretch_inside_one_span_is_one_run_of_numbers() -> None:
    """Nothing is done token by token: a million tokens are one look-up and consecutive nodes."""
    tree = ContentTree(16)
    nodes = tree.nodes([Span("a", 0, 1_600_000)])
    assert (np.diff(nodes) == 1).all()
    assert len(tree._runs) == 1


def test_a_partial_last_block_has_no_node() -> None:
    """And an empty prompt none at all."""
    tree = ContentTree(16)
    assert len(tree.nodes([Span("a", 0, 15)])) == 0
    assert len(tree.nodes([Span("a", 0, 31)])) == 1
    assert len(tree.nodes([])) == 0
