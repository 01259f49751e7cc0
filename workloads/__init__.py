"""Who asks what, and when: sessions as spans of content, without engines, GPUs or clocks.

Start with span.py (what tokens are), then session.py (turns that extend each other), distributions.py, agent.py
(the usual shape of a session) and arrivals.py (when sessions begin); recorded.py is for requests that are given.
numpy only; randomness comes from the generator passed in.
"""

from workloads.agent import AgentWorkload
from workloads.arrivals import Arrivals, Bursts, CommonStart, ConstantRate, Poisson, StaggeredStart, Start
from workloads.distributions import Constant, Distribution, Exponential, Lognormal, Normal, Uniform, whole
from workloads.errors import WorkloadError
from workloads.recorded import RecordedRequest
from workloads.session import Prompt, Session, Turn
from workloads.span import Span, joined, total_tokens

__all__ = [
    "AgentWorkload",
    "Arrivals",
    "Bursts",
    "CommonStart",
    "Constant",
    "ConstantRate",
    "Distribution",
    "Exponential",
    "Lognormal",
    "Normal",
    "Poisson",
    "Prompt",
    "RecordedRequest",
    "Session",
    "Span",
    "StaggeredStart",
    "Start",
    "Turn",
    "Uniform",
    "WorkloadError",
    "joined",
    "total_tokens",
    "whole",
]
