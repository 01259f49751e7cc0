"""Which loads a command simulates: those asked for with --points, else the scenario's own."""

from collections.abc import Sequence

from sim.errors import ScenarioError
from sim.scenario import load_levels
from sim.setup import Deployment


def levels_of(deployment: Deployment, points: Sequence[int] | None) -> Sequence[int]:
    """Return the loads of a deployment; raises ScenarioError for points of a trace, which is sent as it is."""
    own = load_levels(deployment.scenario.load)
    if points is None:
        return own
    if deployment.trace is not None and list(points) != own:
        name = deployment.scenario.name
        raise ScenarioError(f"{name}: a trace is sent as it is and takes no --points; load.rate_scale makes it denser")
    return points
