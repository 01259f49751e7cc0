"""Deployments that take no time, and jobs of them."""

from small_scenario import SMALL

from sim.scenario import Scenario
from sim.setup import Deployment, deploy
from sim.strict_yaml import apply_overrides, decode, parse_yaml
from sim.sweep.runner import Finished, Job
from sim.sweep.task import Failure, Outcome, Task


def deployed(*overrides: str) -> Deployment:
    """Return the small scenario with some keys changed."""
    return deploy(decode(apply_overrides(parse_yaml(SMALL, "small.yaml"), overrides), Scenario), "small.yaml")


def small_jobs() -> list[Job]:
    """Return twelve jobs of two deployments, one of them random."""
    deployments = [deployed(), deployed("workload.new_tokens={kind: exponential, mean: 100}")]
    return [
        Job(deployment, Task(level, seed, lifted))
        for deployment in deployments
        for level, seed in ((1, 0), (2, 0), (2, 1))
        for lifted in (None, "KV cache")
    ]


def in_order(finished: list[Finished]) -> list[Outcome | Failure]:
    """Return the outcomes by place; each place exactly once."""
    assert sorted(one.place for one in finished) == list(range(len(finished)))
    return [outcome for _, outcome in sorted(finished, key=lambda one: one.place)]
