"""Show the facts of a log the way a test states them: without what it does not say, sizes in GiB."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from sim.startup_log import StartupFacts
from sim.units import GIB

LOGS = Path(__file__).parent / "logs"


def said(facts: StartupFacts) -> dict[str, Any]:
    """Return what the log says of the start as a whole."""
    skipped = {"place", "ranks", "engine_config", "user_args"}
    return {name: value for name, value in _stated(facts).items() if name not in skipped}


def said_by_rank(facts: StartupFacts) -> dict[str, dict[str, Any]]:
    """Return what each process says."""
    return {rank.rank: {name: value for name, value in _stated(rank).items() if name != "rank"} for rank in facts.ranks}


def _stated(record: Any) -> dict[str, Any]:
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    stated = {name: value for name, value in values.items() if value not in (None, (), {})}
    stated = {name: value for name, value in stated.items() if value or not name.startswith("is_")}
    return {name: round(value / GIB, 4) if name.endswith("_bytes") else value for name, value in stated.items()}


def gib(size: float) -> int:
    """Return GiB as bytes."""
    return round(size * GIB)
