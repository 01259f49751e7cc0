"""A trace in the terminal: lengths and gaps, what is shared, and the retention curves, as rich renderables."""

from collections.abc import Callable

from rich import box
from rich.table import Table

from sim.report.trace_numbers import percent, span, tokens
from workloads.sharing.retention import KEPT_S, Retention
from workloads.traces.quantiles import Quantiles
from workloads.traces.statistics import Found, Sharing, TraceStatistics

TITLES = {
    "prompt_tokens": "prompt tokens",
    "output_tokens": "answer tokens",
    "uncached_tokens": "  never seen before",
    "grown_tokens": "growth in a session",
    "fresh_tokens": "  beyond the answer",
    "turns": "requests a session",
    "first_prompt_tokens": "  its first prompt",
    "last_prompt_tokens": "  its last prompt",
    "subagent_turns": "requests a subagent",
    "subagent_prompt_tokens": "  its prompts",
    "gap_s": "gap in a session",
    "gap_human_s": "  before a human",
    "gap_tool_s": "  before a tool",
}
COLUMNS = {"mean": "mean", "p25": "p25", "p50": "p50", "p75": "p75", "p90": "p90", "p99": "p99", "most": "max"}
ROWS = 10  # of the cache sizes


def _table(first: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(first, no_wrap=True)
    return table


def distributions_table(found: TraceStatistics) -> Table:
    """Return percentiles, a row a quantity."""
    table = _table("")
    for title in COLUMNS.values():
        table.add_column(title, justify="right", no_wrap=True)
    for name, title in TITLES.items():
        one = found.distributions.get(name)
        if one is not None:
            table.add_row(title, *_values(one, _short_span if name.endswith("_s") else tokens))
    return table


def _short_span(duration_s: float) -> str:
    return span(duration_s).replace(" ", "")


def _values(one: Quantiles, form: Callable[[float], str]) -> list[str]:
    return [form(getattr(one, column)) for column in COLUMNS]


def sharing_table(sharing: Sharing) -> Table:
    """Return what an unlimited cache finds again: of all, and of each session alone."""
    table = _table("found again by an unlimited cache")
    for title in ("hit rate", "tokens", "of"):
        table.add_column(title, justify="right", no_wrap=True)
    rows: dict[str, Found | None] = {
        "all requests": sharing.overall,
        "each session alone": sharing.of_session,
        "each subagent alone": sharing.of_subagent,
    }
    for title, one in rows.items():
        if one is not None:
            table.add_row(title, percent(one.rate), tokens(one.hit_tokens), tokens(one.prompt_tokens))
    if sharing.across_tokens is not None:
        across, of = sharing.across_tokens, sharing.overall.prompt_tokens
        table.add_row("from another session only", percent(across / of), tokens(across), tokens(of))
    blocks = ""
    if sharing.distinct_blocks is not None:
        size = f" of {sharing.block_tokens:,}" if sharing.block_tokens is not None else ""
        blocks = f" in {sharing.distinct_blocks:,} blocks{size}"
    table.caption = f"distinct: {tokens(sharing.distinct_tokens)} tokens{blocks}"
    table.caption_justify = "left"
    return table


def sizes_table(kept: Retention) -> Table:
    """Return hit rate and what is computed again, by cache size."""
    table = _table("cache, tokens")
    for title in ("blocks", "LRU hits", "optimum", "LRU computes again", "prefill"):
        table.add_column(title, justify="right", no_wrap=True)
    rows = len(kept.sizes)
    shown = sorted({round(place * (rows - 1) / (min(ROWS, rows) - 1 or 1)) for place in range(min(ROWS, rows))})
    for place in shown:
        size, best = kept.sizes[place], kept.optimum[place]
        hit = kept.lru.at(size)
        table.add_row(
            tokens(size * kept.block_tokens),
            f"{size:,}",
            percent(hit / kept.prompt_tokens),
            percent(best / kept.prompt_tokens),
            tokens(kept.hit_tokens - hit),
            f"{prefill(kept, hit):.2f} x",
        )
    table.caption = f"blocks of {kept.block_tokens:,} tokens; prefill: tokens computed, 1 with an unlimited cache"
    table.caption_justify = "left"
    return table


def kept_table(kept: Retention) -> Table | None:
    """Return hit rate and what is computed again, by how long content is kept; None without times."""
    curve = kept.kept
    if curve is None or not curve.tokens:
        return None
    table = _table("kept idle for")
    for title in ("hits", "of what comes back", "computed again", "prefill"):
        table.add_column(title, justify="right", no_wrap=True)
    for time_s in KEPT_S:
        hit = curve.at(time_s)
        table.add_row(
            span(time_s),
            percent(hit / kept.prompt_tokens),
            percent(hit / curve.tokens),
            tokens(curve.tokens - hit),
            f"{(kept.prompt_tokens - hit) / max(kept.prompt_tokens - curve.tokens, 1):.2f} x",
        )
        if hit == curve.tokens:
            break
    return table


def prefill(kept: Retention, hit_tokens: int) -> float:
    """Return the tokens to be computed with so many hits, by those of an unlimited cache."""
    return (kept.prompt_tokens - hit_tokens) / max(kept.prompt_tokens - kept.hit_tokens, 1)
