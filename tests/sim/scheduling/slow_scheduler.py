"""The recorded scheduler again, slow and obvious, written from the numbered rules of the recordings' README.

It shares no code with `sim`: prompts are lists of token ids, a block's key is every token up to its end, queues
are lists that are sorted again when they change. `slow_replay` returns the records that `replay` must equal.
"""

from dataclasses import dataclass, field
from math import ceil
from typing import Any

from slow_pool import SlowPool

DEFAULTS: dict[str, Any] = {
    "block_size": 16,
    "max_num_batched_tokens": 2048,
    "max_num_seqs": 128,
    "max_model_len": 8192,
    "enable_prefix_caching": True,
    "enable_chunked_prefill": True,
    "policy": "fcfs",
    "long_prefill_token_threshold": 0,
    "long_prefill_token_threshold_adaptive": False,
    "watermark": 0.0,
    "scheduler_reserve_full_isl": True,
    "async_scheduling": False,
    "arrival_time_mode": "unique",
    "record_block_ids": False,
}


def prompt_tokens(scenario: dict[str, Any], name: str) -> list[int]:
    """Spell out a prompt."""
    recorded = next(request for request in scenario["requests"] if request["id"] == name)
    tokens: list[int] = []
    for kind, *rest in recorded["prompt"]:
        if kind == "seg":
            seed, length, start = (*rest, 0)[:3]
            tokens += [seed * 1_000_000 + i for i in range(start, start + length)]
        elif kind == "tok":
            tokens += rest[0]
        elif kind == "prompt":
            tokens += prompt_tokens(scenario, rest[0])
        else:
            tokens += conversation_tokens(scenario, rest[0])
    return tokens


def conversation_tokens(scenario: dict[str, Any], name: str) -> list[int]:
    """Spell out a prompt and what is answered to it (rule 25)."""
    index, recorded = next(pair for pair in enumerate(scenario["requests"]) if pair[1]["id"] == name)
    prompt = prompt_tokens(scenario, name)
    room = scenario.get("max_model_len", 8192) - len(prompt)
    return prompt + [recorded.get("output_token", 2_000_000_000 + index)] * min(recorded["output_len"], room)


@dataclass(eq=False)
class SlowRequest:
    """A request with its tokens spelled out."""

    id: str
    tokens: list[int]  # what is known
    output_len: int
    answer: int
    priority: int
    arrival: int
    computed: int = 0
    placeholders: int = 0
    preempted: bool = False
    blocks: list[int] = field(default_factory=list)
    registered: int = 0
    facts: dict[str, Any] = field(default_factory=dict)


Batch = list[tuple[SlowRequest, int, bool]]  # request, tokens, whether it yields a token


