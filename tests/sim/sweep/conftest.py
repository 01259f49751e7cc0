"""Jobs that take no time."""

import pytest
from sweep_jobs import small_jobs

from sim.sweep.runner import Job


@pytest.fixture(scope="session")
def jobs() -> list[Job]:
    """Return twelve jobs of two deployments, one of them random."""
    return small_jobs()
