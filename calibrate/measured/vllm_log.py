"""What a vLLM engine logs every few seconds while it serves, and what it said while starting.

Rates are of the intervals in which it served. The hit rate is vLLM's own, over its last 1,000 requests.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from calibrate.measured.run import EngineSample, MeasuredRun
from sim.errors import MeasurementError
from sim.startup_log import StartupLogError, read_startup_log
from workloads.errors import WorkloadError
from workloads.traces.text_lines import byte_lines

NAME = "vllm-log"
MARK = "Avg prompt throughput:"
STARTS = ("GPU KV cache size", "# GPU blocks", "Initializing a V1 LLM", "vLLM API server version", "LLM engine (v")
_REAL = r"([\d.]+|nan|inf)"
_FIELDS = {
    "prompt": re.compile(rf"Avg prompt throughput: {_REAL} tokens/s"),
    "output": re.compile(rf"Avg generation throughput: {_REAL} tokens/s"),
    "running": re.compile(r"Running: (\d+) reqs"),
    "waiting": re.compile(r"(?:Waiting|Pending): (\d+) reqs"),
    "preempted": re.compile(r"Preemptions: (\d+)"),
    "usage": re.compile(rf"GPU KV cache usage: {_REAL}%"),
    "hits": re.compile(rf"Prefix cache hit rate: (?:GPU: )?{_REAL}%"),
}
_TIME = re.compile(r"\b(?:(\d{4})-)?(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\b")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def looks_like(text: str) -> bool:
    """Say whether a piece of text is such a log."""
    return MARK in text or any(start in text for start in STARTS)


def read(path: Path) -> MeasuredRun:
    """Return what a log says of the server.

    Raises MeasurementError where it can neither tell of a start nor of traffic.
    """
    samples = tuple(_samples(path))
    settings, notes = _start(path)
    if not samples and not settings:
        raise MeasurementError(f"{path}: no line of it tells of vLLM's start or of its traffic")
    if not samples:
        return MeasuredRun(path, NAME, tool="vLLM", settings=settings, notes=(*notes, "a start without traffic"))
    busy = [one for one in samples if one.running or one.waiting or one.output_tokens_per_s or one.prompt_tokens_per_s]
    times = [one.at_s for one in busy if one.at_s is not None]
    notes += [f"rates are means over {len(busy)} of {len(samples)} lines, those with traffic"]
    if any(one.hit_rate is not None for one in samples):
        notes.append("prefix hits are vLLM's at the last line, over its last 1,000 requests")
    return MeasuredRun(
        path,
        NAME,
        tool=f"vLLM {settings['version']}" if "version" in settings else "vLLM",
        model=settings.get("model"),
        duration_s=max(times) - min(times) if len(times) > 1 else None,
        metrics=_metrics(busy or samples),
        notes=tuple(notes),
        settings=settings,
        series=samples,
    )


def _metrics(samples: Sequence[EngineSample]) -> dict[str, float]:
    found = {
        "input_tokens_per_s": float(np.mean([one.prompt_tokens_per_s for one in samples])),
        "output_tokens_per_s": float(np.mean([one.output_tokens_per_s for one in samples])),
        "running_peak": float(max(one.running for one in samples)),
    }
    usages = [one.kv_usage for one in samples if one.kv_usage is not None]
    hits = [one.hit_rate for one in samples if one.hit_rate is not None]
    if usages:
        found["kv_usage_peak"] = max(usages)
    if hits:
        found["prefix_hit_rate"] = hits[-1]
    if any(one.preemptions for one in samples):
        found["preemptions"] = float(sum(one.preemptions for one in samples))
    return found


def _samples(path: Path) -> Iterator[EngineSample]:
    first: datetime | None = None
    last_s = 0.0
    try:
        for number, line in byte_lines(path):
            if MARK.encode() not in line:
                continue
            text = _ANSI.sub("", line.decode("utf-8", "replace"))
            at = _time(text)
            first = first or at
            if first is not None and at is not None:
                last_s = (at - first).total_seconds()
                if last_s < 0:  # a new year, in stamps without one
                    last_s += timedelta(days=366).total_seconds()
            yield _sample(path, number, text, last_s if at is not None else None)
    except WorkloadError as error:
        raise MeasurementError(str(error)) from None


def _sample(path: Path, number: int, text: str, at_s: float | None) -> EngineSample:
    found = {name: match[1] for name, pattern in _FIELDS.items() if (match := pattern.search(text))}
    try:
        prompt, output = float(found["prompt"]), float(found["output"])
        running, waiting = int(found["running"]), int(found.get("waiting", 0))
        usage, hits = (_share(found.get(name)) for name in ("usage", "hits"))
    except (KeyError, ValueError):
        raise MeasurementError(f"{path}: line {number} is cut: {text.strip()[-60:]!r}") from None
    return EngineSample(at_s, prompt, output, running, waiting, usage, hits, int(found.get("preempted", 0)))


def _share(percent: str | None) -> float | None:
    return None if percent is None else float(percent) / 100


def _time(text: str) -> datetime | None:
    match = _TIME.search(text)
    if match is None:
        return None
    year, *rest = (int(part) if part else 2000 for part in match.groups())  # a leap year where none is given
    month, day, hour, minute, second = rest
    try:
        return datetime(year, month, day, hour, minute, second)  # noqa: DTZ001  only differences count
    except ValueError:
        return None


def _start(path: Path) -> tuple[dict[str, str], list[str]]:
    """Return what the engine said while starting, as settings; nothing where the log does not hold it."""
    try:
        facts = read_startup_log(path)
    except StartupLogError:
        return {}, []
    told = {
        "engine": facts.engine,
        "version": facts.engine_version,
        "model": facts.model,
        "gpu": facts.gpu_name,
        "dtype": facts.dtype,
        "kv_cache_dtype": facts.kv_cache_dtype,
        "max_model_len": facts.max_model_len,
        "max_num_seqs": facts.max_num_seqs,
        "max_num_batched_tokens": facts.max_num_batched_tokens,
        "block_size": facts.block_size,
        "gpu_memory_utilization": facts.gpu_memory_utilization,
        "tensor_parallel_size": facts.tensor_parallel_size,
        "enable_prefix_caching": facts.enable_prefix_caching,
        "num_gpu_blocks": facts.num_gpu_blocks,
        "kv_tokens": facts.tokens,
    }
    return {name: str(value) for name, value in told.items() if value is not None}, list(facts.notes)
