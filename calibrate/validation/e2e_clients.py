"""What a benchmark's client and API server add to the engine's own times: one number a source, never one a run.

`per_request_s` passes between the send and the engine's queue (HTTP, tokenisation, process hops) and back to the first
token. Sources that stamp on the engine's clock have none.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from calibrate.validation.e2e_errors import ReplayedPoint
from calibrate.validation.e2e_regimes import BELOW


class Client(NamedTuple):
    """Seconds a source's client adds."""

    per_request_s: float = 0.0
    derived: str = "not derived: nothing is added"


_FITTED = "least squares on the loads below the knee of the shared runs; --fit-clients repeats it"
CLIENTS: Mapping[str, Client] = {
    "isim_train": Client(0.0079, _FITTED),
    "resid": Client(0.0058, _FITTED),
    "do_h200": Client(0.0097, _FITTED),
    "lss": Client(0.0, "times are stamped on the engine's clock"),
    "dielabs": Client(0.0, "not fitted: four loads, whose median TTFTs are whole prefills"),
}
"""By source. One number each: what a request's first token waits for outside the engine."""


def client_of(source: str, clients: Mapping[str, Client] = CLIENTS) -> Client:
    """Return a source's client."""
    return clients.get(source, Client())


def fit_clients(points: Sequence[ReplayedPoint]) -> dict[str, Client]:
    """Return the number of each source that makes the squared relative errors of TTFT below the knee least.

    The points must come from a replay without overheads.
    """
    fitted = {}
    for source in dict.fromkeys(point.source for point in points):
        if source in CLIENTS and CLIENTS[source].per_request_s == 0:
            continue
        below = [point for point in points if point.source == source and point.regime == BELOW]
        per_request_s = _missing_s(below, ("ttft_mean_s", "ttft_p50_s"))
        if per_request_s is not None:
            derived = f"least squares on {len(below)} loads below the knee"
            fitted[source] = Client(per_request_s, derived)
    return fitted


def _missing_s(points: Iterable[ReplayedPoint], metrics: Sequence[str]) -> float | None:
    weighted = weights = 0.0
    for point in points:
        metric = next((name for name in metrics if point.error(name) is not None), None)
        if metric is not None:
            measured, predicted = point.measured[metric], point.predicted[metric]
            weighted += (measured - predicted) / measured**2
            weights += 1 / measured**2
    return max(0.0, weighted / weights) if weights else None