class SlowScheduler:
    """Rules 2 to 17 and 24 to 30."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self.set = DEFAULTS | scenario
        self.pool = SlowPool(self.set["num_gpu_blocks"], caching=self.set["enable_prefix_caching"])
        self.running: list[SlowRequest] = []
        self.waiting: list[SlowRequest] = []

    def blocks_for(self, tokens: int) -> int:
        """Blocks that this many tokens need."""
        return ceil(tokens / self.set["block_size"])

    def put_in_line(self, request: SlowRequest, *, front: bool) -> None:
        """Rules 10 and 11."""
        self.waiting.insert(0 if front else len(self.waiting), request)
        if self.set["policy"] == "priority":
            self.waiting.sort(key=lambda r: (r.priority, r.arrival, r.id))

    def schedule(self) -> tuple[dict[str, Any], Batch]:
        """Return the decisions of a step, and its batch."""
        evicted = self.pool.evicted
        cap = self.cap()
        self.budget = self.set["max_num_batched_tokens"]
        self.scheduled: dict[SlowRequest, int] = {}
        self.new_blocks: dict[SlowRequest, list[int]] = {}
        self.victims: list[SlowRequest] = []
        self.admitted: dict[SlowRequest, int] = {}
        self.running_pass(cap)
        if not self.victims:
            self.waiting_pass(cap)
        batch = []
        for request, tokens in self.scheduled.items():
            request.computed += tokens  # rule 3
            yields = request.computed == len(request.tokens) + request.placeholders  # rules 4 and 27
            if yields and self.set["async_scheduling"]:
                request.placeholders += 1
            batch.append((request, tokens, yields))
        record: dict[str, Any] = {"scheduled": {r.id: tokens for r, tokens in self.scheduled.items()}}
        record["hit"] = {r.id: hit for r, hit in self.admitted.items()}
        record["resumed"] = [r.id for r in self.admitted if r.preempted]
        record["preempted"] = [r.id for r in self.victims]
        record["evicted"] = self.pool.evicted - evicted
        record = {key: value for key, value in record.items() if value or key == "scheduled"}
        record["sched"] = [len(self.running), len(self.waiting), self.pool.num_free]
        if self.set["record_block_ids"]:
            record["blocks"] = {r.id: self.new_blocks[r] for r in self.scheduled if self.new_blocks[r]}
        return record, batch

    def cap(self) -> float:
        """Rule 17."""
        present = len(self.running) + len(self.waiting)
        threshold = self.set["long_prefill_token_threshold"]
        if threshold == 0 or present == 1:
            return float("inf")
        if self.set["long_prefill_token_threshold_adaptive"] and present:
            return float(max(threshold, self.set["max_num_batched_tokens"] // present))
        return float(threshold)

    def running_pass(self, cap: float) -> None:
        """Rules 6 to 10, 24, 27 and 28."""
        for request in list(self.running):
            if self.budget == 0:
                return
            if request in self.victims:
                continue
            generated = len(request.tokens) - request.facts["prompt_len"]
            if request.placeholders and generated + request.placeholders >= request.output_len:
                continue
            wanted = len(request.tokens) + request.placeholders - request.computed
            tokens = int(min(wanted, cap, self.budget, self.set["max_model_len"] - 1 - request.computed))
            if tokens == 0:
                continue
            missing = self.blocks_for(request.computed + tokens) - len(request.blocks)
            while missing > self.pool.num_free:
                victim = self.running[-1]
                if self.set["policy"] == "priority":
                    worst = max((r.priority, r.arrival) for r in self.running)
                    victim = next(r for r in self.running if (r.priority, r.arrival) == worst)
                self.preempt(victim)
                if victim is request:
                    return
            self.grant(request, tokens, max(missing, 0))

    def preempt(self, victim: SlowRequest) -> None:
        """Rules 9 and 10."""
        self.running.remove(victim)
        self.victims.append(victim)
        self.budget += self.scheduled.pop(victim, 0)
        self.pool.release(victim.blocks)
        victim.blocks, victim.registered, victim.computed, victim.preempted = [], 0, 0, True
        victim.facts["preemptions"] += 1
        self.put_in_line(victim, front=True)

    def grant(self, request: SlowRequest, tokens: int, missing: int) -> None:
        """Hand out blocks and budget, and register what is full now (rules 18 and 30)."""
        new = self.pool.take(missing)
        request.blocks += new
        self.new_blocks[request] = new
        self.scheduled[request] = tokens
        self.budget -= tokens
        self.register(request, min(request.computed + tokens, len(request.tokens)))

    def register(self, request: SlowRequest, with_kv: int) -> None:
        """Give every full block among the first `with_kv` tokens its key."""
        size = self.set["block_size"]
        while (request.registered + 1) * size <= with_kv:
            end = (request.registered + 1) * size
            self.pool.register(request.blocks[request.registered], tuple(request.tokens[:end]))
            request.registered += 1

    def waiting_pass(self, cap: float) -> None:
        """Rules 11 to 16."""
        size = self.set["block_size"]
        while self.budget > 0 and self.waiting and len(self.running) < self.set["max_num_seqs"]:
            request = self.waiting[0]
            known = len(request.tokens)
            ends = range(size, (known - 1) // size * size + 1, size)
            hit = self.pool.lookup([tuple(request.tokens[:end]) for end in ends])
            tokens = int(min(known - len(hit) * size, cap))
            if not self.set["enable_chunked_prefill"] and tokens > self.budget:
                return
            tokens = min(tokens, self.budget)
            revive = sum(self.pool.references[block] == 0 for block in hit)
            watermark = int(self.set["watermark"] * self.set["num_gpu_blocks"]) if self.running else 0
            chunk = self.blocks_for(len(hit) * size + tokens) - len(hit)
            needs = [chunk]
            if self.set["scheduler_reserve_full_isl"]:
                needs.append(self.blocks_for(known) - len(hit))
            if any(need + revive + watermark > self.pool.num_free for need in needs):
                return
            self.waiting.remove(request)
            self.running.append(request)
            self.pool.touch(hit)
            request.blocks, request.registered, request.computed = list(hit), len(hit), len(hit) * size
            self.admitted[request] = len(hit) * size
            self.grant(request, tokens, chunk)
            self.new_blocks[request] = list(request.blocks)

    def process(self, batch: Batch) -> tuple[list[SlowRequest], list[SlowRequest]]:
        """Return who got a token and who finished (rules 25, 29 and 30)."""
        served = [request for request, _, yields in batch if yields]
        finished = []
        for request in served:
            request.tokens.append(request.answer)
            if self.set["async_scheduling"]:
                request.placeholders -= 1
                if request in self.running:
                    self.register(request, request.computed - request.placeholders)
            generated = len(request.tokens) - request.facts["prompt_len"]
            if generated == request.output_len or len(request.tokens) == self.set["max_model_len"]:
                (self.running if request in self.running else self.waiting).remove(request)
                self.pool.release(request.blocks)
                request.blocks = []
                finished.append(request)
        return served, finished


class SlowReplay:
    """Rules 1, 25 and 26: arrivals, batches in flight, and what the summary counts."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self.scenario = scenario
        self.scheduler = SlowScheduler(scenario)
        self.outstanding = list(enumerate(scenario["requests"]))  # not yet added
        self.everyone: list[SlowRequest] = []
        self.previous: Batch = []

    def due(self, recorded: dict[str, Any]) -> int | None:
        """Return when a request arrives, if that is known yet."""
        if "after" not in recorded:
            return int(recorded["arrival_step"])
        for request in self.everyone:
            if request.id == recorded["after"] and request.facts["finish_step"] is not None:
                return int(request.facts["finish_step"]) + 1 + int(recorded.get("delay_steps", 0))
        return None

    def next_due(self) -> int | None:
        """Return when the next request arrives, if any is known to come."""
        return min((at for _, recorded in self.outstanding if (at := self.due(recorded)) is not None), default=None)

    def add(self, index: int, recorded: dict[str, Any], step: int) -> None:
        """Put a request in line."""
        tokens = prompt_tokens(self.scenario, recorded["id"])
        facts = dict.fromkeys(("first_hit", "first_sched_step", "first_token_step", "finish_step"))
        counts = {"preemptions": 0, "output_len": 0, "scheduled_tokens": 0}
        request = SlowRequest(
            recorded["id"],
            tokens,
            recorded["output_len"],
            recorded.get("output_token", 2_000_000_000 + index),
            recorded.get("priority", 0),
            len(self.everyone) if self.scheduler.set["arrival_time_mode"] == "unique" else step,
            facts={"arrival_step": step, "prompt_len": len(tokens), **facts, **counts},
        )
        self.everyone.append(request)
        self.scheduler.put_in_line(request, front=False)

    def step(self, step: int) -> tuple[dict[str, Any], bool]:
        """Return the record of a step, and whether anything happened in it."""
        scheduler = self.scheduler
        arrived = [pair for pair in self.outstanding if self.due(pair[1]) == step]
        self.outstanding = [pair for pair in self.outstanding if pair not in arrived]
        for index, recorded in arrived:
            self.add(index, recorded, step)
        decisions, batch = scheduler.schedule()
        returned = self.previous if scheduler.set["async_scheduling"] else batch
        self.previous = batch
        served, finished = scheduler.process(returned)
        self.note(step, batch, served, finished)

        record: dict[str, Any] = {"step": step}
        if arrived:
            record["arrived"] = [recorded["id"] for _, recorded in arrived]
        record |= decisions
        if finished:
            record["finished"] = [request.id for request in finished]
        free = scheduler.pool.num_free
        record |= {"running": len(scheduler.running), "waiting": len(scheduler.waiting), "free_blocks": free}
        record["kv_usage"] = round(1 - free / (scheduler.set["num_gpu_blocks"] - 1), 6)
        record["cached_blocks"] = scheduler.pool.num_cached
        return record, bool(batch or scheduler.victims or returned)

    def note(self, step: int, batch: Batch, served: list[SlowRequest], finished: list[SlowRequest]) -> None:
        """Keep what the summary says of each request."""

        def first(request: SlowRequest, key: str, value: int) -> None:
            if request.facts[key] is None:
                request.facts[key] = value

        for request, hit in self.scheduler.admitted.items():
            first(request, "first_hit", hit)
        for request, tokens, _ in batch:
            first(request, "first_sched_step", step)
            request.facts["scheduled_tokens"] += tokens
        for request in served:
            first(request, "first_token_step", step)
            request.facts["output_len"] += 1
        for request in finished:
            request.facts["finish_step"] = step

    def summary(self, records: list[dict[str, Any]], *, stuck: bool) -> dict[str, Any]:
        """Return the last line."""
        facts = [request.facts for request in self.everyone]
        return {
            "steps": len(records),
            "last_step": records[-1]["step"] if records else 0,
            "stuck": stuck,
            "usable_blocks": self.scheduler.set["num_gpu_blocks"] - 1,
            "total_prompt_tokens": sum(of["prompt_len"] for of in facts),
            "total_first_hit_tokens": sum(of["first_hit"] or 0 for of in facts),
            "total_scheduled_tokens": sum(of["scheduled_tokens"] for of in facts),
            "total_preemptions": sum(of["preemptions"] for of in facts),
            "requests": {request.id: request.facts for request in self.everyone},
        }


def slow_replay(scenario: dict[str, Any], most_steps: int = 100_000) -> list[dict[str, Any]]:
    """Return header, records and summary; `stuck` also where `most_steps` ran out."""
    replay = SlowReplay(scenario)
    records: list[dict[str, Any]] = []
    step, stuck = 0, False
    while not stuck:
        coming = replay.next_due()
        if not replay.scheduler.running and not replay.scheduler.waiting:
            replay.previous = []
            if coming is None:
                break
            step = max(step, coming)
        record, busy = replay.step(step)
        records.append(record)
        left = replay.scheduler.running or replay.scheduler.waiting
        idle = not busy and replay.next_due() is None
        stuck = bool(left) and (idle or len(records) == most_steps)
        step += 1
    name = "AsyncScheduler" if replay.scheduler.set["async_scheduling"] else "Scheduler"
    header = {"vllm_version": "0.32.0", "scheduler": name, "name": scenario["name"]}
    return [{"header": header}, *records, {"summary": replay.summary(records, stuck=stuck)}]
