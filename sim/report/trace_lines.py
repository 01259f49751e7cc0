"""What is said of a recorded trace: how it was read, what is sent of it, and what the rules changed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sim.units import seconds

if TYPE_CHECKING:
    from workloads.traces.open_loop import Trace
    from workloads.traces.replay import Replay


def trace_lines(trace: "Trace") -> Iterator[str]:
    """Yield how many requests are sent, how fast, and how the file was read."""
    totals, rules = trace.totals, trace.rules
    requests, span_s = totals.requests * rules.repeat, totals.last_s - totals.first_s
    if not span_s:
        yield f"trace: {_many(requests, 'request')}, all at once"
    else:
        yield f"trace: {requests:,} requests, {(totals.requests - 1) / span_s * rules.rate_scale:.3g} a second"
    if trace.tick_s is not None:
        each = f"arrivals are stamped every {trace.tick_s:g} s"
        if rules.jitter_s:
            yield f"{each}; each is sent up to {rules.jitter_s:g} s later"
        else:
            yield f"{each} and sent so, in bursts: the p99 is theirs; load.jitter_s={trace.tick_s:g} spreads them"
    yield from _reading(trace.format, trace.notes, totals.bad_rows)


def replay_lines(replay: "Replay") -> Iterator[str]:
    """Yield what clients live through, and what each rule changed."""
    totals = replay.totals
    subagents = f" and {_many(totals.subagents, 'subagent')}" if totals.subagents else ""
    yield (
        f"replay: {_many(totals.sessions, 'session')}{subagents} of {_many(totals.requests, 'request')}, "
        f"{totals.mean_peak_tokens:,.0f} tokens at their deepest on average, drawn at random"
    )
    yield f"rules: {'; '.join(rules_told(replay))}"
    yield from _reading(replay.format, replay.notes, totals.bad_rows)


def rules_told(replay: "Replay") -> Iterator[str]:
    """Yield the rules in words, with what they changed."""
    rules, changes = replay.rules, replay.changes
    if rules.times == "closed":
        yield "each turn thinks after its simulated answer"
    else:
        yield "turns at recorded times, or when the answer before is there"
    if rules.gap_cap_s is None:
        yield "no pause is cut"
    else:
        cut = f" ({seconds(changes.capped_s)} in all)" if changes.capped_gaps else ""
        yield f"{_many(changes.capped_gaps, 'pause')} cut to {rules.gap_cap_s:g} s{cut}"
    yield _SHARING[rules.ids]
    front = replay.totals.front_tokens
    if front or rules.shared_prefix_share != 1:
        yield f"{rules.shared_prefix_share:.0%} of a common front is shared (up to {front:,} tokens)"
    if changes.kept_answers or changes.left_answers:
        yield (
            f"answers reusable {rules.outputs_reusable}: {changes.kept_answers:,} of "
            f"{changes.kept_answers + changes.left_answers:,} prompts hold the one before"
        )
    yield from _left_out(replay)


def _left_out(replay: "Replay") -> Iterator[str]:
    """Yield what is not as recorded for want of room, or of a word in the trace."""
    rules, changes = replay.rules, replay.changes
    if changes.ended:
        yield (
            f"{_many(changes.ended, 'session')} end before {rules.max_context_tokens:,} tokens "
            f"({_many(changes.cut_turns, 'turn')} left out)"
        )
    if changes.dropped:
        yield f"{_many(changes.dropped, 'session')} longer than {rules.max_context_tokens:,} tokens dropped"
    if changes.refused:
        yield f"{_many(changes.refused, 'turn')} longer than {rules.max_context_tokens:,} tokens sent to be refused"
    if changes.gaps_from_arrivals:
        yield f"{_many(changes.gaps_from_arrivals, 'pause')} from arrival to arrival, recorded service included"
    if changes.unknown_gaps:
        yield f"{_many(changes.unknown_gaps, 'pause')} that the trace does not tell taken as 0"
    if changes.orphans:
        yield f"{_many(changes.orphans, 'subagent')} without a parent in the trace are sessions"


_SHARING = {
    "local": "users share what the trace says its sessions share",
    "rename": "users share nothing by ids",
    "keep": "equal ids are equal content, among users too",
}


def _reading(format_name: str, notes: tuple[str, ...], bad_rows: int) -> Iterator[str]:
    told = [*notes, *([f"{_many(bad_rows, 'bad row')} skipped"] if bad_rows else [])]
    yield f"read as {format_name}{': ' if told else ''}{'; '.join(told)}"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
