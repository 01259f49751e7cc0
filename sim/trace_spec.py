"""Recorded traces in a scenario file: how they are read, which requests are sent when, how sessions are replayed."""

from typing import Annotated, Literal

from msgspec import Meta

from sim.workload_spec import Positive, Seconds, Spec

Count = Annotated[int, Meta(ge=1, le=10_000_000)]
Share = Annotated[float, Meta(ge=0, le=1)]
PartOf = Annotated[float, Meta(gt=0, le=1)]


class ReadSpec(Spec, frozen=True):
    """A trace and how it is read; a path counts from the scenario's folder, or from where the command runs."""

    path: str
    format: str | None = None  # recognised by its first rows
    block_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None  # of hash ids; the format's, or the file's
    rows: Literal["cumulative", "delta"] | None = None
    skip_bad_rows: bool = False


class TraceSpec(ReadSpec, tag_field="kind", tag="trace", frozen=True):
    """Recorded requests at their own times: of a window a share, of it the first `limit`."""

    repeat: Annotated[int, Meta(ge=1, le=1_000_000)] = 1  # so often in a row
    rate_scale: Annotated[float, Meta(gt=0, le=1e6)] = 1.0  # 2.0: twice as fast
    limit: Count | None = None
    start_s: Seconds = 0.0  # from the trace's first request
    stop_s: Positive | None = None
    share: PartOf = 1.0  # of sessions; of requests where the trace knows none
    jitter_s: Seconds = 0.0  # each request up to so much later: spreads those that came in one tick of a coarse clock
    seed: Annotated[int, Meta(ge=0, le=2**31)] = 0  # of share and jitter

    def __post_init__(self) -> None:
        if self.stop_s is not None and self.stop_s <= self.start_s:
            raise ValueError(f"stop_s {self.stop_s:g} must be above start_s {self.start_s:g}")


class ReplaySpec(ReadSpec, frozen=True):
    """Recorded sessions, which clients live through again."""

    times: Literal["closed", "recorded"] = "closed"  # think after the simulated answer, or send at recorded times
    gap_cap_s: Positive | None = None  # no pause longer than this; none is cut unless asked
    ids: Literal["local", "rename", "keep"] = "local"
    shared_prefix_share: Share = 1.0  # of the front that the trace says its sessions share
    outputs_reusable: Literal["auto", "always", "never"] = "auto"
    max_context_tokens: Count | None = None  # max_model_len
    too_long: Literal["end", "drop", "refuse"] = "end"  # sessions that outgrow it
    share: PartOf = 1.0  # of sessions
    sessions: Count | None = None  # of that share the first so many
    seed: Annotated[int, Meta(ge=0, le=2**31)] = 0  # of the share
