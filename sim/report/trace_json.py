"""A trace's statistics as one JSON object, for machines: tokens, seconds, shares from 0 to 1."""

from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from sim.report.trace_tables import prefill
from sim.report.trace_words import NO_CONTENT, readings, understood
from workloads.sharing.retention import KEPT_S, Retention
from workloads.traces.open import OpenTrace
from workloads.traces.statistics import Found, Sharing, TraceStatistics


def trace_json(trace: OpenTrace, found: TraceStatistics, kept: Retention | None) -> dict[str, Any]:
    """Return everything in plain types; what is not known is null."""
    return {
        "trace": str(trace.path),
        "format": trace.format.name,
        "understood": understood(trace, found),
        "readings": readings(trace, found, kept),
        "files": len(trace.files),
        "bad_rows": trace.bad_rows,
        "first_bad_row": trace.first_bad or None,
        "requests": found.requests,
        "sessions": found.sessions,
        "subagents": found.subagents,
        "subagent_requests": found.subagent_requests,
        "prompt_tokens": found.prompt_tokens,
        "output_tokens": found.output_tokens,
        "distributions": {name: asdict(one) for name, one in found.distributions.items()},
        "gaps_are": found.gaps_are or None,
        "arrivals": None if found.arrivals is None else asdict(found.arrivals),
        "hit_rate": None if found.sharing is None else found.sharing.overall.rate,
        "no_hit_rate_because": NO_CONTENT if found.sharing is None else None,
        "sharing": None if found.sharing is None else _sharing(found.sharing),
        "retention": None if kept is None else _retention(kept),
        "provenance": {"kvcliff": version("kvcliff"), "approximated": []},
    }


def _sharing(sharing: Sharing) -> dict[str, Any]:
    return {
        "overall": _found(sharing.overall),
        "each_session_alone": _found(sharing.of_session),
        "each_subagent_alone": _found(sharing.of_subagent),
        "across_sessions_tokens": sharing.across_tokens,
        "distinct_tokens": sharing.distinct_tokens,
        "distinct_blocks": sharing.distinct_blocks,
        "block_tokens": sharing.block_tokens,
        "requests_without_content": sharing.no_content,
        "counted": sharing.counted,
    }


def _found(found: Found | None) -> dict[str, Any] | None:
    return None if found is None else {**asdict(found), "hit_rate": found.rate}


def _retention(kept: Retention) -> dict[str, Any]:
    total = kept.prompt_tokens
    sizes = []
    for size, best in zip(kept.sizes, kept.optimum, strict=True):
        hit = kept.lru.at(size)
        sizes.append(
            {
                "cache_blocks": size,
                "cache_tokens": size * kept.block_tokens,
                "lru_hit_rate": hit / total,
                "lru_hit_tokens": hit,
                "lru_recomputed_tokens": kept.hit_tokens - hit,
                "lru_prefill_ratio": prefill(kept, hit),
                "optimum_hit_rate": best / total,
                "optimum_hit_tokens": best,
                "optimum_recomputed_tokens": kept.hit_tokens - best,
                "optimum_prefill_ratio": prefill(kept, best),
            }
        )
    curve = kept.kept
    return {
        "requests": kept.requests,
        "requests_left_out": kept.left_out,
        "prompt_tokens": total,
        "unlimited_hit_tokens": kept.hit_tokens,
        "unlimited_hit_rate": kept.hit_tokens / total,
        "block_tokens": kept.block_tokens,
        "distinct_blocks": kept.distinct_blocks,
        "sizes": sizes,
        "half_at_cache_tokens": kept.lru.smallest(0.5 * kept.hit_tokens) * kept.block_tokens,
        "kept": None
        if curve is None
        else [
            {
                "kept_s": time_s,
                "hit_rate": curve.at(time_s) / total,
                "hit_tokens": curve.at(time_s),
                "recomputed_tokens": curve.tokens - curve.at(time_s),
            }
            for time_s in KEPT_S
        ],
        "half_life_s": None if curve is None else curve.time_for(0.5),
    }
