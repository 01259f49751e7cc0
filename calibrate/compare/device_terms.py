"""The rates of a device profile that one engine uses, changed together: of its weights, its head, its KV dtype."""

import msgspec

from calibrate.compare.scaled_term import raised, scaled
from sim.catalog import Model
from sim.steptime.device import DeviceProfile, weight_family
from sim.steptime.profile import kv_family

_PREFILL = {"linear": ("flops_per_s",), "experts": ("flops_per_s",), "attention": ("prefill_flops_per_s",)}
_DECODE = {"linear": ("bytes_per_s",), "experts": ("bytes_per_s",), "attention": ("decode_bytes_per_s",)}


def changed_device(
    profile: DeviceProfile, model: Model, dtypes: tuple[str, str], term: str, value: float
) -> DeviceProfile:
    """Return the profile with `prefill` or `decode` rates times a factor, or `host` seconds more a step.

    `dtypes` are those of the weights and the KV cache.
    """
    weight_dtype, kv_cache_dtype = dtypes
    if term == "host":
        step_s = raised(profile.composition.step_s, value)
        return msgspec.structs.replace(profile, composition=msgspec.structs.replace(profile.composition, step_s=step_s))
    own = weight_family(model.weight_dtype if weight_dtype == "auto" else weight_dtype)
    head = "fp32" if own == "fp32" else "bf16"
    used = {"linear": {own, head}, "experts": {own}, "attention": {kv_family(kv_cache_dtype)}}
    changes = {}
    for table, fields in (_PREFILL if term == "prefill" else _DECODE).items():
        specs = dict(getattr(profile, table))
        for name in used[table] & specs.keys():
            spec = specs[name]
            specs[name] = msgspec.structs.replace(
                spec, **{field: scaled(getattr(spec, field), value) for field in fields}
            )
        changes[table] = specs
    return msgspec.structs.replace(profile, **changes)
