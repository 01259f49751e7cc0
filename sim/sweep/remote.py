"""A task in another process: the deployment travels as its parts, plain data, and is assembled there once.

What a deployment becomes (step times) is made of closures, which do not travel; and parts need no file at the other
end, so that a profile or config.json of one's own works on a cluster too.
"""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import msgspec

from sim.check_spec import ChecksSpec
from sim.errors import ClusterError
from sim.setup import Deployment, Parts, assemble
from sim.sweep.code import code_fingerprint
from sim.sweep.runner import Job
from sim.sweep.task import Failure, Outcome, Task, attempt

Call = tuple[bytes, Task, str]  # the arguments of attempt_packed


def packed(jobs: Sequence[Job]) -> list[Call]:
    """Return each job as plain data for another process, with the fingerprint of the code here."""
    code = code_fingerprint()
    deployments = {id(job.deployment): job.deployment for job in jobs}
    parts = {name: pack(deployment) for name, deployment in deployments.items()}
    return [(parts[id(job.deployment)], job.task, code) for job in jobs]


def pack(deployment: Deployment) -> bytes:
    """Return a deployment's parts for another process: some 5 to 10 kB, without what no simulation reads."""
    parts = deployment.parts
    scenario = msgspec.structs.replace(parts.scenario, published=None, checks=ChecksSpec(), variants=[])
    return pickle.dumps(replace(parts, scenario=scenario))


def attempt_packed(packed: bytes, task: Task, code: str) -> Outcome | Failure:
    """Run one simulation in a worker process; `code` is the sender's fingerprint.

    Raises ClusterError if this process would simulate by other rules.
    """
    check_code(code)
    return attempt(_unpacked(packed), task)


def check_code(code: str) -> None:
    """Raise ClusterError unless the code here has the fingerprint of the sender's."""
    if code != code_fingerprint():
        raise ClusterError("its kvcliff, numpy or simpy differs from this machine's")


@lru_cache(maxsize=32)
def _unpacked(packed: bytes) -> Deployment:
    parts: Parts = pickle.loads(packed)  # noqa: S301 -- from the process that started this one, or the cluster's client
    return assemble(parts, parts.scenario.name)
