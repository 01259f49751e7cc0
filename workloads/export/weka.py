"""Sessions in the format of WEKA's kv-cache-tester: an object each, with pauses, server times and subagents.

Ids are of full blocks and mean something inside one session only. What sessions share is told by a number:
`system_tokens` at the front of every prompt.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from workloads.export.blocks import BlockNames
from workloads.export.conversation import Conversation
from workloads.export.summary import Summary
from workloads.traces.request import HUMAN, TOOL, TraceRequest

BLOCK_TOKENS = 64
_DIGITS = 6  # of a second


def weka_sessions(
    sessions: Iterable[Conversation], summary: Summary, *, model: str, shared_tokens: int, block_tokens: int
) -> Iterator[dict[str, Any]]:
    """Yield an object a session; `shared_tokens` are in front of every prompt beside what the requests tell."""
    for number, session in enumerate(sessions, 1):
        first = session.turns[0]
        scope = _Scope(BlockNames(block_tokens, 1, partial=False), summary, model, first.at_s)
        yield {
            "id": session.name if first.file is None else f"trace_{number:04d}",
            "models": [model],
            "block_size": block_tokens,
            "hash_id_scope": "local",
            "tool_tokens": 0,
            "system_tokens": first.shared_tokens or shared_tokens,
            "requests": list(scope.requests(session)),
        }


@dataclass(frozen=True, slots=True)
class _Scope:
    """One session with its subagents: ids and times count within it."""

    names: BlockNames
    summary: Summary
    model: str
    start_s: float | None  # on the trace's clock

    def requests(self, session: Conversation, began_s: float = 0.0) -> Iterator[dict[str, Any]]:
        """Yield the turns in order, subagents before the turn that waits for them."""
        children = sorted(session.children, key=lambda one: one.after)
        now_s = began_s
        for number, request in enumerate(session.turns):
            think_s = session.think_s(number)
            if number:
                now_s += (session.turns[number - 1].api_s or 0.0) + (think_s or 0.0)
            while children and children[0].after <= number:
                yield self._subagent(children.pop(0), now_s)
            yield self._request(request, self._time_s(request, now_s), think_s)
        for child in children:
            yield self._subagent(child, now_s)

    def _time_s(self, request: TraceRequest, else_s: float) -> float:
        return else_s if self.start_s is None or request.at_s is None else request.at_s - self.start_s

    def _request(self, request: TraceRequest, at_s: float, think_s: float | None) -> dict[str, Any]:
        # Ids are local, so the front that other sessions share needs none of its own.
        ids, hit_tokens = self.names.of(request._replace(shared_tokens=0))
        self.summary.add(request, hit_tokens)
        if request.api_s is None:
            self.summary.note("server times are not known: api_time is 0")
        driven = {HUMAN: ["text"], TOOL: ["tool_result"]}
        found: dict[str, Any] = {
            "t": round(at_s, _DIGITS),
            "type": "s",
            "model": self.model,
            "in": request.prompt_tokens,
            "out": request.output_tokens,
            "hash_ids": ids,
            "input_types": driven.get(request.driver or "", []),
            "output_types": ["text"],
            "stop": "",
            "api_time": round(request.api_s or 0.0, _DIGITS),
        }
        if think_s is not None:
            found["think_time"] = round(think_s, _DIGITS)
        return found

    def _subagent(self, child: Conversation, at_s: float) -> dict[str, Any]:
        requests = list(self.requests(child, at_s))
        first, last = requests[0], requests[-1]
        return {
            "t": first["t"],
            "type": "subagent",
            "agent_id": child.name,
            "subagent_type": "unknown",
            "duration_ms": round((last["t"] + last.get("api_time", 0.0) - first["t"]) * 1e3),
            "total_tokens": sum(one.prompt_tokens + one.output_tokens for one in child.turns),
            "tool_use_count": len(child.turns) - 1,
            "status": "completed",
            "models": [self.model],
            "tool_tokens": 0,
            "system_tokens": child.turns[0].shared_tokens,
            "requests": requests,
        }
