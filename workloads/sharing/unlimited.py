"""Hits of a prefix cache that forgets nothing: of all requests together, and of each session alone.

A prompt of block ids hits its longest run of leading blocks that an earlier prompt had, `min(blocks * block_tokens,
prompt_tokens)` tokens of it; a prompt of spans hits exactly as many leading tokens as any earlier prompt shares with
it. Answers are not cached unless asked for. A front that all sessions share, beyond what ids tell, is hit from the
second session on. The last token of a prompt counts like any other, though an engine always computes it.
"""

from typing import TYPE_CHECKING, NamedTuple

from workloads.sharing.known_blocks import KnownBlocks
from workloads.sharing.prefix_tree import PrefixTree
from workloads.sharing.session_blocks import SessionBlocks
from workloads.span import Span
from workloads.traces.request import BlockIds, TraceRequest

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


class Hit(NamedTuple):
    """Leading tokens of a prompt that were there before."""

    tokens: int
    of_session: int  # of an earlier prompt of the same session; 0 without sessions


class _Last(NamedTuple):
    prompt_tokens: int
    output_tokens: int
    block_tokens: int


class UnlimitedCache:
    """What has been seen of a trace so far."""

    def __init__(self, *, answers: bool = False) -> None:
        self.block_tokens: dict[int, None] = {}  # sizes of the blocks met
        self.with_spans = self.with_ids = self.without_content = 0  # requests
        self.distinct_tokens = 0  # of prompts, behind equal prefixes
        self.answers_found = self.answers_lost = 0  # of sessions with ids: whether the next prompt may hold the answer
        self._answers = answers
        self._scopes: dict[Hashable, KnownBlocks] = {}
        self._tree = PrefixTree()
        self._of_sessions = SessionBlocks()  # of the scope that is the whole trace
        self._session_blocks: dict[tuple[str, Hashable], KnownBlocks] = {}  # of the others
        self._session_trees: dict[str, PrefixTree] = {}
        self._last: dict[str, _Last] = {}
        self._front_tokens = 0  # seen so far of the one that all sessions share

    @property
    def distinct_blocks(self) -> int:
        """Distinct block ids, over all scopes."""
        return sum(known.count for known in self._scopes.values())

    def add(self, request: TraceRequest) -> Hit:
        """Return what a request hits, and keep its prompt."""
        content = request.content
        if content is None:
            self.without_content += 1
            return Hit(0, 0)
        hit = self._ids(request, content) if isinstance(content, BlockIds) else self._spans(request, content)
        if not request.shared_tokens:
            return hit
        front = min(request.shared_tokens, self._front_tokens, request.prompt_tokens)
        self._front_tokens = max(self._front_tokens, min(request.shared_tokens, request.prompt_tokens))
        return hit if front <= hit.tokens else Hit(front, hit.of_session)

    def _ids(self, request: TraceRequest, content: BlockIds) -> Hit:
        self.with_ids += 1
        ids, block_tokens, scope = content
        prompt_tokens, session = request.prompt_tokens, request.session
        self.block_tokens[block_tokens] = None
        known = self._scopes.get(scope)
        if known is None:
            known = self._scopes[scope] = KnownBlocks()
        tokens = min(known.add(ids) * block_tokens, prompt_tokens)
        self.distinct_tokens += min(len(ids) * block_tokens, prompt_tokens) - tokens
        if session is None:
            return Hit(tokens, 0)
        of_session = min(self._of_session(session, scope, ids) * block_tokens, prompt_tokens)
        if self._answers:
            of_session = self._with_answer(request, of_session, block_tokens)
            tokens = max(tokens, of_session)
        return Hit(tokens, of_session)

    def _of_session(self, session: str, scope: "Hashable", ids: "Sequence[Hashable]") -> int:
        """Return how many leading ids a session had before."""
        if scope is None:
            return self._of_sessions.add(session, ids)
        own = self._session_blocks.get((session, scope))
        if own is None:
            own = self._session_blocks[session, scope] = KnownBlocks()
        return own.add(ids)

    def _with_answer(self, request: TraceRequest, hit: int, block_tokens: int) -> int:
        """Add the previous answer to a hit of all of its prompt, where the new prompt has grown by it at least.

        Its last token is sampled but never computed. A prompt that grew by less lost it: thinking was stripped.
        """
        session = request.session or ""
        before = self._last.get(session)
        self._last[session] = _Last(request.prompt_tokens, request.output_tokens, block_tokens)
        if before is None:
            return hit
        whole = before.prompt_tokens // before.block_tokens * before.block_tokens
        if hit < whole or request.prompt_tokens < before.prompt_tokens + before.output_tokens:
            self.answers_lost += 1
            return hit
        self.answers_found += 1
        return max(hit, before.prompt_tokens + before.output_tokens - 1)

    def _spans(self, request: TraceRequest, spans: tuple[Span, ...]) -> Hit:
        self.with_spans += 1
        before = self._tree.tokens
        tokens = min(self._tree.add(spans), request.prompt_tokens)
        self.distinct_tokens += self._tree.tokens - before
        tree = None
        of_session = 0
        if request.session is not None:
            tree = self._session_trees.get(request.session)
            if tree is None:
                tree = self._session_trees[request.session] = PrefixTree()
            of_session = min(tree.add(spans), request.prompt_tokens)
        if self._answers and request.answer is not None:
            answer = request.answer._replace(length=request.answer.length - 1)  # the last token is never computed
            self._tree.add((*spans, answer))
            if tree is not None:
                tree.add((*spans, answer))
        return Hit(tokens, of_session)
