"""What an engine does about memory pressure beside its scheduler: when it says 503, what copies and restarts take."""

from typing import NamedTuple

from sim.engine.admission import AdmissionLimit


class PressureCosts(NamedTuple):
    """What the engine does under memory pressure, and how long it takes."""

    admission: AdmissionLimit = AdmissionLimit()
    seconds_per_moved_block: float = 0.0
    restart_s: float = 60.0

    @property
    def rejects(self) -> bool:
        """Whether it may answer 503."""
        return self.admission != AdmissionLimit()
