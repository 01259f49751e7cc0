"""Sessions in the format of WEKA's kv-cache-tester: an object each, with pauses, server times and subagents.

Ids are of full blocks and mean something inside one session only. What sessions share is told by a number:
`system_tokens` at the front of every prompt.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from workloads.export.blocks import BlockNames
from workloads.export.conversation import Conversation, flattened
from workloads.export.summary import Summary
from workloads.span import Span, total_tokens
from workloads.traces.content_lines import common_front
from workloads.traces.request import HUMAN, TOOL, BlockIds, TraceRequest
from workloads.traces.shared_content import FRONTS

BLOCK_TOKENS = 64
_DIGITS = 6  # of a second


def weka_sessions(
    sessions: Iterable[Conversation],
    summary: Summary,
    *,
    model: str,
    shared_tokens: int,
    block_tokens: int,
    clock: bool,
) -> Iterator[dict[str, Any]]:
    """Yield an object a session; `shared_tokens` are in front of every prompt beside what the requests tell.

    `clock`: times of all sessions, subagents too, count from one start.
    """
    for session in sessions:
        first = session.turns[0]
        start_s = first.at_s if clock else None
        scope = _Scope(BlockNames(block_tokens, 1, partial=False), summary, model, start_s)
        yield {
            "id": session.name,
            "models": [model],
            "block_size": block_tokens,
            "hash_id_scope": "local",
            "tool_tokens": 0,
            "system_tokens": first.shared_tokens or shared_tokens,
            "requests": list(scope.requests(session)),
        }


def tell_fronts(sessions: Iterable[Conversation], prefix: tuple[Span, ...]) -> None:
    """Say in the first request of each session how much of the front that all may share it holds.

    Subagents share a front of their own, as far as the trace they were recorded in names one.
    """
    for session in flattened(sessions):
        first = session.turns[0]
        spans = first.content
        if not isinstance(spans, BlockIds) and spans:
            shared = spans[:1] if spans[0].content in FRONTS else common_front(spans, prefix)
            session.turns[0] = first._replace(shared_tokens=total_tokens(shared))


@dataclass(frozen=True, slots=True)
class _Scope:
    """One session with its subagents: ids count within it, and times from its start."""

    names: BlockNames
    summary: Summary
    model: str
    start_s: float | None  # on the clock that all sessions share, if they do

    def requests(self, session: Conversation, began_s: float = 0.0) -> Iterator[dict[str, Any]]:
        """Yield the turns in order, subagents before the turn that waits for them."""
        children = sorted(session.children, key=lambda one: one.after)
        first_s = session.turns[0].at_s
        origin_s = self.start_s if self.start_s is not None or first_s is None else first_s - began_s
        now_s = began_s  # when the answer before was over, as far as that is known
        for number, request in enumerate(session.turns):
            while children and children[0].after <= number:
                yield self._subagent(children.pop(0), session, now_s)
            think_s = session.think_s(number)
            known = request.at_s is not None and origin_s is not None
            at_s = (request.at_s or 0.0) - (origin_s or 0.0) if known else now_s + (think_s or 0.0)
            if not known and request.api_s is None:
                self.summary.note("t counts pauses alone, for nobody knows how long answers took: go by think_time")
            yield self._request(request, at_s, think_s)
            now_s = at_s + (request.api_s or 0.0)
        for child in children:
            yield self._subagent(child, session, now_s)

    def _request(self, request: TraceRequest, at_s: float, think_s: float | None) -> dict[str, Any]:
        # Ids are local, so the front that other sessions share needs none of its own.
        ids, hit_tokens = self.names.of(request._replace(shared_tokens=0))
        self.summary.add(request, hit_tokens)
        driven = {HUMAN: ["text"], TOOL: ["tool_result"]}
        found: dict[str, Any] = {
            "t": round(max(at_s, 0.0), _DIGITS),
            "type": "s",
            "model": self.model,
            "in": request.prompt_tokens,
            "out": request.output_tokens,
            "hash_ids": ids,
            "input_types": driven.get(request.driver or "", []),
            "output_types": ["text"],
            "stop": "",
        }
        for name, value_s in (("api_time", request.api_s), ("think_time", think_s)):
            if value_s is not None:
                found[name] = round(value_s, _DIGITS)
        return found

    def _subagent(self, child: Conversation, parent: Conversation, at_s: float) -> dict[str, Any]:
        requests = list(self.requests(child, at_s))
        first, last = requests[0], requests[-1]
        ended_s = last["t"] + last.get("api_time", 0.0)
        return {
            "t": first["t"],
            "type": "subagent",
            "agent_id": child.name.removeprefix(f"{parent.name}/"),
            "subagent_type": "unknown",
            "duration_ms": round((ended_s - first["t"]) * 1e3),
            "total_tokens": sum(one.prompt_tokens + one.output_tokens for one in child.turns),
            "tool_use_count": len(child.turns) - 1,
            "status": "completed",
            "models": [self.model],
            "tool_tokens": 0,
            "system_tokens": child.turns[0].shared_tokens,
            "requests": requests,
        }
