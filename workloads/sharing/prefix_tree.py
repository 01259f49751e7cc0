"""A tree of prompts made of spans, exact to the token: how much of a prompt was there before, and how much is new.

An edge is one span. Edges of a node differ in where they start, so two that start alike agree as far as the shorter
one goes, and a prompt that ends or leaves inside an edge splits it.
"""

from collections.abc import Hashable, Iterable

from workloads.span import Span


class _Node:
    __slots__ = ("edges",)

    def __init__(self) -> None:
        self.edges: dict[tuple[Hashable, int], tuple[int, _Node]] = {}  # by content and start: length, what follows


class PrefixTree:
    """All prompts so far."""

    __slots__ = ("_root", "tokens")

    def __init__(self) -> None:
        self._root = _Node()
        self.tokens = 0  # distinct ones: of equal content behind an equal prefix

    def add(self, spans: Iterable[Span]) -> int:
        """Return how many leading tokens were there before, and add the rest."""
        node, known, new = self._root, 0, 0
        for content, begin, length in spans:
            start, left = begin, length
            while left > 0:
                edge = node.edges.get((content, start))
                if edge is None:
                    beyond = _Node()
                    node.edges[content, start] = (left, beyond)
                    new += left
                    node, left = beyond, 0
                    continue
                edge_length, beyond = edge
                if edge_length > left:
                    beyond = _split(node, content, start, left)
                    edge_length = left
                if not new:
                    known += edge_length
                node, start, left = beyond, start + edge_length, left - edge_length
        self.tokens += new
        return known


def _split(node: _Node, content: Hashable, start: int, at: int) -> _Node:
    """Put a node into an edge, `at` tokens behind its start, and return it."""
    length, beyond = node.edges[content, start]
    middle = _Node()
    middle.edges[content, start + at] = (length - at, beyond)
    node.edges[content, start] = (at, middle)
    return middle
