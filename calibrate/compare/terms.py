"""What of a prediction can be wrong in one number, and how to change it: in the profile or the scenario, nowhere else.

    kv_blocks   blocks of the KV cache                                x
    prefill     FLOPs a second that products and prefill attention reach   x
    decode      bytes a second at which weights and KV are read       x
    host        seconds the host adds to every step                   +
    client      seconds between a client's send and the engine's queue  +

What a changed prediction is made of can be written down and loaded again: a profile, or a scenario's overrides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from calibrate.compare.device_terms import changed_device
from calibrate.compare.profile_terms import changed_profile
from sim.errors import KvcliffError
from sim.scenario import FrontendSpec
from sim.setup import Deployment, Parts, assemble
from sim.steptime.device import DeviceProfile, check_peaks
from sim.steptime.pricing import AnyProfile
from sim.steptime.profile import check_light_speed
from sim.steptime.roofline import roofline_profile

KV_BLOCKS, PREFILL, DECODE, HOST, CLIENT = "kv_blocks", "prefill", "decode", "host", "client"


@dataclass(frozen=True, slots=True)
class Term:
    """One number of a prediction."""

    name: str
    title: str
    added: bool = False  # seconds on top, rather than a factor

    def shown(self, value: float) -> str:
        """Return a value as people read it: `x0.50`, `+3.0 ms a step`."""
        if not self.added:
            return f"x{value:.3g}"
        return f"{value * 1e3:+.3g} ms a {'step' if self.name == HOST else 'request'}"


TERMS: Mapping[str, Term] = {
    term.name: term
    for term in (
        Term(KV_BLOCKS, "KV blocks"),
        Term(PREFILL, "prefill rate"),
        Term(DECODE, "decode bandwidth"),
        Term(HOST, "host time a step", added=True),
        Term(CLIENT, "client and frontend", added=True),
    )
}


@dataclass(frozen=True, slots=True)
class Change:
    """A term and its value; a factor of 1 or 0 seconds is no change."""

    term: str
    value: float


def as_profile(parts: Parts) -> Parts:
    """Return the parts with a profile in any case: a roofline is one too."""
    if parts.profile is not None:
        return parts
    return replace(parts, profile=roofline_profile(parts.gpu, parts.model, parts.scenario.weight_dtype))


def changed(base: Deployment, *changes: Change | None) -> Parts:
    """Return a deployment's parts with terms changed.

    Raises a KvcliffError for a value that is impossible: a rate beyond the data sheet, too few blocks to start.
    """
    parts = as_profile(base.parts)
    for change in changes:
        if change is None:
            continue
        if change.term == KV_BLOCKS:
            parts = with_blocks(parts, max(2, round(base.ledger.num_gpu_blocks * change.value)))
        elif change.term == CLIENT:
            parts = _with_client(base, parts, change.value)
        else:
            assert parts.profile is not None
            parts = replace(parts, profile=_changed(parts, parts.profile, change))
    return parts


def with_blocks(parts: Parts, blocks: int) -> Parts:
    """Return the parts with so many KV blocks, whatever said how many there are."""
    engine = msgspec.structs.replace(
        parts.scenario.engine,
        num_gpu_blocks_override=blocks,
        kv_cache_tokens=None,
        kv_cache_memory_bytes=None,
        startup_log=None,
    )
    return replace(parts, scenario=msgspec.structs.replace(parts.scenario, engine=engine), log=None)


def in_scenario(parts: Parts, term: str) -> bool:
    """Whether a change of a term is the scenario's to say, rather than the profile's."""
    return term == KV_BLOCKS or (term == CLIENT and parts.scenario.frontend is not None)


def is_possible(base: Deployment, changes: Sequence[Change], place: str) -> bool:
    """Whether an engine like that could be."""
    try:
        assemble(changed(base, *changes), place)
    except KvcliffError:
        return False
    return True


def _with_client(base: Deployment, parts: Parts, seconds: float) -> Parts:
    own = base.engine.frontend
    per_request_s = own.per_request_s + seconds
    if parts.scenario.frontend is not None:
        spec = FrontendSpec(per_request_s=per_request_s, per_prompt_token_s=own.per_prompt_token_s)
        return replace(parts, scenario=msgspec.structs.replace(parts.scenario, frontend=spec))
    assert parts.profile is not None
    frontend = parts.profile.frontend
    term = msgspec.structs.replace(frontend.per_request_s, value=per_request_s, low=None, high=None, source="fitted")
    return replace(parts, profile=_with_frontend(parts.profile, msgspec.structs.replace(frontend, per_request_s=term)))


_P = TypeVar("_P", bound=msgspec.Struct)


def _with_frontend(profile: _P, frontend: object) -> _P:
    return msgspec.structs.replace(profile, frontend=frontend)


def _changed(parts: Parts, profile: AnyProfile, change: Change) -> AnyProfile:
    place = f"{change.term} {TERMS[change.term].shown(change.value)}"
    if isinstance(profile, DeviceProfile):
        scenario = parts.scenario
        dtypes = (scenario.weight_dtype, scenario.engine.kv_cache_dtype)
        device = changed_device(profile, parts.model, dtypes, change.term, change.value)
        check_peaks(device, parts.gpu, place)
        return device
    plain = changed_profile(profile, parts.scenario.engine.kv_cache_dtype, change.term, change.value)
    check_light_speed(plain, parts.gpu, parts.model, place)
    return plain
