"""What is sent for one measured load point, and what had to be assumed.

Lengths, times and sharing are the file's where it states them. What it leaves open is taken from its means, then from
the scenario's workload, and said. Listed requests that failed are left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from calibrate.compare.arrivals import Arrivals, arrivals_of
from calibrate.compare.lengths import (
    Lengths,
    check_client,
    check_count,
    counted,
    listed_lengths,
    mean_lengths,
    place_of,
)
from calibrate.compare.sharing import PREFIX, Sharing, sharing_of
from calibrate.compare.talks import drawn_sessions, listed_sessions, turns_span_s
from calibrate.measured.run import MeasuredRun
from sim.engine.recorded import RecordedLoad
from sim.errors import MeasurementError
from sim.setup import Parts
from sim.workload_setup import workload
from workloads.recorded import RecordedRequest, RecordedSession
from workloads.span import Span
from workloads.workload import Workload

_COUNT = 200  # requests, where nothing says how many
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
        talking = _talking(sessions, prefix_tokens, run.load.concurrency, limit, turns_span_s(sent))
        return replace(talking, notes=(*notes, *talking.notes))
    count = len(sent) or _count(run)
    check_count(run, min(count, limit or count))
    count = min(count, limit or count)
    if run.load.sessions or (not sent and not run.input_tokens_mean):
        return _as_the_scenario(run, own, count, notes, seed)
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
    return _asking(lengths, arrivals, sharing_of(run, lengths, prefix_tokens), notes)


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


def _talking(
    sessions: Sequence[RecordedSession], prefix_tokens: int, cap: int | None, limit: int | None, span_s: float | None
) -> SentLoad:
    """Return sessions: those at listed times begin then, those of a closed loop when one before them ends."""
    notes = ("sessions as listed: each turn leaves its measured pause after the answer before it",)
    kept, turns = [], 0
    for session in sessions:
        if limit is not None and turns >= limit:
            break
        kept.append(session if cap is None else session._replace(at_s=0.0))
        turns += len(session.turns)
    first_s = min(session.at_s for session in kept)
    kept = [session._replace(at_s=session.at_s - first_s) for session in kept]
    closed = cap is not None or all(not session.at_s for session in kept)
    level = cap if cap is not None else len(kept)
    arrivals = Arrivals(
        [session.at_s for session in kept], cap, drawn=False, label=f"{level} sessions", level=level, unit="sessions"
    )
    warm = (Span(PREFIX, 0, prefix_tokens),) if prefix_tokens else ()
    load = RecordedLoad(tuple(kept), cap, warm=warm)
    return SentLoad(load, turns, None if closed else span_s, arrivals, notes, drawn=False)


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
    rate = run.load.rate_per_s
    if run.load.concurrency is None and rate and math.isfinite(rate):
        arrivals = arrivals_of(replace(run, requests=()), count, seed)
        sessions = [one._replace(at_s=at_s) for one, at_s in zip(sessions, arrivals.times_s, strict=True)]
    turns = sum(len(session.turns) for session in sessions)
    cap = run.load.concurrency
    level = cap if cap is not None else rate if rate and math.isfinite(rate) else count
    unit = "sessions" if cap is not None or not (rate and math.isfinite(rate)) else "sessions/s"
    arrivals = Arrivals([one.at_s for one in sessions], cap, True, f"{level:.4g} {unit}", level, unit)
    single = all(len(session.turns) == 1 for session in sessions)
    load = RecordedLoad(tuple(sessions), cap, warm=own.prefix)
    return SentLoad(load, turns, arrivals.span_s if single else None, arrivals, tuple(said), drawn=True)


def _count(run: MeasuredRun) -> int:
    """Return how many requests a load point that lists none had."""
    stated = run.load.requests or (run.completed or 0) + (run.failed or 0)
    if stated:
        return stated
    rate = run.metrics.get("requests_per_s") or run.load.rate_per_s
    if run.duration_s and rate and math.isfinite(rate):
        return max(1, round(min(run.duration_s * rate, 1e12)))
    return _ROUNDS * run.load.concurrency if run.load.concurrency else _COUNT
