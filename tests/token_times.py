"""Records whose tokens came at given times."""

from array import array
from collections.abc import Sequence
from typing import Any

from sim.engine.step_log import StepLog


def brought_at(times_s: Sequence[float]) -> dict[str, Any]:
    """Return the fields of a TurnRecord whose steps, its engine's only ones, ended at these times with a token each."""
    return {"steps": StepLog(ends_s=array("d", times_s)), "token_steps": (1, len(times_s)) if times_s else ()}
