"""Which tokens a step computes: request.py, then continuous.py (vLLM V1), then replay.py against recordings.

Pure: no clock and no SimPy; `sim.engine` gives the steps their time.
"""

from sim.scheduling.continuous import ContinuousScheduler, SchedulerConfig
from sim.scheduling.request import Request

__all__ = ["ContinuousScheduler", "Request", "SchedulerConfig"]
