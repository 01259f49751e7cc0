"""One load point that somebody measured, in one definition per metric whatever tool wrote it.

Seconds, tokens and shares. TTFT is client send to first token, TPOT (E2E - TTFT) / (output tokens - 1), ITL the gap
between two tokens (or chunks), E2E client send to last token. What a tool defines otherwise is converted, or left out
with a note.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

METRICS = ("ttft", "tpot", "itl", "e2e")  # keys of `metrics`: <metric>_<statistic>_s with a statistic of these
STATISTICS = ("mean", "std", "p50", "p75", "p90", "p95", "p99")
RATES = ("requests_per_s", "output_tokens_per_s", "input_tokens_per_s", "total_tokens_per_s")
SERVER = ("prefix_hit_rate", "kv_usage_peak", "preemptions", "running_peak", "queue_p50_s", "queue_mean_s")


@dataclass(frozen=True, slots=True)
class MeasuredRequest:
    """One request of a detailed result; None is what the tool does not say."""

    prompt_tokens: int
    output_tokens: int
    sent_s: float | None = None  # from the start of the run
    ttft_s: float | None = None
    e2e_s: float | None = None
    itls_s: Sequence[float] = ()
    session: str | None = None
    turn: int | None = None  # from 0
    hit_tokens: int | None = None
    depth: int = 0  # of agents: 0 the main one
    failed: bool = False


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """How the client sent; None is what the result does not say."""

    concurrency: int | None = None  # most in flight
    rate_per_s: float | None = None  # requests a second; inf: all at once
    burstiness: float | None = None  # 1: Poisson; inf: even; as vLLM counts
    requests: int | None = None
    sessions: bool = False  # of several turns


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One line of an engine's log about its traffic."""

    at_s: float | None  # from the first such line
    prompt_tokens_per_s: float
    output_tokens_per_s: float
    running: int
    waiting: int
    kv_usage: float | None = None  # of 1
    hit_rate: float | None = None
    preemptions: int = 0  # since the line before


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One load point."""

    file: Path
    format: str
    place: str = ""  # in the file: `line 3`, `benchmark 2`
    tool: str = ""  # with its version, as stated
    model: str | None = None
    load: MeasuredLoad = MeasuredLoad()
    duration_s: float | None = None
    completed: int | None = None
    failed: int | None = None
    input_tokens_mean: float | None = None
    output_tokens_mean: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    requests: tuple[MeasuredRequest, ...] = ()
    notes: tuple[str, ...] = ()  # what was converted or left out
    settings: Mapping[str, str] = field(default_factory=dict)  # of engine and client, as stated
    buckets: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)  # ttft.. -> bound, cumulative
    series: tuple[EngineSample, ...] = ()  # what the server said over time
