"""The terms of a device profile by dotted name, such as `linear.bf16.flops_per_s`: to read, replace and list them."""

from collections.abc import Iterator, Mapping

import msgspec

from sim.steptime.device import DeviceProfile
from sim.steptime.profile import Term

TABLES = ("linear", "attention", "experts", "links", "small")


def terms_of(profile: DeviceProfile) -> Iterator[tuple[str, Term]]:
    """Yield every term with its name, in the order of the schema."""
    for table in TABLES:
        for key, spec in getattr(profile, table).items():
            for field in spec.__struct_fields__:
                yield f"{table}.{key}.{field}", getattr(spec, field)
    for part in ("composition", "frontend"):
        spec = getattr(profile, part)
        for field in spec.__struct_fields__:
            yield f"{part}.{field}", getattr(spec, field)


def with_terms(profile: DeviceProfile, changed: Mapping[str, Term]) -> DeviceProfile:
    """Return the profile with the named terms replaced; KeyError for a name it does not have."""
    parts: dict[str, object] = {}
    for name, term in changed.items():
        table, *path = name.split(".")
        own = parts.get(table, getattr(profile, table))
        if table in TABLES:  # the schema's own types are checked again when a profile is read
            key, field = path
            own = {**own, key: msgspec.structs.replace(own[key], **{field: term})}  # type: ignore[dict-item, index]
        else:
            own = msgspec.structs.replace(own, **{path[0]: term})  # type: ignore[type-var]
        parts[table] = own
    return msgspec.structs.replace(profile, **parts)


def with_values(profile: DeviceProfile, values: Mapping[str, float]) -> DeviceProfile:
    """Return the profile with other values for the named terms: ranges are dropped, for trying out."""
    return with_terms(profile, {name: Term(value=value, source="fitted") for name, value in values.items()})
