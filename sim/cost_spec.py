"""The scenario's `costs`: terms around the forward pass, each replacing the profile's."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from sim.steptime.costs import Costs
from sim.steptime.profile import Term
from sim.workload_spec import Spec

CostSeconds = Annotated[float, Meta(ge=0, le=60)]
Share = Annotated[float, Meta(ge=0, le=1)]


class CostsSpec(Spec, frozen=True):
    """What `sim.steptime.costs` explains; a term left out is the profile's, or zero."""

    host_step_s: CostSeconds | None = None
    host_sequence_s: CostSeconds | None = None
    pads_to_cuda_graphs: bool | None = None
    eager_kernel_s: CostSeconds | None = None
    sampling_sequence_s: CostSeconds | None = None
    penalty_token_s: CostSeconds | None = None
    penalised_share: Share | None = None
    structured_step_s: CostSeconds | None = None
    structured_sequence_s: CostSeconds | None = None
    structured_share: Share | None = None
    hashing_token_s: CostSeconds | None = None
    tokenising_token_s: CostSeconds | None = None
    round_trip_s: CostSeconds | None = None
    flush_s: CostSeconds | None = None

    def __post_init__(self) -> None:
        pairs = (
            ("penalised_share", ("penalty_token_s",)),
            ("structured_share", ("structured_step_s", "structured_sequence_s")),
        )
        for share, terms in pairs:
            if bool(getattr(self, share)) != any(getattr(self, term) for term in terms):
                raise ValueError(f"{share} and {' or '.join(terms)} need each other")


def costs_of(spec: CostsSpec, terms: Mapping[str, Term]) -> Costs:
    """Return all terms: the profile's, and over them the scenario's."""
    given = {name: getattr(spec, name) for name in spec.__struct_fields__ if getattr(spec, name) is not None}
    return Costs(**{name: term.value for name, term in terms.items()} | given)
