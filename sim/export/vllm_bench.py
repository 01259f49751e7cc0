"""The result of `vllm bench serve` (0.33): one JSON object a load level, a line each, as its --append-result writes.

Keys and their order are that tool's; arrays are seconds, statistics milliseconds. Requests that the run cut off are
left out, as a client would have waited for them: metadata says how many. Where a request went to no client queue,
`queue_times` are 0.
"""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.engine.record import UNANSWERED, Outcome, Run, TurnRecord
from sim.export.facts import DATE, Facts

PERCENTILES = (50, 90, 95, 99)
_MS = 1000.0


def bench_line(run: Run, facts: Facts, *, detailed: bool = False) -> str:
    """Return one line; `detailed` adds the arrays of --save-detailed."""
    mine = [record for record in run.records if record.population == facts.population]
    ended = [record for record in mine if record.outcome is Outcome.COMPLETED or record.outcome in UNANSWERED]
    done = [record for record in ended if record.outcome is Outcome.COMPLETED]
    times_s = {id(record): record.token_times_s for record in done}
    rate = facts.requests_per_s(mine)
    seconds = run.duration_s or 1.0
    tokens_in, tokens_out = (sum(getattr(one, f"{side}_tokens") for one in done) for side in ("prompt", "output"))
    ttft_s = np.array([record.ttft_s for record in done])
    e2e_s = np.array([record.e2e_s for record in done])
    further = np.array([record.output_tokens - 1 for record in done])
    tpot_s = (e2e_s - ttft_s)[further > 0] / further[further > 0]
    gaps_s = [np.diff(times_s[id(record)]) for record in done]
    has_slo = facts.slo.ttft_p99_s is not None or facts.slo.tpot_p99_s is not None
    line: dict[str, object] = {
        "date": DATE,
        "endpoint_type": "openai",
        "backend": "openai",
        "label": None,
        "model_id": facts.model,
        "tokenizer_id": facts.model,
        "num_prompts": len(ended),
        **facts.source,
        "unfinished": str(len(mine) - len(ended)),
        "sessions": str(len({record.session for record in ended})),
        "request_rate": "inf" if rate is None else rate,
        "burstiness": "inf" if facts.even else 1.0,
        "max_concurrency": facts.clients,
        "duration": run.duration_s,
        "completed": len(done),
        "failed": len(ended) - len(done),
        "total_input_tokens": tokens_in,
        "total_output_tokens": tokens_out,
        "request_throughput": len(done) / seconds,
        "request_goodput": _good(done, facts) / seconds if has_slo else None,
        "output_throughput": tokens_out / seconds,
        "total_token_throughput": (tokens_in + tokens_out) / seconds,
    }
    latencies = [record.e2e_s if id(record) in times_s else 0.0 for record in ended]
    queued = [0.0] * len(ended)
    if detailed:
        line |= _arrays(ended, times_s) | {"latencies": latencies}
        line["start_times"] = [record.arrival_s for record in ended]
        line["queue_times"] = queued
        line["generated_texts"] = [""] * len(ended)
        line["errors"] = ["" if id(record) in times_s else UNANSWERED[record.outcome][1] for record in ended]
    else:
        line |= {"latencies": latencies, "queue_times": queued}
    line |= _peaks(done, times_s)
    line["rtfx"] = 0.0
    all_gaps_s = np.concatenate([np.empty(0), *gaps_s])
    for name, values_s in (("ttft", ttft_s), ("tpot", tpot_s), ("itl", all_gaps_s), ("e2el", e2e_s)):
        line |= _statistics(name, values_s)
    return json.dumps(line, allow_nan=False) + "\n"


def _good(done: Sequence[TurnRecord], facts: Facts) -> int:
    ttft = np.array([record.ttft_s for record in done])
    further = np.array([max(record.output_tokens - 1, 1) for record in done])
    tpot = (np.array([record.e2e_s for record in done]) - ttft) / further
    return int(np.count_nonzero(facts.slo.met_by_turns(ttft, tpot)))


def _arrays(ended: Sequence[TurnRecord], times_s: dict[int, list[float]]) -> dict[str, object]:
    return {
        "input_lens": [record.prompt_tokens for record in ended],
        "output_lens": [record.output_tokens if id(record) in times_s else 0 for record in ended],
        "ttfts": [record.ttft_s if id(record) in times_s else 0.0 for record in ended],
        "itls": [np.diff(times_s.get(id(record), [])).tolist() for record in ended],
    }


def _peaks(done: Sequence[TurnRecord], times_s: dict[int, list[float]]) -> dict[str, object]:
    """Return the busiest second by tokens, and by requests that touched it: neither is a rate nor a concurrency."""
    if not done:
        return {"max_output_tokens_per_s": 0.0, "max_concurrent_requests": 0}
    start_s = min(record.arrival_s for record in done)
    tokens = np.concatenate([times_s[id(record)] for record in done]) - start_s
    sent = np.array([record.arrival_s for record in done]) - start_s
    ended = np.array([record.last_token_s for record in done]) - start_s
    change = np.zeros(int(ended.max()) + 2, np.int64)
    np.add.at(change, sent.astype(np.int64), 1)
    np.subtract.at(change, ended.astype(np.int64) + 1, 1)
    return {
        "max_output_tokens_per_s": float(np.bincount(tokens.astype(np.int64)).max()),
        "max_concurrent_requests": int(np.cumsum(change).max()),
    }


def _statistics(name: str, values_s: NDArray[np.float64]) -> dict[str, object]:
    """Return mean, median, std and percentiles in ms; of no values 0, as the tool writes."""
    values = values_s * _MS if len(values_s) else np.zeros(1)
    found = {"mean": values.mean(), "median": np.median(values), "std": values.std()}
    found |= {f"p{share}": np.percentile(values, share) for share in PERCENTILES}
    return {f"{statistic}_{name}_ms": float(value) for statistic, value in found.items()}
