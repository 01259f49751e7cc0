"""Memory pressure in words: what the engine was told to do about it, and what became of turns it did not answer."""

from collections.abc import Iterator

from sim.pressure_setup import V0_SWAP_SPACE_GIB
from sim.results.points import Row, number
from sim.run import Result
from sim.scenario import Scenario
from sim.scheduling.under_pressure import SWAP
from sim.scheduling.victims import LAST_ADMITTED
from sim.setup import Deployment
from sim.units import GB, seconds


def pressure_setting(deployment: Deployment) -> str:
    """Return what an engine does when KV memory runs short, where vLLM V1 would preempt and recompute; else nothing."""
    return "; ".join(_settings(deployment.scenario, deployment.gpu.pcie_bytes_per_s))


def _settings(scenario: Scenario, pcie_bytes_per_s: float) -> Iterator[str]:
    engine, retry = scenario.engine, scenario.retry
    limit, costs = engine.dynamic_max_num_seqs, engine.restart_s
    if engine.preemption_mode == SWAP:
        gib = V0_SWAP_SPACE_GIB if engine.swap_space is None else engine.swap_space
        yield f"swap to {gib:g} GiB of host memory at {pcie_bytes_per_s / GB:g} GB/s (catalog)"
    if engine.preemption_victim != LAST_ADMITTED:
        yield f"preempts {engine.preemption_victim.replace('_', ' ')}"
    if limit is not None:
        yield f"max_num_seqs falls to {limit.least} from {limit.from_kv_usage:.0%} KV usage on"
    if engine.shed_above_kv_usage is not None:
        yield f"sheds priority {engine.lowest_shed_priority} and lower above {engine.shed_above_kv_usage:.0%} KV usage"
    rejects = [
        *([f"{engine.max_num_queued_reqs} wait or run"] if engine.max_num_queued_reqs is not None else []),
        *(
            [f"KV usage is above {engine.reject_above_kv_usage:.0%}"]
            if engine.reject_above_kv_usage is not None
            else []
        ),
    ]
    if rejects:
        tries = 1 if retry is None else retry.tries
        yield f"503 when {' or '.join(rejects)}; clients try {tries} times"
    if costs is not None:
        yield f"a restart takes {seconds(costs)}"


def pressure_sentences(result: Result) -> Iterator[str]:
    """Yield what memory pressure cost at the largest load at which it cost anything, counts being means over seeds."""
    for point in reversed(result.points):
        told = [*_of_crashes(point), *_of_unanswered(point)]
        if told:
            where = "" if result.deployment.trace is not None else f"At {point['sessions']:g} {result.load_unit} "
            yield where + "; ".join(told) + "."
            return


def _of_crashes(point: Row) -> Iterator[str]:
    crashes = _count(point, "crashes")
    if crashes:
        times = "once" if crashes == 1 else f"{crashes:,} times"
        yield f"the engine ran out of memory {times} and died, and {_count(point, 'lost'):,} turns were lost with it"


def _of_unanswered(point: Row) -> Iterator[str]:
    rejected, retries, shed = (_count(point, name) for name in ("rejected", "retries", "shed"))
    if rejected or retries:
        yield f"{rejected:,} turns were rejected for good (503), after {retries:,} retries of all sessions"
    if shed:
        yield f"{shed:,} turns were shed"
    others = _count(point, "shed_of_all") - shed
    if others > 0:
        yield f"{others:,} background turns were shed"
    swap_s = number(point, "swap_s")
    if swap_s > 0:
        yield f"steps waited {seconds(swap_s)} for blocks that moved between GPU and host"


def _count(point: Row, name: str) -> int:
    value = number(point, name)
    return round(value) if value > 0 else 0
