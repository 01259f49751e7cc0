"""Closed loops against an engine that is stepped by hand, in a clock that only the engine's own work moves.

The clock is the CPU time of the engine's thread added up over its steps; idle gaps are jumped over. So a busy
machine changes little, and nobody waits for a client to finish thinking.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from calibrate.validation.cliff_workload import SlotScript, TurnScript, Workload

FIRST_TOKEN_ID = 3  # below lie the special ones


class SteppedEngine(Protocol):
    """What is driven: requests go in, each step gives back the tokens it produced and what it did."""

    def add(self, name: str, prompt: list[int], output_tokens: int) -> None:
        """Queue a request."""
        ...

    def step(self) -> tuple[dict[str, list[int]], dict[str, Any]]:
        """Run one step; return new token ids by request, and the step's record (cpu, wall, scheduled, hit, ...)."""
        ...


@dataclass
class _Slot:
    """Where a slot's conversation stands."""

    number: int
    script: SlotScript
    shared: list[int]
    vocabulary: int
    next_turn: int = 0
    context: list[int] = field(default_factory=list)

    def turn(self) -> TurnScript | None:
        turns = self.script.turns
        return turns[self.next_turn] if self.next_turn < len(turns) else None

    def prompt(self) -> list[int]:
        turn = self.script.turns[self.next_turn]
        if turn.turn == 0:
            self.context = list(self.shared)
        new = np.random.default_rng(turn.new_seed).integers(FIRST_TOKEN_ID, self.vocabulary, turn.new_tokens)
        self.context += new.tolist()
        return self.context


def drive(engine: SteppedEngine, workload: Workload, vocabulary: int) -> tuple[list[dict[str, Any]], list[Any]]:
    """Run a workload to its end; return the request records and the step records, as their files hold them."""
    shared = np.random.default_rng(workload.seed).integers(FIRST_TOKEN_ID, vocabulary, workload.shared_prefix_tokens)
    slots = [_Slot(number, slot, shared.tolist(), vocabulary) for number, slot in enumerate(workload.slots)]
    due = [(slot.script.start, slot.number) for slot in slots]
    heapq.heapify(due)
    requests: dict[str, dict[str, Any]] = {}
    open_requests: dict[str, _Slot] = {}
    steps: list[dict[str, Any]] = []
    now = 0.0
    while due or open_requests:
        if not open_requests:
            now = max(now, due[0][0])
        arrived = []
        while due and due[0][0] <= now:
            due_s, number = heapq.heappop(due)
            record = _add(engine, slots[number], due_s, now)
            arrived.append(record["id"])
            requests[record["id"]], open_requests[record["id"]] = record, slots[number]
        tokens, step = engine.step()
        start, now = now, now + step["cpu"]
        _note_schedule(requests, step, start)
        finished = _note_tokens(requests, tokens, open_requests, now)
        for name in finished:
            slot = open_requests.pop(name)
            following = slot.turn()
            if following is not None:
                heapq.heappush(due, (now + following.think, slot.number))
        known = {"arrived": arrived, **step, "finished": finished}
        filled = {key: value for key, value in known.items() if value not in ([], {})}
        steps.append({"step": len(steps), "t": round(start, 6), **filled})
    return list(requests.values()), steps


def _add(engine: SteppedEngine, slot: _Slot, due_s: float, now: float) -> dict[str, Any]:
    turn = slot.script.turns[slot.next_turn]
    name, prompt = f"s{slot.number}t{slot.next_turn}", slot.prompt()
    engine.add(name, list(prompt), turn.output_len)
    slot.next_turn += 1
    return {
        "id": name, "slot": slot.number, "session": turn.session, "turn": turn.turn, "due": round(due_s, 6),
        "added": round(now, 6), "prompt_len": len(prompt), "output_len": turn.output_len, "think": turn.think,
        "preemptions": 0, "scheduled_tokens": 0, "resume_hits": [], "token_times": [],
    }  # fmt: skip


def _note_schedule(requests: dict[str, dict[str, Any]], step: dict[str, Any], start: float) -> None:
    for name, tokens in step["scheduled"].items():
        requests[name]["scheduled_tokens"] += tokens
    for name, hit in step["hit"].items():
        if "first_hit" in requests[name]:
            requests[name]["resume_hits"].append(hit)
        else:
            requests[name] |= {"first_hit": hit, "first_sched": round(start, 6)}
    for name in step["preempted"]:
        requests[name]["preemptions"] += 1


def _note_tokens(
    requests: dict[str, dict[str, Any]], tokens: dict[str, list[int]], slots: dict[str, _Slot], now: float
) -> Sequence[str]:
    finished = []
    for name, new in tokens.items():
        record = requests[name]
        slots[name].context += new
        record["token_times"] += [round(now, 6)] * len(new)
        if len(record["token_times"]) == record["output_len"]:
            record["finish"] = round(now, 6)
            finished.append(name)
    return finished
