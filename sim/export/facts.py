"""What a written result says beside its requests: the model, the load, and that nobody measured it."""

from dataclasses import dataclass
from importlib.metadata import version

from sim.engine.record import TurnRecord
from sim.export.model_id import model_id
from sim.results.metrics import Slo
from sim.scenario import ClosedLoopSpec, ConstantRateSpec, load_unit
from sim.setup import MAIN, Deployment
from workloads.agent import AgentWorkload

TOOL = f"kvcliff {version('kvcliff')}"
EPOCH_S = 946_684_800  # 2000-01-01 00:00 UTC: where a run's clock stands at its start, so that bytes are reproducible
DATE = "20000101-000000"


@dataclass(frozen=True, slots=True)
class Facts:
    """One run of a deployment, as the formats tell it."""

    model: str
    population: str  # whose requests a load generator would have sent
    scenario: str
    profile: str
    level: int
    unit: str  # of the level
    seed: int
    clients: int | None  # closed loop: so many at once
    sessions_per_s: float | None  # open loop
    even: bool  # of an open loop: at even intervals, not at random
    turns_per_session: float | None  # None: not known before sessions are drawn
    slo: Slo
    num_gpu_blocks: int
    block_size: int
    kv_cache_dtype: str
    gpu_memory_utilization: float
    enable_prefix_caching: bool
    max_model_len: int

    @property
    def source(self) -> dict[str, str]:
        """Where the numbers are from, as text."""
        return {
            "simulated_by": TOOL,
            "scenario": self.scenario,
            "profile": self.profile,
            "load": f"{self.level} {self.unit}",
            "seed": str(self.seed),
        }

    def requests_per_s(self, sent: list[TurnRecord]) -> float | None:
        """Return the rate of an open loop, or None of a closed one; where nobody set it, that of what was sent."""
        if self.clients is not None:
            return None
        if self.sessions_per_s is not None and self.turns_per_session is not None:
            return self.sessions_per_s * self.turns_per_session
        span_s = sent[-1].arrival_s - sent[0].arrival_s if sent else 0.0
        return (len(sent) - 1) / span_s if span_s else None


def facts_of(deployment: Deployment, level: int, seed: int) -> Facts:
    """Return the facts of one run."""
    scenario, engine = deployment.scenario, deployment.scenario.engine
    load = scenario.load
    closed = isinstance(load, ClosedLoopSpec)
    per_s: float | None = None
    turns: float | None = None
    for population in deployment.load_at(level).populations[:1]:
        turns = population.workload.turns.mean if isinstance(population.workload, AgentWorkload) else None
        per_s = getattr(population.arrivals, "rate_per_s", None)
    settings = deployment.ledger.settings
    return Facts(
        model=model_id(scenario.model),
        population=MAIN,
        scenario=scenario.name,
        profile=scenario.profile,
        level=level,
        unit=load_unit(load),
        seed=seed,
        clients=level if closed else None,
        sessions_per_s=per_s,
        even=isinstance(load, ConstantRateSpec),
        turns_per_session=turns,
        slo=deployment.slo,
        num_gpu_blocks=deployment.ledger.num_gpu_blocks,
        block_size=engine.block_size,
        kv_cache_dtype=engine.kv_cache_dtype,
        gpu_memory_utilization=settings.utilization,
        enable_prefix_caching=settings.caches_prefixes(deployment.model),
        max_model_len=engine.max_model_len,
    )
