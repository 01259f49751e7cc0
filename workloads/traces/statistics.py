"""What a trace holds, in one pass: sessions, lengths, gaps, arrivals, and what an unlimited cache would find again."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workloads.sharing.unlimited import UnlimitedCache
from workloads.traces.arrivals_seen import Arrivals, arrivals_seen
from workloads.traces.columns import DRIVERS, Columns
from workloads.traces.format import Clock
from workloads.traces.open import OpenTrace
from workloads.traces.quantiles import Quantiles, quantiles
from workloads.traces.request import HUMAN, TOOL, TraceRequest

Take = Callable[[TraceRequest], None]


@dataclass(frozen=True, slots=True)
class Found:
    """What an unlimited cache finds again in some of the requests."""

    requests: int
    prompt_tokens: int
    hit_tokens: int

    @property
    def rate(self) -> float:
        """Hits by prompt tokens."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(frozen=True, slots=True)
class Sharing:
    """What prompts have in common; `counted` says how it was counted."""

    overall: Found
    of_session: Found | None  # each session alone, main agents; None: the trace has no sessions
    of_subagent: Found | None  # each subagent alone
    distinct_tokens: int
    distinct_blocks: int | None  # None: content is not in blocks
    block_tokens: int | None
    counted: str
    no_content: int  # requests of which only lengths are known

    @property
    def across_tokens(self) -> int | None:
        """Tokens that only another session had."""
        if self.of_session is None:
            return None
        alone = self.of_session.hit_tokens + (self.of_subagent.hit_tokens if self.of_subagent else 0)
        return self.overall.hit_tokens - alone


@dataclass(frozen=True, slots=True)
class TraceStatistics:
    """A trace in numbers. Distributions are by name: of tokens, of turns a session, of seconds."""

    requests: int
    sessions: int  # main ones; 0: the trace has none
    subagents: int
    subagent_requests: int
    prompt_tokens: int
    output_tokens: int
    distributions: dict[str, Quantiles]
    gaps_are: str  # what gaps were taken from; empty: there are none
    arrivals: Arrivals | None
    sharing: Sharing | None  # None: nothing but lengths
    columns: Columns


def trace_statistics(trace: OpenTrace, *, answers: bool = False, take: Take | None = None) -> TraceStatistics:
    """Read a trace once; `take` sees each request too.

    Raises WorkloadError for what is wrong with it.
    """
    cache, columns = UnlimitedCache(answers=answers), Columns()
    for request in trace:
        columns.add(request, cache.add(request))
        if take is not None:
            take(request)
    session, subagents = columns.integers("session"), columns.subagents
    is_sub = np.append(subagents, False)[session]  # of no session, number -1: no subagent
    one_clock = trace.format.clock is Clock.TRACE
    return TraceStatistics(
        requests=len(columns),
        sessions=int((~subagents).sum()),
        subagents=int(subagents.sum()),
        subagent_requests=int(is_sub.sum()),
        prompt_tokens=_sum(columns.integers("prompt")),
        output_tokens=_sum(columns.integers("output")),
        distributions=_distributions(columns, is_sub, has_content=cache.without_content < len(columns)),
        gaps_are=_gaps_are(columns),
        arrivals=arrivals_seen(columns.seconds("at_s")) if one_clock else None,
        sharing=_sharing(cache, columns, is_sub, answers=answers),
        columns=columns,
    )


def _sum(values: NDArray[np.int32]) -> int:
    return int(values.sum(dtype=np.int64))


def _distributions(columns: Columns, is_sub: NDArray[np.bool_], *, has_content: bool) -> dict[str, Quantiles]:
    prompt, gap_s, drivers = columns.integers("prompt"), columns.seconds("gap_s"), columns.drivers
    grows, main = columns.integers("grown") > 0, ~columns.subagents
    values = {
        "prompt_tokens": prompt,
        "output_tokens": columns.integers("output"),
        "uncached_tokens": prompt - columns.integers("hit") if has_content else prompt[:0],
        "grown_tokens": columns.integers("grown")[grows],
        "fresh_tokens": np.maximum(columns.integers("fresh")[grows], 0),
        "turns": columns.turns[main],
        "first_prompt_tokens": columns.first_prompts[main],
        "last_prompt_tokens": columns.last_prompts[main],
        "gap_s": gap_s,
        "gap_human_s": gap_s[drivers == DRIVERS[HUMAN]],
        "gap_tool_s": gap_s[drivers == DRIVERS[TOOL]],
        "subagent_turns": columns.turns[~main],
        "subagent_prompt_tokens": prompt[is_sub],
    }
    found = {name: quantiles(of) for name, of in values.items()}
    return {name: of for name, of in found.items() if of is not None}


def _gaps_are(columns: Columns) -> str:
    if columns.gaps_told:
        return "as the trace tells them: from an answer to the session's next request"
    if not columns.gaps_from_times:
        return ""
    if columns.with_api:
        return "from the recorded end of an answer to the session's next request"
    return "from one request of a session to the next: they hold the server's time, too"


def _sharing(cache: UnlimitedCache, columns: Columns, is_sub: NDArray[np.bool_], *, answers: bool) -> Sharing | None:
    if cache.without_content == len(columns):
        return None
    prompt, own = columns.integers("prompt"), columns.integers("session_hit")
    session = columns.integers("session") >= 0
    main = session & ~is_sub
    sizes = list(cache.block_tokens)
    return Sharing(
        overall=Found(len(columns), _sum(prompt), _sum(columns.integers("hit"))),
        of_session=Found(int(main.sum()), _sum(prompt[main]), _sum(own[main])) if main.any() else None,
        of_subagent=Found(int(is_sub.sum()), _sum(prompt[is_sub]), _sum(own[is_sub])) if is_sub.any() else None,
        distinct_tokens=cache.distinct_tokens,
        distinct_blocks=cache.distinct_blocks if cache.with_ids else None,
        block_tokens=sizes[0] if len(sizes) == 1 else None,
        counted=_counted(cache, answers=answers),
        no_content=cache.without_content,
    )


def _counted(cache: UnlimitedCache, *, answers: bool) -> str:
    ways = []
    if cache.with_ids:
        sizes = " or ".join(str(size) for size in cache.block_tokens)
        ways.append(
            f"a prompt hits its longest run of leading {sizes}-token blocks seen before, the last may be partial"
        )
    if cache.with_spans:
        ways.append("a prompt hits as many leading tokens as an earlier prompt shares with it, to the token")
    return f"{'; '.join(ways)}; cache cold and unlimited; {_answers(cache, answers=answers)}"


def _answers(cache: UnlimitedCache, *, answers: bool) -> str:
    if not answers:
        return "prompts are cached, answers are not"
    if not cache.with_ids:
        return "prompts and answers are cached"
    if not cache.answers_found + cache.answers_lost:
        return "prompts are cached; answers are not, for nothing links them to later prompts"
    return (
        f"prompts are cached, and an answer where the session's next prompt has all before it and grew by it at least "
        f"({cache.answers_found:,} of {cache.answers_found + cache.answers_lost:,})"
    )
