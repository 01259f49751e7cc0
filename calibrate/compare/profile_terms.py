"""The terms of a profile of one model, changed together.

Its linear layers are one line of seconds by tokens: what the first point takes is reading weights, what is on top of it
is FLOPs.
"""

import msgspec

from calibrate.compare.scaled_term import raised, scaled
from sim.steptime.profile import KvAttention, Linear, Profile, kv_family


def changed_profile(profile: Profile, kv_cache_dtype: str, term: str, value: float) -> Profile:
    """Return the profile with `prefill` or `decode` rates times a factor, or `host` seconds more a step."""
    if term == "host":
        return msgspec.structs.replace(profile, step_overhead_s=raised(profile.step_overhead_s, value))
    prefills = term == "prefill"
    head = profile.head
    if not prefills:
        head = msgspec.structs.replace(head, per_step_s=scaled(head.per_step_s, 1 / value))
    attention, family = dict(profile.attention), kv_family(kv_cache_dtype)
    if family in attention:
        attention[family] = _attention(attention[family], value, prefills=prefills)
    return msgspec.structs.replace(
        profile,
        linear=_linear(profile.linear, value, prefills=prefills),
        head=head,
        attention=attention,
    )


def _linear(linear: Linear, factor: float, *, prefills: bool) -> Linear:
    read_s = linear.seconds[0]
    if prefills:
        seconds = [read_s + (one - read_s) / factor for one in linear.seconds]
    else:
        seconds = [one + read_s / factor - read_s for one in linear.seconds]
    note = f"refitted: x{factor:.4g} {'above the first point' if prefills else 'at the first point'}"
    return msgspec.structs.replace(linear, seconds=seconds, source="fitted", note=note)


def _attention(attention: KvAttention, factor: float, *, prefills: bool) -> KvAttention:
    if prefills:
        pair_s = scaled(attention.prefill_s_per_pair, 1 / factor)
        return msgspec.structs.replace(attention, prefill_s_per_pair=pair_s)
    return msgspec.structs.replace(attention, decode_bytes_per_s=scaled(attention.decode_bytes_per_s, factor))
