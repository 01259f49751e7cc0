"""AIPerf's `profile_export_aiperf.json`, schema 1.3 and 1.4, and genai-perf's export before it."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibrate.measured.aiperf_names import NAMES, RATES, STATISTICS, TPOT_NOTE, unit_s
from calibrate.measured.fields import Fields
from calibrate.measured.run import MeasuredLoad, MeasuredRun

NAME = "aiperf"


def recognises(value: dict[str, Any]) -> bool:
    """Say whether an object is a summary of this tool."""
    latency = value.get("request_latency")
    return isinstance(latency, dict) and "unit" in latency and "avg" in latency


def read(file: Path, place: str, value: dict[str, Any]) -> MeasuredRun:
    """Return a summary as a load point."""
    fields = Fields(file, place, value)
    version = fields.text("aiperf_version")
    notes = [TPOT_NOTE]
    if value.get("was_cancelled") is True:
        notes.append("the run was cancelled")
    config = fields.inner("input_config")
    completed = _count(fields, "request_count")
    return MeasuredRun(
        file=file,
        format=NAME,
        place=place,
        tool=f"AIPerf {version}" if version else "AIPerf or genai-perf",
        model=_model(config),
        load=_load(config, completed),
        duration_s=_seconds(fields, "benchmark_duration"),
        completed=completed,
        failed=_count(fields, "error_request_count") or 0,
        input_tokens_mean=_mean(fields, "usage_prompt_tokens", "input_sequence_length"),
        output_tokens_mean=_mean(fields, "output_sequence_length", "usage_completion_tokens"),
        metrics=metrics_in(fields),
        notes=tuple(notes),
        settings=_settings(fields),
    )


def metrics_in(fields: Fields) -> dict[str, float]:
    """Return what a summary states of latencies, rates and hits."""
    found = {}
    for metric, name in NAMES.items():
        values = fields.inner(name)
        if not values.values:
            continue
        scale = unit_s(values)
        for statistic, key in STATISTICS.items():
            if (value := values.seconds(key, unit_s=scale)) is not None:
                found[f"{metric}_{statistic}_s"] = value
    for rate, name in RATES.items():
        if (value := fields.inner(name).number("avg")) is not None:
            found[rate] = value
    percent = fields.inner("overall_usage_prompt_cache_read_pct").number("avg")
    return found if percent is None else found | {"prefix_hit_rate": percent / 100}


def _seconds(fields: Fields, name: str) -> float | None:
    values = fields.inner(name)
    return values.seconds("avg", unit_s=unit_s(values, "sec")) if values.values else None


def _count(fields: Fields, name: str) -> int | None:
    return fields.inner(name).whole("avg")


def _mean(fields: Fields, *names: str) -> float | None:
    return next((value for name in names if (value := fields.inner(name).number("avg")) is not None), None)


def _load(config: Fields, completed: int | None) -> MeasuredLoad:
    """Return the load of the profiling phase, of `loadgen` as older versions have it, or where genai-perf says it."""
    phases = [one for one in config.items("phases") if isinstance(one, dict)]
    profiling = [one for one in phases if one.get("kind", one.get("name")) in {"profiling", None}]
    phase = Fields(config.file, "input_config.phases", (profiling or phases or [{}])[-1])
    elsewhere = (config.inner("loadgen"), config.inner("perf_analyzer").inner("stimulus"), config)
    if not phase.values:
        phase = next((one for one in elsewhere if one.values.keys() & {"concurrency", "request_rate"}), elsewhere[0])
    turns = [
        turn.get("mean")
        for one in config.items("datasets")
        if isinstance(one, dict) and isinstance(turn := one.get("turns"), dict)
    ]
    turns.append(config.inner("input").inner("conversation").inner("turn").number("mean"))
    rate = phase.number("request_rate", "rate")
    mode = phase.text("request_rate_mode", "arrival_pattern", "type")
    burstiness = {"constant": math.inf, "poisson": 1.0}.get(mode or "")
    return MeasuredLoad(
        concurrency=phase.whole("concurrency"),
        rate_per_s=rate,
        burstiness=phase.number("burstiness", "arrival_smoothness") or burstiness,
        requests=phase.whole("requests", "request_count") or completed,
        sessions=any(isinstance(mean, int | float) and mean > 1 for mean in turns),
    )


def _model(config: Fields) -> str | None:
    models: Any = config.values.get("models")
    items = models.get("items") if isinstance(models, Mapping) else models
    for one in items if isinstance(items, list) else []:
        name = one.get("name") if isinstance(one, dict) else one
        if isinstance(name, str):
            return name
    names = config.inner("endpoint").items("model_names")
    return next((name for name in names if isinstance(name, str)), None)


def _settings(fields: Fields) -> dict[str, str]:
    command = fields.inner("run_info").text("cli_command") or fields.inner("input_config").text("cli_command")
    schema = fields.text("schema_version")
    return ({"command": command} if command else {}) | ({"schema_version": schema} if schema else {})
