"""The scenario file: GPU, model, engine flags, sessions, load, stop rule, and what was published about it.

Only the schema and its rules; `setup.py` turns a scenario into something that runs. Engine settings carry vLLM's
own flag names. Every unknown key, wrong type or impossible number is one line with its place in the file.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sim.catalog import KV_DTYPES
from sim.check_spec import BASE_VARIANT, ChecksSpec
from sim.cost_spec import CostsSpec
from sim.errors import one_of
from sim.pressure_spec import PressureSpec, RetrySpec
from sim.scheduling.order import RANKS
from sim.scheduling.policies import CHUNKED_PREFILL, HEEDING_THRESHOLDS, RESERVING, SCHEDULERS, VLLM_V1
from sim.scheduling.reserving import KV_RESERVATIONS, PAGED
from sim.trace_spec import Count, ReplaySpec, TraceSpec
from sim.workload_spec import Positive, Seconds, Sessions, Spec, Tokens, WorkloadSpec


class CommonStartSpec(Spec, tag_field="kind", tag="common", frozen=True):
    """All clients begin together, give or take the jitter."""

    jitter_s: Seconds = 0.0


class StaggeredStartSpec(Spec, tag_field="kind", tag="staggered", frozen=True):
    """Clients begin evenly spread over a time."""

    over_s: Seconds


class ClosedLoopSpec(Spec, tag_field="kind", tag="closed", frozen=True):
    """N sessions always under way; a client whose session is over starts another."""

    sessions: Annotated[list[Sessions], Meta(min_length=1)]
    start: CommonStartSpec | StaggeredStartSpec = CommonStartSpec()


class PoissonSpec(Spec, tag_field="kind", tag="poisson", frozen=True):
    """Sessions begin at random, so many a minute on average."""

    sessions_per_minute: Annotated[list[Sessions], Meta(min_length=1)]


class ConstantRateSpec(Spec, tag_field="kind", tag="constant_rate", frozen=True):
    """Sessions begin at even intervals, so many a minute."""

    sessions_per_minute: Annotated[list[Sessions], Meta(min_length=1)]


class BurstsSpec(Spec, tag_field="kind", tag="bursts", frozen=True):
    """So many sessions begin at once, again and again."""

    sessions_per_burst: Annotated[list[Sessions], Meta(min_length=1)]
    interval_s: Positive
    jitter_s: Seconds = 0.0

    def __post_init__(self) -> None:
        if self.jitter_s >= self.interval_s:
            raise ValueError(f"jitter_s {self.jitter_s:g} must be below interval_s {self.interval_s:g}")


SessionsSpec = ClosedLoopSpec | PoissonSpec | ConstantRateSpec | BurstsSpec
LoadSpec = SessionsSpec | TraceSpec


class StopSpec(Spec, frozen=True):
    """The run ends at the first limit reached; requests are completed turns. Background sessions do not count."""

    requests: Count | None = None
    duration_s: Annotated[float, Meta(gt=0, le=1e7)] | None = None
    sessions_per_client: Count | None = None

    def __post_init__(self) -> None:
        if self.requests is None and self.duration_s is None and self.sessions_per_client is None:
            raise ValueError("needs one of requests, duration_s, sessions_per_client, or the run would never end")


class BackgroundSpec(Spec, frozen=True):
    """Other sessions on the same engine, as many at every load point; metrics leave them out."""

    sessions: Sessions
    workload: WorkloadSpec
    priority: int = 1


_KV_FIXED_BY = ("kv_cache_tokens", "num_gpu_blocks_override", "kv_cache_memory_bytes", "startup_log")


class EngineSpec(PressureSpec, frozen=True, kw_only=True):
    """vLLM's flags, with the defaults of its 0.32.0 API server; the step budget and max_num_seqs go by GPU."""

    max_model_len: Annotated[int, Meta(ge=1, le=10_000_000)]
    kv_cache_dtype: str = "auto"
    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] | None = None  # the version's default: 0.92, once 0.9
    max_num_batched_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None  # by GPU, as vLLM chooses
    max_num_seqs: Annotated[int, Meta(ge=1, le=100_000)] | None = None  # by GPU too
    block_size: Annotated[int, Meta(ge=1, le=4096)] = 16
    tensor_parallel_size: Annotated[int, Meta(ge=1, le=64)] = 1  # needs a device profile with links for as many GPUs
    enable_prefix_caching: bool | None = None  # on; off for models with recurrent layers before 0.28
    enable_chunked_prefill: bool = True
    scheduling_policy: str = "fcfs"  # vLLM's fcfs and priority, and orders it does not have (sim/scheduling/order.py)
    async_scheduling: bool = True
    scheduler_reserve_full_isl: bool = True
    long_prefill_token_threshold: Tokens = 0
    long_prefill_token_threshold_adaptive: bool = False
    watermark: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    enforce_eager: bool = False
    kv_cache_tokens: Count | None = None
    num_gpu_blocks_override: Annotated[int, Meta(ge=2, le=100_000_000)] | None = None
    kv_cache_memory_bytes: Annotated[int, Meta(ge=1, le=10**14)] | None = None
    startup_log: str | None = None  # of such an engine: its own figures instead of the ledger's estimate
    mamba_ssm_cache_dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    mamba_cache_mode: Literal["none", "align", "all"] | None = None
    disable_hybrid_kv_cache_manager: bool = False
    language_model_only: bool = False
    vllm_version: str = "0.32.0"  # for what the ledger charges; the scheduler is 0.32.0's
    # What vLLM V1 does not have:
    scheduler: str = VLLM_V1  # another batching policy (sim/scheduling/policies.py)
    prefill_chunk_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None  # of scheduler chunked_prefill; 512
    kv_reservation: str = PAGED  # of static_batches and fixed_slots: an area a request instead of blocks
    priority_quotas: dict[int, Annotated[int, Meta(ge=1, le=100_000)]] = {}  # of scheduling_policy priority_quota
    first_token_due_s: Positive | None = None  # of earliest_deadline: from arrival

    def __post_init__(self) -> None:
        self._check_policies()
        self._check_chunks()
        self.check_pressure(self.scheduler, self.kv_reservation, async_scheduling=self.async_scheduling)
        if self.kv_cache_dtype not in KV_DTYPES:
            raise ValueError(f"kv_cache_dtype {one_of(self.kv_cache_dtype, KV_DTYPES)}")
        budget = self.max_num_batched_tokens
        if not self.enable_chunked_prefill and (budget is None or budget < self.max_model_len):
            raise ValueError(
                f"max_num_batched_tokens {budget} must be at least max_model_len {self.max_model_len} when "
                "enable_chunked_prefill is false (vLLM refuses it too)"
            )
        fixed = [name for name in _KV_FIXED_BY if getattr(self, name) is not None]
        if len(fixed) > 1:
            raise ValueError(f"{' and '.join(fixed)} say the same thing; give one")

    def _check_policies(self) -> None:
        names = (("scheduler", SCHEDULERS), ("kv_reservation", KV_RESERVATIONS), ("scheduling_policy", RANKS))
        for key, valid in names:
            if getattr(self, key) not in valid:
                raise ValueError(f"{key} {one_of(getattr(self, key), valid)}")
        if self.kv_reservation != PAGED and self.scheduler not in RESERVING:
            raise ValueError(f"kv_reservation {self.kv_reservation} needs scheduler {' or '.join(RESERVING)}")
        policy, quotas = self.scheduling_policy, bool(self.priority_quotas)
        if (policy == "priority_quota") != quotas:
            raise ValueError("scheduling_policy priority_quota and priority_quotas need each other")
        if quotas and (self.scheduler != VLLM_V1 or self.has_remedy):
            raise ValueError(f"scheduling_policy priority_quota needs scheduler {VLLM_V1}, no swap, limit or shedding")
        if (policy == "earliest_deadline") != (self.first_token_due_s is not None):
            raise ValueError("scheduling_policy earliest_deadline and first_token_due_s need each other")
        budget = self.max_num_batched_tokens
        if self.scheduler == "prefill_first" and (budget is None or budget < self.max_model_len):
            raise ValueError(
                f"max_num_batched_tokens {budget} must be at least max_model_len {self.max_model_len} with scheduler "
                "prefill_first, which never cuts a prompt (as vLLM V0)"
            )

    def _check_chunks(self) -> None:
        if self.prefill_chunk_tokens is not None and self.scheduler != CHUNKED_PREFILL:
            raise ValueError(f"prefill_chunk_tokens needs scheduler {CHUNKED_PREFILL}, not {self.scheduler}")
        if self.scheduler == CHUNKED_PREFILL and not self.enable_chunked_prefill:
            raise ValueError(f"scheduler {CHUNKED_PREFILL} cuts prompts: enable_chunked_prefill must not be false")
        has_threshold = self.long_prefill_token_threshold > 0 or self.long_prefill_token_threshold_adaptive
        if has_threshold and self.scheduler not in HEEDING_THRESHOLDS:
            schedulers = " or ".join(HEEDING_THRESHOLDS)
            raise ValueError(f"long_prefill_token_threshold needs scheduler {schedulers}, not {self.scheduler}")


