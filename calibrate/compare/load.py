"""What is sent for one measured load point, and what had to be assumed.

Lengths, times and sharing are the file's where it states them. What it leaves open is taken from its means, then from
the scenario's workload, and said. Listed requests that failed are left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibrate.compare.arrivals import Arrivals, arrivals_of
from calibrate.compare.clients import ListedSession, by_client, most_open
from calibrate.compare.lengths import (
    Lengths,
    check_client,
    check_count,
    counted,
    listed_lengths,
    mean_lengths,
    place_of,
)
from calibrate.compare.pauses import mean_pause_s, pausing_clients
from calibrate.compare.sharing import PREFIX, Sharing, sharing_of
from calibrate.compare.talks import drawn_sessions, listed_sessions, shared_tokens, turns_span_s
from calibrate.measured.run import MeasuredRun
from sim.engine.recorded import RecordedLoad
from sim.errors import MeasurementError
from sim.setup import Parts
from sim.workload_setup import workload
from workloads.recorded import RecordedRequest
from workloads.span import Span
from workloads.workload import Workload

_COUNT = 200  # requests, where nothing says how many
_CUT_SHORT = 0.95  # of the turns that the sessions of a closed loop have
_ROUNDS = 10  # of a closed loop likewise


@dataclass(frozen=True, slots=True)
class SentLoad:
    """One load point as it is simulated."""

    load: RecordedLoad
    requests: int  # turns of sessions
    span_s: float | None  # first to last send of an open loop; None: the answers set the pace
    arrivals: Arrivals
    notes: tuple[str, ...]
    drawn: bool  # by a seed


def sent_load(
    run: MeasuredRun, parts: Parts, seed: int, limit: int | None = None, shape: Mapping[str, float] = {}
) -> SentLoad:
    """Return what is sent again for a load point, at most `limit` requests.

    Raises MeasurementError if neither the file nor the scenario says enough, or lengths are absurd.
    """
    spec = parts.scenario.workload
    own = None if spec is None else workload(spec, parts.scenario.engine.max_model_len)
    prefix_tokens = 0 if own is None else own.shared_prefix_tokens
    sent = counted(run)
    left_out = len(run.requests) - len(sent)
    notes = [f"{left_out} listed requests that failed are left out"] if left_out else []
    check_client(run)
    check_count(run, min(len(sent), limit or len(sent)))
    sessions = listed_sessions(run, sent, prefix_tokens)
    if sessions and (run.load.sessions or any((request.turn or 0) > 0 for request in sent)):
        talking = _talking(sessions, run.load.concurrency, limit, turns_span_s(sent))
        return replace(talking, notes=(*notes, *talking.notes))
    count = len(sent) or _count(run)
    check_count(run, min(count, limit or count))
    count = min(count, limit or count)
    if (run.load.sessions and own is not None) or (not sent and not run.input_tokens_mean):
        return _as_the_scenario(run, own, count, notes, seed)
    if run.load.sessions:
        notes.append("each request is sent alone: its sessions are not listed, and the scenario has no workload")
    elif own is not None and len(own.session("one", np.random.default_rng(seed)).turns) > 1:
        notes.append("each request is sent alone: the result speaks of no sessions, though the scenario's have turns")
    lengths = listed_lengths(run)
    if lengths is None:
        lengths = mean_lengths(run, count, shape, seed)
        if lengths is None:
            return _as_the_scenario(run, own, count, notes, seed)
        spread = (
            "spread like the end-to-end times of the lowest load"
            if len(set(lengths.output_tokens)) > 1
            else "of one length"
        )
        notes.append(f"lengths are not listed: prompts of one length, answers {spread}, by their means")
    lengths = Lengths(lengths.prompt_tokens[:count], lengths.output_tokens[:count])
    arrivals = arrivals_of(run, count, seed)
    asking = _asking(lengths, arrivals, sharing_of(run, lengths, prefix_tokens), notes)
    pause_s = mean_pause_s(run, count) if arrivals.unit == "in flight" else None
    return asking if pause_s is None else _pausing(asking, pause_s, run.metrics["e2e_mean_s"], seed)


def _asking(lengths: Lengths, arrivals: Arrivals, sharing: Sharing, notes: Sequence[str]) -> SentLoad:
    requests = tuple(
        RecordedRequest.of(at_s, sharing.prompt(number, prompt), output, str(number))
        for number, (at_s, prompt, output) in enumerate(
            zip(arrivals.times_s, lengths.prompt_tokens, lengths.output_tokens, strict=True)
        )
    )
    load = RecordedLoad(requests, arrivals.most_in_flight, warm=sharing.warm)
    said = (*notes, *([arrivals.note] if arrivals.note else []), sharing.note)
    drawn = arrivals.drawn or len(set(lengths.output_tokens)) > 1
    return SentLoad(load, len(requests), arrivals.span_s, arrivals, said, drawn)


def _pausing(asking: SentLoad, pause_s: float, e2e_s: float, seed: int) -> SentLoad:
    clients, arrivals = round(asking.arrivals.level), asking.arrivals
    requests = [one for one in asking.load.requests if isinstance(one, RecordedRequest)]
    sessions = pausing_clients(requests, clients, pause_s, e2e_s, seed)
    label = f"{clients} client{'s' * (clients != 1)}"
    note = f"{label}: far fewer in flight on average, so each pauses {pause_s:.3g} s between requests, drawn"
    load = replace(asking.load, requests=tuple(sessions), most_in_flight=None)
    arrivals = replace(arrivals, most_in_flight=None, drawn=True, label=label, unit="clients")
    return replace(asking, load=load, arrivals=arrivals, notes=(*asking.notes, note), drawn=True)


def _talking(sessions: Sequence[ListedSession], cap: int | None, limit: int | None, span_s: float | None) -> SentLoad:
    """Return sessions: those at listed times begin then, those of a closed loop when one before them ends."""
    notes = ["sessions as listed: each turn leaves its measured pause after the answer before it"]
    listed: list[ListedSession] = []
    turns = 0
    for one in sessions:
        if limit is not None and turns >= limit:
            break
        listed.append(one)
        turns += len(one.session.turns)
    if cap is not None:
        kept = [one.session._replace(at_s=0.0) for one in listed]
    else:
        kept = by_client(listed)
        if len(kept) < len(listed):
            notes.append("a session that began as another ended is its client's next")
    first_s = min(session.at_s for session in kept)
    kept = [session._replace(at_s=session.at_s - first_s) for session in kept]
    closed = cap is not None or len(kept) < len(listed) or all(not session.at_s for session in kept)
    level = cap if cap is not None else most_open(listed)
    arrivals = Arrivals(
        [session.at_s for session in kept], cap, drawn=False, label=_sessions(level), level=level, unit="sessions"
    )
    shared = shared_tokens(listed)
    notes.append(f"sessions share a prefix of {shared:,} tokens" if shared else "sessions share nothing with others")
    load = RecordedLoad(tuple(kept), cap, warm=(Span(PREFIX, 0, shared),) if shared else ())
    return SentLoad(load, turns, None if closed else span_s, arrivals, tuple(notes), drawn=False)


def _as_the_scenario(
    run: MeasuredRun, own: Workload | None, requests: int, notes: Sequence[str], seed: int
) -> SentLoad:
    if own is None:
        raise MeasurementError(
            f"{place_of(run)}: it says nothing of the requests' lengths, and the scenario has no workload to take "
            "them from"
        )
    sessions = drawn_sessions(own, requests, run.load.concurrency or 1, seed)
    count = len(sessions)
    said = [*notes, "lengths, turns and sharing are the scenario's workload: the result does not state them"]
    turns = sum(len(session.turns) for session in sessions)
    cap, rate = run.load.concurrency, run.load.rate_per_s
    level, unit = (float(count), "sessions") if cap is None else (cap, "sessions")
    if cap is None and rate and math.isfinite(rate):
        level, unit = rate * count / turns, "sessions/s"  # a rate counts requests
        arrivals = arrivals_of(replace(run, requests=(), load=replace(run.load, rate_per_s=level)), count, seed)
        sessions = [one._replace(at_s=at_s) for one, at_s in zip(sessions, arrivals.times_s, strict=True)]
    label = _sessions(level) if unit == "sessions" else f"{level:.4g} {unit}"
    arrivals = Arrivals([one.at_s for one in sessions], cap, True, label, level, unit)
    single = all(len(session.turns) == 1 for session in sessions)
    cut_s = run.duration_s if cap is not None and requests < _CUT_SHORT * turns else None
    if cut_s:
        said.append(f"the run was cut short after {cut_s:.4g} s: fewer requests than its sessions have turns")
    load = RecordedLoad(tuple(sessions), cap, duration_s=cut_s or None, warm=own.prefix)
    return SentLoad(load, turns, arrivals.span_s if single else None, arrivals, tuple(said), drawn=True)


def _sessions(level: float) -> str:
    return f"{level:g} session{'s' * (level != 1)}"


def _count(run: MeasuredRun) -> int:
    """Return how many requests a load point that lists none had."""
    stated = run.load.requests or (run.completed or 0) + (run.failed or 0)
    if stated:
        return stated
    rate = run.metrics.get("requests_per_s") or run.load.rate_per_s
    if run.duration_s and rate and math.isfinite(rate):
        return max(1, round(min(run.duration_s * rate, 1e12)))
    return _ROUNDS * run.load.concurrency if run.load.concurrency else _COUNT
