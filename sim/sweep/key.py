"""The key of a task's outcome: a hash over everything it depends on, and nothing else.

In go the engine and workload settings, the GPU and model as looked up, the numbers of the profile, level, seed, the
lifted limit and the simulating code. Out stay names, descriptions, notes, sources, published figures and the list of
levels: editing them recomputes nothing.
"""

import json
from dataclasses import asdict
from hashlib import sha256
from typing import Any

import msgspec

from sim.setup import Parts
from sim.sweep.task import Task

_NOT_SIMULATED = ("name", "description", "gpu", "model", "profile", "seeds", "published", "checks", "variants")
_LEVELS = ("sessions", "sessions_per_minute", "sessions_per_burst")
_REMARKS = ("note", "source", "provenance")


def deployment_key(parts: Parts) -> str:
    """Return the hash of what a simulation reads of a deployment's parts."""
    scenario = msgspec.to_builtins(parts.scenario)
    for name in _NOT_SIMULATED:
        del scenario[name]
    for workload in (scenario["workload"], (scenario["background"] or {}).get("workload")):
        if workload is not None:
            del workload["profile"]  # its numbers are there
    scenario["load"] = {name: value for name, value in scenario["load"].items() if name not in _LEVELS}
    if parts.trace is not None:
        scenario["load"]["path"] = parts.trace.digest  # what it holds, not its name
    if parts.replay is not None:
        scenario["replay"]["path"] = parts.replay.digest
    profile = {} if parts.profile is None else _without_remarks(msgspec.to_builtins(parts.profile))
    profile.pop("name", None)
    return _hash([scenario, _without_remarks(asdict(parts.gpu)), _without_remarks(asdict(parts.model)), profile])


def task_key(deployment: str, task: Task, code: str) -> str:
    """Return the key of a task's metrics; `deployment` is its key, `code` the fingerprint of what simulates."""
    return _hash([deployment, task.level, task.seed, task.lifted, code])[:32]


def _without_remarks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_remarks(inner) for name, inner in value.items() if name not in _REMARKS}
    return [_without_remarks(inner) for inner in value] if isinstance(value, list | tuple) else value


def _hash(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
