"""BLIS's workload specifications as written (inference-sim, sim/workload/spec.go): clients, cohorts, or a short form.

Times are in microseconds unless a name says otherwise; rates in requests a second.
"""

from typing import Annotated, Literal

import msgspec

from workloads.traces.blis_lengths import Lengths
from workloads.traces.json_rows import Row

Microseconds = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
Rate = Annotated[float, msgspec.Meta(ge=0, le=1e5)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Shape = Annotated[float, msgspec.Meta(ge=1e-6, le=1e12)]
Population = Annotated[int, msgspec.Meta(ge=1, le=100_000)]  # BLIS's own limit


class Arrival(Row, frozen=True, gc=False):
    """How gaps between arrivals are shaped; shape and scale together set the rate too."""

    process: str = "poisson"
    cv: Annotated[float, msgspec.Meta(ge=0.01, le=100)] | None = None
    shape: Shape | None = None
    scale: Shape | None = None


class Window(Row, frozen=True, gc=False):
    """When a client is active, and what differs then."""

    start_us: Microseconds
    end_us: Microseconds
    trace_rate: Rate | None = None
    arrival: Arrival | None = None
    input_distribution: Lengths | None = None
    output_distribution: Lengths | None = None


class Lifecycle(Row, frozen=True, gc=False):
    """A client's windows."""

    windows: Annotated[list[Window], msgspec.Meta(min_length=1, max_length=10_000)]


class MultiTurn(Row, frozen=True, gc=False):
    """Conversations: rounds, what passes between them, and whether prompts hold what came before."""

    max_rounds: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    think_time_us: Microseconds = 0
    context_growth: Literal["", "accumulate"] | None = None
    single_session: bool = False


class Reasoning(Row, frozen=True, gc=False):
    """Only the conversations of it matter here."""

    multi_turn: MultiTurn | None = None


class Diurnal(Row, frozen=True, gc=False):
    """A day's rate, by how much of each hour is active."""

    peak_hour: Annotated[int, msgspec.Meta(ge=0, le=23)]
    peak_to_trough_ratio: Annotated[float, msgspec.Meta(ge=1, le=1e6)]


class Spike(Row, frozen=True, gc=False):
    """A window of its own."""

    start_time_us: Microseconds
    duration_us: Microseconds
    trace_rate: Rate | None = None


class Drain(Row, frozen=True, gc=False):
    """Activity that shrinks to nothing."""

    start_time_us: Microseconds
    ramp_duration_us: Microseconds


class Client(Row, frozen=True, gc=False):
    """One client, or a cohort of `population` alike."""

    input_distribution: Lengths
    output_distribution: Lengths
    id: str | None = None
    population: Population = 1
    rate_fraction: Share = 0
    concurrency: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0
    think_time_us: Microseconds = 0
    arrival: Arrival | None = None
    prefix_group: str | None = None
    prefix_length: Tokens | None = None
    prefix_sharing: Literal["", "shared", "per_member"] | None = None
    lifecycle: Lifecycle | None = None
    diurnal: Diurnal | None = None
    spike: Spike | None = None
    drain: Drain | None = None
    reasoning: Reasoning | None = None


class Stage(Row, frozen=True, gc=False):
    """One stage of the short form; the duration is in seconds."""

    rate: Annotated[float, msgspec.Meta(gt=0, le=1e5)]
    duration: Annotated[float, msgspec.Meta(gt=0, le=1e8)]


class SharedPrefix(Row, frozen=True, gc=False):
    """Users behind system prompts; lengths are constant."""

    num_unique_system_prompts: Population
    num_users_per_system_prompt: Population
    system_prompt_len: Tokens = 0
    question_len: Tokens = 1
    output_len: Tokens = 1
    enable_multi_turn_chat: bool = False


class InferencePerf(Row, frozen=True, gc=False):
    """The short form."""

    stages: Annotated[list[Stage], msgspec.Meta(min_length=1, max_length=10_000)]
    shared_prefix: SharedPrefix


class Spec(Row, frozen=True, gc=False):
    """A whole specification."""

    clients: Annotated[list[Client], msgspec.Meta(max_length=10_000)] | None = None
    cohorts: Annotated[list[Client], msgspec.Meta(max_length=1_000)] | None = None
    aggregate_rate: Rate = 0
    horizon: Microseconds | None = None
    num_requests: Annotated[int, msgspec.Meta(ge=0, le=10**15)] | None = None
    inference_perf: InferencePerf | None = None
    servegen_data: dict[str, object] | None = None
