"""AIPerf's `profile_export.jsonl` (0.13): one line a request, with its session, its turn and what was found cached.

Times are nanoseconds since 1970 of a run that starts at `EPOCH_S`. Ids are made of names: the same run gives the same
bytes. What only a real client has (connections, chunks, bytes) is left out.
"""

import json
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from sim.engine.record import UNANSWERED, Outcome, Run, TurnRecord
from sim.export.facts import EPOCH_S, Facts

_MS = 1000.0
_NS = 1_000_000_000
_ERROR_TYPES = {400: "BadRequestError", 500: "InternalServerError", 503: "ServiceUnavailableError"}


def aiperf_lines(run: Run, facts: Facts) -> str:
    """Return a line for each request that was answered or refused, in the order of their ends, as the tool writes."""
    mine = [record for record in run.records if record.population == facts.population]
    ended = [record for record in mine if record.outcome is Outcome.COMPLETED or record.outcome in UNANSWERED]
    sessions = {name: number for number, name in enumerate(dict.fromkeys(record.session for record in mine))}
    roots = {record.session for record in mine if not record.depth}
    lines = [
        _line(record, sessions[record.session], _root(record, roots), facts) for record in sorted(ended, key=_end_s)
    ]
    return "".join(json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n" for line in lines)


def _end_s(record: TurnRecord) -> float:
    return record.last_token_s if record.outcome is Outcome.COMPLETED else record.arrival_s


def _root(record: TurnRecord, roots: set[str]) -> str:
    """Return the session that a turn's session began in: subagents are named `SESSION/SUBAGENT`."""
    if not record.depth:
        return record.session
    parts = record.session.split("/")
    above = ("/".join(parts[:many]) for many in range(1, len(parts)))
    return next((name for name in above if name in roots), record.session)


def _line(record: TurnRecord, session: int, root: str, facts: Facts) -> dict[str, object]:
    run = f"{facts.scenario}/{facts.level}/{facts.seed}"
    session_id = str(uuid5(NAMESPACE_URL, f"{run}/{record.session}"))
    done = record.outcome is Outcome.COMPLETED
    first_s = record.first_token_s if done else record.arrival_s
    metadata: dict[str, object] = {
        "session_num": session,
        "x_request_id": str(uuid5(NAMESPACE_URL, f"{run}/{record.session}/{record.turn}")),
        "x_correlation_id": session_id,
        "conversation_id": record.session,
        "turn_index": record.turn,
        "credit_issued_ns": _ns(record.arrival_s),
        "request_start_ns": _ns(record.arrival_s),
        "request_ack_ns": _ns(first_s),
        "request_end_ns": _ns(_end_s(record)),
        "worker_id": f"{facts.source['simulated_by']}, {facts.source['load']}",
        "record_processor_id": f"{facts.scenario}, profile {facts.profile}, seed {facts.seed}",
        "benchmark_phase": "profiling",
        "was_cancelled": False,
        "agent_depth": record.depth,
        "root_correlation_id": str(uuid5(NAMESPACE_URL, f"{run}/{root}")),
    }
    if not done:
        code, message = UNANSWERED[record.outcome]
        error = {"code": code, "type": _ERROR_TYPES[code], "message": message}
        return {"metadata": metadata, "metrics": {}, "error": error}
    return {"metadata": metadata, "metrics": _metrics(record)}


def _metrics(record: TurnRecord) -> dict[str, object]:
    tokens_out = record.output_tokens
    gaps_ms = (np.diff(record.token_times_s) * _MS).tolist()
    counts = {
        "usage_prompt_tokens": record.prompt_tokens,
        "usage_completion_tokens": tokens_out,
        "usage_total_tokens": record.prompt_tokens + tokens_out,
        "usage_prompt_cache_read_tokens": record.hit_tokens,
        "input_sequence_length": record.prompt_tokens,
        "output_sequence_length": tokens_out,
        "output_token_count": tokens_out,
    }
    times_ms: dict[str, object] = {
        "time_to_first_token": record.ttft_s * _MS,
        "time_to_first_output_token": record.ttft_s * _MS,
        "request_latency": record.e2e_s * _MS,
    }
    if tokens_out > 1:
        times_ms |= {
            "time_to_second_token": gaps_ms[0],
            "inter_token_latency": (record.e2e_s - record.ttft_s) * _MS / (tokens_out - 1),
            "inter_chunk_latency": gaps_ms,
        }
    rates = {"e2e_output_token_throughput": tokens_out / record.e2e_s}
    return {
        **{name: {"value": value, "unit": "tokens"} for name, value in counts.items()},
        **{name: {"value": value, "unit": "ms"} for name, value in times_ms.items()},
        **{name: {"value": value, "unit": "tokens/sec/user"} for name, value in rates.items()},
    }


def _ns(seconds: float) -> int:
    return EPOCH_S * _NS + round(seconds * _NS)
