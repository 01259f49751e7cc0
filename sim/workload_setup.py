"""From the words of a scenario about sessions to the workload that draws them."""

from sim.workload_spec import (
    CompactionSpec,
    ConstantSpec,
    DistributionSpec,
    ExponentialSpec,
    LognormalSpec,
    MixtureSpec,
    NormalSpec,
    Number,
    QuantilesSpec,
    ResumedSpec,
    UniformSpec,
    WorkloadSpec,
)
from workloads.agent import AgentWorkload
from workloads.distributions import Constant, Distribution, Exponential, Lognormal, Normal, Uniform
from workloads.growing import Compaction, GrowingWorkload, Opening, Resumed, Rewrites
from workloads.mixtures import Bounded, Mixture, Quantiles
from workloads.workload import Workload


def workload(spec: WorkloadSpec, max_model_len: int | None = None, prefix_name: str = "shared prefix") -> Workload:
    """Return the sessions a spec describes; `prefix_name` is what its prefix is called unless it says so.

    Sessions that change as recorded ones do stay within `max_model_len`; those that a scenario
    spells out turn by turn are sent as they are, and the engine refuses what is too long.
    """
    name = spec.prefix_name or prefix_name
    new_tokens = distribution(spec.new_tokens)
    if not spec.changes:
        return AgentWorkload(
            shared_prefix_tokens=spec.shared_prefix_tokens,
            turns=distribution(spec.turns),
            new_tokens=new_tokens,
            output_tokens=distribution(spec.output_tokens),
            think_s=distribution(spec.think_s),
            keeps_output=spec.keeps_output,
            prefix_name=name,
        )
    rewrites, resumed, opening = spec.rewrites, spec.resumed, spec.opening
    turns = distribution(spec.turns)
    return GrowingWorkload(
        shared_prefix_tokens=spec.shared_prefix_tokens,
        turns=turns,
        first_tokens=new_tokens if spec.first_tokens is None else distribution(spec.first_tokens),
        new_tokens=new_tokens,
        output_tokens=distribution(spec.output_tokens),
        think_s=distribution(spec.think_s),
        stripped_share=spec.stripped_share,
        compaction=_compaction(spec.compaction),
        rewrites=None if rewrites is None else Rewrites(rewrites.share, distribution(rewrites.kept)),
        resumed=None if resumed is None else _resumed(resumed, turns),
        opening=None if opening is None else Opening(opening.turns, distribution(opening.new_tokens)),
        keeps_output=spec.keeps_output,
        prefix_name=name,
        most_tokens=max_model_len,
    )


def _compaction(spec: CompactionSpec | None) -> Compaction | None:
    if spec is None:
        return None
    above = None if spec.above_tokens is None else distribution(spec.above_tokens)
    return Compaction(spec.share, distribution(spec.left), distribution(spec.kept), above)


def _resumed(spec: ResumedSpec, turns: Distribution) -> Resumed:
    own = turns if spec.turns is None else distribution(spec.turns)
    return Resumed(spec.share, distribution(spec.first_tokens), own)


def distribution(spec: Number | DistributionSpec) -> Distribution:
    """Return the distribution that a spec describes."""
    match spec:
        case ConstantSpec():
            return Constant(spec.value)
        case UniformSpec():
            return Uniform(spec.low, spec.high)
        case QuantilesSpec():
            return Quantiles(tuple(spec.shares), tuple(spec.values))
        case MixtureSpec():
            weights = tuple(part.weight for part in spec.parts)
            return Mixture(weights, tuple(distribution(part.of) for part in spec.parts))
        case ExponentialSpec() | LognormalSpec() | NormalSpec():
            return _bounded(spec)
    return Constant(float(spec))


def _bounded(spec: ExponentialSpec | LognormalSpec | NormalSpec) -> Distribution:
    of: Distribution
    match spec:
        case ExponentialSpec():
            of = Exponential(spec.mean)
        case LognormalSpec():
            of = Lognormal(*spec.parameters)
        case NormalSpec():
            of = Normal(spec.mean, spec.std)
    if not spec.min and spec.max is None:
        return of
    return Bounded(of, spec.min, float("inf") if spec.max is None else spec.max)
