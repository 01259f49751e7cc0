"""What an engine does when KV memory runs short, and what its clients do when it says 503: keys of a scenario."""

from typing import Annotated, Literal

from msgspec import Meta

from sim.errors import one_of
from sim.scheduling.policies import VLLM_V1
from sim.scheduling.reserving import GROW
from sim.scheduling.under_pressure import SWAP
from sim.scheduling.victims import LAST_ADMITTED, VICTIMS
from sim.workload_spec import Positive, Seconds, Spec

Share = Annotated[float, Meta(ge=0, lt=1)]


class DynamicLimitSpec(Spec, frozen=True):
    """The limit on running sequences falls from max_num_seqs, at this usage, to `least` when the cache is full."""

    from_kv_usage: Share
    least: Annotated[int, Meta(ge=1, le=100_000)] = 1


class RetrySpec(Spec, frozen=True):
    """What clients do after a 503: wait `backoff_s`, then `factor` times as long each time, and send again."""

    tries: Annotated[int, Meta(ge=1, le=1000)] = 3  # the first send counts
    backoff_s: Positive = 1.0
    factor: Annotated[float, Meta(ge=1, le=100)] = 2.0
    most_s: Positive = 60.0
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.5  # a pause is up to this share shorter


class PressureSpec(Spec, frozen=True):
    """Keys of `engine` that say what happens when KV memory runs short; vLLM V1 preempts, recomputes, and lets wait."""

    preemption_mode: Literal["recompute", "swap"] = "recompute"  # swap: to host memory over PCIe, as vLLM V0
    swap_space: Annotated[float, Meta(ge=0, le=100_000)] | None = None  # GiB of host memory a GPU, of swap; 4 as V0
    preemption_victim: str = LAST_ADMITTED  # of sim/scheduling/victims.py
    dynamic_max_num_seqs: DynamicLimitSpec | None = None
    shed_above_kv_usage: Share | None = None  # drop requests of low priority
    shed_priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] | None = None  # 1: all but priority 0
    max_num_queued_reqs: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None  # 503 when so many wait or run
    reject_above_kv_usage: Share | None = None  # 503 when the KV cache is so full
    restart_s: Seconds | None = None  # of kv_reservation grow, after it ran out of memory; 60

    def check_pressure(self, scheduler: str, kv_reservation: str, *, async_scheduling: bool) -> None:
        """Raise ValueError for keys that do not go together."""
        if self.preemption_victim not in VICTIMS:
            raise ValueError(f"preemption_victim {one_of(self.preemption_victim, VICTIMS)}")
        owners = {
            "swap_space": ("preemption_mode swap", self.preemption_mode == SWAP),
            "shed_priority": ("shed_above_kv_usage", self.shed_above_kv_usage is not None),
            "restart_s": (f"kv_reservation {GROW}", kv_reservation == GROW),
        }
        for key, (owner, is_there) in owners.items():
            if getattr(self, key) is not None and not is_there:
                raise ValueError(f"{key} needs {owner}")
        remedies = {
            f"preemption_mode {SWAP}": self.preemption_mode == SWAP,
            f"preemption_victim {self.preemption_victim}": self.preemption_victim != LAST_ADMITTED,
            "dynamic_max_num_seqs": self.dynamic_max_num_seqs is not None,
            "shed_above_kv_usage": self.shed_above_kv_usage is not None,
        }
        chosen = [name for name, is_chosen in remedies.items() if is_chosen]
        if chosen and scheduler != VLLM_V1:
            raise ValueError(f"{chosen[0]} needs scheduler {VLLM_V1}, not {scheduler}")
        if kv_reservation == GROW and (scheduler != "fixed_slots" or async_scheduling):
            raise ValueError(f"kv_reservation {GROW} needs scheduler fixed_slots and async_scheduling false")

    @property
    def lowest_shed_priority(self) -> int:
        """The first class that may be shed: 1 unless the scenario says otherwise, all but the important ones."""
        return 1 if self.shed_priority is None else self.shed_priority

    @property
    def has_remedy(self) -> bool:
        """Whether it does anything about pressure that needs blocks of one kind."""
        return (
            self.preemption_mode == SWAP
            or self.preemption_victim != LAST_ADMITTED
            or self.dynamic_max_num_seqs is not None
            or self.shed_above_kv_usage is not None
        )
