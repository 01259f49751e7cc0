"""The result as one JSON object, for machines. NaN becomes null; floats keep their full value."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from sim.checks import failures, published_rows
from sim.figures import Figure, figures_of
from sim.memory import MemoryLedger
from sim.results.metrics import COUNTS
from sim.results.published_errors import median_error
from sim.run import Result
from sim.scheduling.policies import VLLM_V1
from sim.scheduling.replay import POLICY_VERSION
from sim.setup import Deployment
from sim.trace_json import trace_json

WHOLE = ("sessions", *COUNTS)


def result_json(result: Result, variants: Mapping[str, Result] = {}) -> dict[str, Any]:
    """Return the result, and those of its variants, in plain types."""
    deployment = result.deployment
    scenario, knee, cause = deployment.scenario, result.knee, result.cause
    trace = trace_json(deployment)
    about_slo = cause is not None and knee.sessions is None
    return {
        "scenario": scenario.name,
        "load_unit": result.load_unit,
        "points": [_clean(point) for point in result.points],
        "knee_sessions": knee.sessions,
        "knee_refined_sessions": knee.refined_sessions,
        "knee_sessions_low": knee.low,
        "knee_sessions_high": knee.high,
        "knee_cause": cause.name if cause is not None and not about_slo else None,
        "slo_sessions": result.slo_sessions,
        "slo_cause": (cause.name or "no single limit") if cause is not None and about_slo else None,
        "cause_ttft_p99_s": None if cause is None else _clean(dict(cause.relieved_ttft_p99_s)),
        "published": published_rows(scenario),
        "median_error": median_error(result.points, published_rows(scenario)),
        "failed_checks": failures(result, variants),
        "figures": [figure_json(figure) for figure in figures_of(result, variants)],
        "memory": ledger_json(deployment.ledger),
        "arithmetic_sessions": deployment.arithmetic.sessions,
        "provenance": {
            "profile": deployment.step_times.name,
            "profile_kind": deployment.step_times.provenance.kind,
            "profile_assumed": list(deployment.step_times.assumed),
            "costs": _costs(deployment),
            "scheduler_policy": _policy(scenario.engine.scheduler),
            "seeds": result.seeds,
            "overrides": list(deployment.overrides),
            "kvcliff": version("kvcliff"),
            **({} if trace is None else {"trace": trace}),
        },
        **({"variants": {name: result_json(one) for name, one in variants.items()}} if variants else {}),
    }


def _costs(deployment: Deployment) -> dict[str, float | bool]:
    return {name: value for name, value in asdict(deployment.engine.costs).items() if value}


def _policy(scheduler: str) -> str:
    return f"vLLM V1 {POLICY_VERSION}" if scheduler == VLLM_V1 else scheduler


def figure_json(figure: Figure) -> dict[str, Any]:
    """Return a figure beside what was published of it, in plain types."""
    check = figure.check
    return {
        "what": figure.name,
        "metric": check.metric,
        "variant": check.variant,
        "sessions": check.sessions,
        **_clean(
            {"simulated": figure.simulated, "published": _number(check.published), "error": _number(figure.error)}
        ),
        "met": figure.met,
    }


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def ledger_json(ledger: MemoryLedger) -> dict[str, Any]:
    """Return the ledger in plain types."""
    span = ledger.num_gpu_blocks_range
    return {
        "num_gpu_blocks": ledger.num_gpu_blocks,
        "num_gpu_blocks_low": span.low,
        "num_gpu_blocks_high": span.high,
        "kv_cache_tokens": ledger.kv_cache_tokens,
        "max_concurrency": ledger.max_concurrency,
        "kv_bytes": ledger.kv_bytes,
        "bytes_per_token": ledger.bytes_per_token,
        "starts": ledger.starts,
        "refusal": ledger.refusal,
        "largest_max_model_len": ledger.largest_max_model_len,
        "gpu": ledger.gpu,
        "model": ledger.model,
        "max_model_len": ledger.limits.max_model_len,
        "total_visible_bytes": ledger.rank.total_visible_bytes,
        "budget_bytes": ledger.rank.budget_bytes,
        "weight_bytes": ledger.rank.weight_bytes,
        "activation_bytes": ledger.rank.activation_bytes.likely,
        "non_torch_bytes": ledger.rank.non_torch_bytes.likely,
        "cuda_graph_bytes": ledger.rank.cuda_graph_bytes.likely,
        "provenance": dict(ledger.provenance),
    }


def _clean(values: dict[str, float]) -> dict[str, Any]:
    cleaned: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            cleaned[key] = None
        else:
            cleaned[key] = int(value) if key in WHOLE else value
    return cleaned
