"""Who asks what, and when: sessions as spans of content, without engines, GPUs or clocks.

Start with span.py (what tokens are), then session.py (turns that extend each other), distributions.py and mixtures.py,
agent.py (the usual shape of a session), growing.py (that of recorded agents) and arrivals.py (when sessions begin);
recorded.py is for requests that are given, profiles/ holds named workloads as data.
numpy only; randomness comes from the generator passed in.
"""

from workloads.agent import AgentWorkload
from workloads.arrivals import Arrivals, Bursts, CommonStart, ConstantRate, Poisson, StaggeredStart, Start
from workloads.distributions import Constant, Distribution, Exponential, Lognormal, Normal, Uniform, whole
from workloads.errors import WorkloadError
from workloads.growing import Compaction, GrowingWorkload, Opening, Resumed, Rewrites
from workloads.mixtures import Bounded, Mixture, Quantiles
from workloads.recorded import RecordedRequest
from workloads.session import Prompt, Session, Turn
from workloads.span import Span, front, joined, total_tokens
from workloads.workload import Workload

__all__ = [
    "AgentWorkload",
    "Arrivals",
    "Bounded",
    "Bursts",
    "CommonStart",
    "Compaction",
    "Constant",
    "ConstantRate",
    "Distribution",
    "Exponential",
    "GrowingWorkload",
    "Lognormal",
    "Mixture",
    "Normal",
    "Opening",
    "Poisson",
    "Prompt",
    "Quantiles",
    "RecordedRequest",
    "Resumed",
    "Rewrites",
    "Session",
    "Span",
    "StaggeredStart",
    "Start",
    "Turn",
    "Uniform",
    "Workload",
    "WorkloadError",
    "front",
    "joined",
    "total_tokens",
    "whole",
]
