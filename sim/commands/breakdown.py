"""`kvcliff run --breakdown`: where the time of single requests went, from one more run a load level that keeps them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.engine.record import Outcome
from sim.engine.simulation import simulate
from sim.results.breakdown import Breakdown, Parts, StepTimes, break_down
from sim.setup import MAIN, Deployment

Row = dict[str, Any]


def breakdown_rows(deployment: Deployment, level: int) -> list[Row]:
    """Return a row a completed request of the main sessions at a load level, of the first seed."""
    engine = deployment.engine
    run = simulate(engine, deployment.load_at(level), 0, keeps_chunks=True)
    done = [one for one in run.records if one.population == MAIN and one.outcome is Outcome.COMPLETED]
    if not done:
        return []
    times = StepTimes.of(done[0])
    return [
        {"sessions": level, "session": record.session, "turn": record.turn}
        | _columns(break_down(record, times, engine.steps, engine.costs.delivery_s))
        for record in done
    ]


def summaries(rows: Sequence[Row]) -> list[Row]:
    """Return, a load level and a measure, the mean parts of all requests and of the slowest hundredth."""
    found: list[Row] = []
    for level in dict.fromkeys(row["sessions"] for row in rows):
        own = [row for row in rows if row["sessions"] == level]
        for measure in Breakdown._fields:
            totals = np.array([row[f"{measure}_s"] for row in own])
            slowest = np.flatnonzero(totals >= np.percentile(totals, 99))
            for which, chosen in (("mean", range(len(own))), ("worst", slowest)):
                means = {name: float(np.mean([own[i][f"{measure}_{name}_s"] for i in chosen])) for name in _PARTS}
                found.append({"sessions": level, "measure": measure, "of": which} | _with_totals(Parts(**means)))
    return found


_PARTS = Parts._fields


def _columns(found: Breakdown) -> Row:
    return {
        f"{measure}_{name}" if name != "client_s" else f"{measure}_s": value
        for measure, parts in zip(Breakdown._fields, found, strict=True)
        for name, value in _with_totals(parts).items()
    }


def _with_totals(parts: Parts) -> dict[str, float]:
    named = {f"{name}_s": value for name, value in parts._asdict().items()}
    return {"client_s": parts.total, "engine_s": parts.engine} | named
