"""A trace in a line, and the lines below its tables: how it was read, and what to know before using it."""

from sim.report.trace_numbers import counted, percent, span, tokens
from workloads.sharing.retention import Retention
from workloads.traces.format import Clock
from workloads.traces.open import OpenTrace
from workloads.traces.statistics import TraceStatistics

NO_CONTENT = "no hit rate: the trace has lengths alone, and nothing tells which prompts begin alike"


def understood(trace: OpenTrace, found: TraceStatistics) -> str:
    """Return what was understood of a trace, in a line."""
    agents = f" and {counted(found.subagents, 'subagent')}" if found.subagents else ""
    sessions = f" of {counted(found.sessions, 'session')}{agents}" if found.sessions else ""
    when = ""
    if found.arrivals is not None and found.arrivals.span_s > 0:
        begin = ", which begin" if found.arrivals.of == "sessions" else ""
        when = f"{begin} over {span(found.arrivals.span_s)}"
    files = f", {len(trace.files):,} files" if len(trace.files) > 1 else ""
    lengths = f"{tokens(found.prompt_tokens)} prompt and {tokens(found.output_tokens)} answer tokens"
    requests = counted(found.requests, "request")
    return f"{trace.format.title}{files}: {requests}{sessions}{when}, {lengths}; {_shared(found)}"


def _shared(found: TraceStatistics) -> str:
    if found.sharing is None:
        return "lengths alone, so no hit rate"
    return f"{percent(found.sharing.overall.rate)} of prompt tokens come back"


def readings(trace: OpenTrace, found: TraceStatistics, kept: Retention | None) -> list[str]:
    """Return how it was read and counted, and what is not told."""
    lines = list(trace.notes)
    if found.sharing is not None:
        lines.append(f"hits: {found.sharing.counted}")
        if found.sharing.no_content:
            lines.append(f"{counted(found.sharing.no_content, 'request')} without content can hit nothing")
    if found.gaps_are:
        lines.append(f"gaps: {found.gaps_are}")
    lines += _times(trace, found)
    if kept is not None:
        lines += _retention(trace, found, kept)
    if trace.bad_rows:
        lines.append(f"{counted(trace.bad_rows, 'bad row')} skipped, the first: {trace.first_bad}")
    return lines


def _times(trace: OpenTrace, found: TraceStatistics) -> list[str]:
    if trace.format.clock is Clock.SESSION:
        return ["times: each session has its own clock; how sessions lie to each other is not told"]
    if trace.format.clock is Clock.NONE:
        return ["times: none"]
    tick_s = found.arrivals.tick_s if found.arrivals is not None else None
    if tick_s is None or found.arrivals is None:
        return []
    at_once = found.requests / found.arrivals.stamps
    stamps = f"times are multiples of {tick_s:.3g} s ({found.arrivals.stamps:,} stamps)"
    return [f"{stamps}: replayed as they are, {at_once:.0f} requests arrive at once"]


def _retention(trace: OpenTrace, found: TraceStatistics, kept: Retention) -> list[str]:
    lines = ["retention: LRU touches the deepest block first; the optimum knows the future (Belady); prompts are kept"]
    if trace.format.clock is not Clock.TRACE and kept.kept is not None:
        lines.append("cache sizes: for all sessions at once, each beginning at 0; times kept: within a session alone")
    elif kept.kept is None:
        lines.append("cache sizes: requests in the order of rows, for the trace does not tell when they come")
    if kept.kept is not None and not found.columns.with_api + found.columns.gaps_told:
        lines.append("content is idle from the arrival of the last request that had it: when answers ended is not told")
    if kept.left_out:
        lines.append(f"the curves are of the first {kept.requests:,} requests; the other {kept.left_out:,} do not fit")
    return lines


def arrivals_line(found: TraceStatistics) -> str:
    """Return rate and burstiness, or nothing where requests have no common clock."""
    seen = found.arrivals
    if seen is None or seen.per_s is None or seen.cv is None:
        return ""
    rate = f"{seen.per_s:.3g}/s" if seen.per_s >= 0.1 else f"{seen.per_s * 60:.3g}/min"
    return f"{seen.of} arrive at {rate}, CV of the time between two {seen.cv:.2f} (1 is Poisson)"


def half_life(kept: Retention) -> list[str]:
    """Return what it takes for half of what an unlimited cache hits, and for 90 %."""
    lines = []
    for share, name in ((0.5, "half"), (0.9, "90 %")):
        if not kept.hit_tokens:
            break
        blocks = kept.lru.smallest(share * kept.hit_tokens)
        lru = f"LRU finds {name} of what comes back with {tokens(blocks * kept.block_tokens)} tokens of cache"
        best = next(size for size, hit in zip(kept.sizes, kept.optimum, strict=True) if hit >= share * kept.hit_tokens)
        text = f"{lru}, the optimum with at most {tokens(best * kept.block_tokens)}"
        time_s = kept.kept.time_for(share) if kept.kept is not None else None
        lines.append(text if time_s is None else f"{text}; kept {span(time_s)}, {name} comes back")
    return lines
