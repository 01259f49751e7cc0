"""Recorded agent sessions in the WEKA / kv-cache-tester format: a JSON value a session, in a file, a folder, or lines.

`in` is the whole prompt; `hash_ids` are of its full 64-token blocks (floor: the tail has none) and mean something in
their session alone. A subagent is an entry among its parent's requests and a session of its own, of the same scope; it
may hold further ones; neighbours run side by side. Its times start at its own beginning, as `at_s` does of every
session. The think time before the parent's next request is as recorded, so it contains the subagents' time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import msgspec

from workloads.traces.format import Clock, Format, Head
from workloads.traces.json_rows import Row, is_json, json_fault
from workloads.traces.reading import Reading, shown
from workloads.traces.request import HUMAN, MOST_SECONDS, MOST_TOKENS, TOOL, BlockIds, TraceRequest
from workloads.traces.text_lines import byte_lines, document

BLOCK_TOKENS = 64
_DEEPEST = 32  # subagents of subagents
_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS)]
_Time = Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS * 100)]  # clocks since 1970 count too
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Session(Row, frozen=True, gc=False):
    requests: list[msgspec.Raw]
    id: str | int | None = None
    block_size: Annotated[int, msgspec.Meta(ge=1, le=MOST_TOKENS)] | None = None
    hash_id_scope: str | None = None
    tool_tokens: _Count | None = None
    system_tokens: _Count | None = None
    totals: Any = None


class _Entry(Row, frozen=True, gc=False, rename={"prompt": "in"}):
    """A request, or with `requests` a subagent."""

    type: str | None = None
    t: _Time | None = None
    prompt: Annotated[int, msgspec.Meta(ge=1, le=MOST_TOKENS)] | None = None
    out: _Count | None = None
    hash_ids: list[int] | None = None
    input_types: list[str] | None = None
    api_time: _Seconds | None = None
    think_time: _Seconds | None = None
    agent_id: str | int | None = None
    requests: list[msgspec.Raw] | None = None


_session = msgspec.json.Decoder(_Session).decode
_entry = msgspec.json.Decoder(_Entry).decode


class _Agent(NamedTuple):
    """Whose requests they are: the session, and for a subagent which started it, after how many requests."""

    session: str
    parent: str | None = None
    after: int | None = None
    depth: int = 0


@dataclass(slots=True)
class _Walk:
    """A session being gone through: what its requests have in common, and how far the count of requests is."""

    reading: Reading
    line: int  # where the session is
    number: int  # of the last request of the file
    block_tokens: int
    scope: str | None
    shared_tokens: int
    taken: dict[str, int]  # names of sessions of the file, and the line of each
    times: dict[str, int] = field(default_factory=dict)  # how often each subagent's name came up
    tokens: list[int] = field(default_factory=lambda: [0, 0])  # of the main agent, as its totals count

    def requests(self, entries: Sequence[msgspec.Raw], agent: _Agent) -> Iterator[TraceRequest]:
        """Yield the requests of one agent, those of its subagents where they lie among them."""
        first_s, last_s, seen = None, 0.0, 0
        for raw in entries:
            try:
                entry = _entry(raw)
            except _FAULTS as error:
                self._skip(agent, json_fault(error))
                continue
            if entry.requests is not None or entry.type == "subagent":
                if agent.depth == _DEEPEST:
                    self._skip(agent, f"subagents within subagents, {_DEEPEST} deep")
                    continue
                self.reading.note("subagents are sessions of their own; the think time after them contains their time")
                name = self._name_of(agent.session, entry)
                yield from self.requests(entry.requests or [], _Agent(name, agent.session, seen, agent.depth + 1))
                continue
            fault = self._fault(entry, last_s)
            if fault:
                self._skip(agent, fault)
                continue
            self.number += 1
            if entry.t is not None:
                first_s, last_s = entry.t if first_s is None else first_s, entry.t
            yield self._request(entry, agent, None if entry.t is None else entry.t - (first_s or 0.0), first=not seen)
            seen += 1

    def _request(self, entry: _Entry, agent: _Agent, at_s: float | None, *, first: bool) -> TraceRequest:
        prompt, out = entry.prompt or 0, entry.out or 0
        if not out:
            self.reading.note("answers of 0 tokens count as 1")
        shared = 0  # a subagent's tools and instructions are others
        if agent.parent is None:
            shared = min(self.shared_tokens, prompt)
            self.tokens[0] += prompt
            self.tokens[1] += out
        return TraceRequest(
            self.number,
            prompt,
            out or 1,
            at_s,
            agent.session,
            self._content(entry.hash_ids, prompt),
            None if first else entry.think_time,
            entry.api_time,
            _driver(entry.input_types),
            agent.parent,
            agent.after,
            shared,
        )

    def _content(self, ids: list[int] | None, prompt: int) -> BlockIds | None:
        if ids is None:
            self.reading.note("some requests have no hash_ids: nothing of theirs can be hit")
            return None
        if len(ids) < prompt // self.block_tokens:
            self.reading.note("some requests have fewer hash_ids than full blocks: nothing of their tails can be hit")
        return BlockIds(ids, self.block_tokens, self.scope)

    def _fault(self, entry: _Entry, last_s: float) -> str | None:
        if entry.prompt is None:
            return "key missing: in"
        if entry.t is not None and entry.t < last_s:
            return f"t {entry.t:.10g} is before the {last_s:.10g} of a request above it: times must ascend"
        most = -(-entry.prompt // self.block_tokens)
        if entry.hash_ids is not None and len(entry.hash_ids) > most:
            return (
                f"{len(entry.hash_ids)} hash_ids, where {entry.prompt:,} tokens are {most} blocks "
                f"of {self.block_tokens} tokens"
            )
        return None

    def _skip(self, agent: _Agent, what: str) -> None:
        self.number += 1
        self.reading.bad(self.line, f"session {shown(agent.session)}, request {self.number}: {what}")

    def _name_of(self, session: str, entry: _Entry) -> str:
        name = f"{session}/{'subagent' if entry.agent_id is None else entry.agent_id}"
        times = self.times.get(name, 0) + 1
        while (free := name if times == 1 else f"{name}#{times}") in self.taken:
            times += 1
        self.times[name], self.taken[free] = times, self.line
        return free


def _driver(input_types: Sequence[str] | None) -> str | None:
    """Return who drives a request: a tool, if any of its results is new in it."""
    if not input_types:
        return None
    return TOOL if "tool_result" in input_types else HUMAN


def recognises(head: Head) -> bool:
    """Tell a session by the requests in it."""
    entries = head.first.get("requests") if isinstance(head.first, Mapping) else None
    return isinstance(entries, list) and any(_is_entry(one) for one in entries[:20])


def _is_entry(one: Any) -> bool:
    return isinstance(one, Mapping) and ("in" in one or one.get("type") == "subagent")


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the requests, session by session."""
    taken, number = dict[str, int](), 0
    for line, session in _sessions(reading):
        stem = reading.path.name.split(".")[0]
        name = str(session.id) if session.id is not None else stem if line == 1 else f"{stem}-{line}"
        if name in taken:
            reading.bad(line, f"session {shown(name)} is there twice, first in line {taken[name]}")
            continue
        taken[name] = line
        scope = None if session.hash_id_scope == "global" else name
        shared_tokens = (session.tool_tokens or 0) + (session.system_tokens or 0)
        block_tokens = reading.options.block_tokens or session.block_size or BLOCK_TOKENS
        kind = "all sessions" if scope is None else "their session"
        reading.note(f"ids are of full {block_tokens}-token blocks, and of {kind} alone")
        walk = _Walk(reading, line, number, block_tokens, scope, shared_tokens, taken)
        yield from walk.requests(session.requests, _Agent(name))
        number = walk.number
        _check_totals(reading, session, walk)


def _check_totals(reading: Reading, session: _Session, walk: _Walk) -> None:
    """Take note of sums that are not; totals of another shape are left alone."""
    totals = session.totals.get("parent_tokens") if isinstance(session.totals, Mapping) else None
    if isinstance(totals, Mapping) and any(
        said is not None and said != found
        for said, found in zip(map(totals.get, ("input", "output")), walk.tokens, strict=True)
    ):
        reading.note("some sessions' totals are not the sums of their requests, which are taken")


def _sessions(reading: Reading) -> Iterator[tuple[int, _Session]]:
    """Yield line and session: of each line, or of the whole file if its first line is no whole value."""
    lines = byte_lines(reading.path)
    line, text = next(lines, (1, b""))
    if not is_json(text):
        whole = document(reading.path)
        if is_json(whole):
            lines, text = iter(()), whole
    while True:
        try:
            session = _session(text)
        except _FAULTS as error:
            reading.bad(line, json_fault(error))
        else:
            yield line, session
        following = next(lines, None)
        if following is None:
            return
        line, text = following


FORMAT = Format("weka", "WEKA sessions (kv-cache-tester)", recognises, read, Clock.SESSION)