class FrontendSpec(Spec, frozen=True):
    """Replaces the profile's time per request off the GPU."""

    per_request_s: Seconds
    per_prompt_token_s: Seconds


class SloSpec(Spec, frozen=True):
    """What users are promised."""

    ttft_p99_s: Positive | None = None
    tpot_p99_s: Positive | None = None


class PublishedRow(Spec, frozen=True):
    """Figures somebody measured at one load; any may be missing."""

    sessions: Sessions
    ttft_p50_s: Positive | None = None
    ttft_p95_s: Positive | None = None
    ttft_p99_s: Positive | None = None
    requests_per_s: Positive | None = None


class PublishedSpec(Spec, frozen=True):
    """What the scenario is compared with; never an input of the simulation."""

    source: str
    rows: list[PublishedRow] = []
    knee_sessions: Sessions | None = None
    slo_sessions: Sessions | None = None
    unique_tokens_per_session: Count | None = None  # what the source divides the capacity by
    arithmetic_sessions: Sessions | None = None  # and what it gets
    statements: list[str] = []


class VariantSpec(Spec, frozen=True):
    """The same scenario with some keys changed: a what-if, or a choice the source left open."""

    name: str
    set: dict[str, Any]
    why: str = ""


class Scenario(Spec, frozen=True):
    """A whole scenario file."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    gpu: str
    model: str
    weight_dtype: str
    profile: str
    engine: EngineSpec
    load: LoadSpec
    workload: WorkloadSpec | None = None  # of sessions; a trace has its own
    replay: ReplaySpec | None = None  # recorded sessions in place of a workload
    stop: StopSpec | None = None  # needed for sessions; a trace ends
    description: str = ""
    frontend: FrontendSpec | None = None
    costs: CostsSpec = CostsSpec()
    background: BackgroundSpec | None = None
    retry: RetrySpec | None = None  # what clients do when the engine answers 503; none: they give up
    warm_start: bool = True
    slo: SloSpec = SloSpec()
    seeds: Annotated[int, Meta(ge=1, le=1000)] = 5
    published: PublishedSpec | None = None
    checks: ChecksSpec = ChecksSpec()
    variants: list[VariantSpec] = []

    def __post_init__(self) -> None:
        if isinstance(self.load, TraceSpec):
            self._check_trace()
        else:
            if self.workload is not None and self.replay is not None:
                raise ValueError("replay has no place beside workload: one of them says what sessions are like")
            has_sessions = self.workload is not None or self.replay is not None
            missing = "workload" if not has_sessions else "stop" if self.stop is None else None
            if missing is not None:
                raise ValueError(f"{missing} is required but missing")
        has_clients = isinstance(self.load, ClosedLoopSpec)
        if self.stop is not None and self.stop.sessions_per_client is not None and not has_clients:
            raise ValueError("stop.sessions_per_client needs load.kind closed: open loops have no clients")
        self._check_background()
        names = [BASE_VARIANT, *(variant.name for variant in self.variants)]
        if len(set(names)) < len(names):
            raise ValueError(f"variants need names of their own, and none may be called {BASE_VARIANT!r}")
        for figure in self.checks.figures:
            for variant in (figure.variant, figure.over or BASE_VARIANT):
                if variant not in names:
                    raise ValueError(f"checks.figures: variant {one_of(variant, names)}")
        levels = load_levels(self.load)
        if sorted(set(levels)) != levels:
            raise ValueError(f"load levels {levels} must ascend without repeats")

    def _check_background(self) -> None:
        policy, stop = self.engine.scheduling_policy, self.stop
        if self.background is not None and stop is not None and stop.duration_s is None and policy != "fcfs":
            raise ValueError(
                f"background beside scheduling_policy {policy} needs stop.duration_s: sessions that never end and go "
                "first could keep the others waiting for ever"
            )

    def _check_trace(self) -> None:
        for name in ("workload", "replay", "background"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} has no place beside load.kind trace: the trace is all that is sent")
        msgspec.structs.force_setattr(self, "seeds", 1)  # nothing is drawn


def load_levels(load: LoadSpec) -> list[int]:
    """Return the swept numbers."""
    if isinstance(load, ClosedLoopSpec):
        return load.sessions
    if isinstance(load, TraceSpec):
        return [1]
    return load.sessions_per_burst if isinstance(load, BurstsSpec) else load.sessions_per_minute


def load_unit(load: LoadSpec) -> str:
    """Return what the swept numbers count."""
    if isinstance(load, ClosedLoopSpec):
        return "sessions"
    if isinstance(load, TraceSpec):
        return "trace"
    return "sessions per burst" if isinstance(load, BurstsSpec) else "sessions per minute"
