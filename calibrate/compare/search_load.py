"""What the search for a cause sends: of a long load point only its first requests, and what was measured made to match.

A search simulates each point some seventy times. What the prediction loses by a point's later requests is taken off the
measured side too, so that errors of the prediction as it is are the same on the short load as on the whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from calibrate.compare.load import SentLoad

FEWEST = 1000  # requests of a point
_FEWEST_OF_MANY = 400  # where there are many points
_ALL = 8000  # of all points together
_ROUNDS = 3  # of what is in flight: a queue must have time to build up

Metrics = Mapping[str, float]


def shortened(sent: SentLoad, points: int = 1) -> SentLoad:
    """Return the load's first requests, fewer where it is one of many points; itself where it is short enough."""
    fewest = min(FEWEST, max(_FEWEST_OF_MANY, _ALL // points))
    requests = tuple(sent.load.requests)
    per_item = max(1.0, sent.requests / len(requests))  # turns of a session
    most = round(max(fewest, _ROUNDS * (sent.arrivals.most_in_flight or 0) * per_item) / per_item)
    if len(requests) <= most:
        return sent
    return replace(sent, load=replace(sent.load, requests=requests[:most]), requests=round(most * per_item))


def matched(measured: Sequence[Metrics], whole: Sequence[Metrics], short: Sequence[Metrics]) -> list[Metrics]:
    """Return what was measured times the predicted short / whole, metric by metric."""
    return [
        {
            name: value * theirs[name] / ours[name]
            for name, value in point.items()
            if ours.get(name) and theirs.get(name)
        }
        for point, ours, theirs in zip(measured, whole, short, strict=True)
    ]
