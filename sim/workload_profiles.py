"""Named workloads: files with the numbers of a kind of session and where each is from, shipped or the user's own.

A scenario names one as `workload: {profile: coding-agent}` and says beside it what is different. The profile's numbers
are laid under the scenario's before anything is checked, so that what runs, is printed and is hashed are the numbers.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from sim.errors import ScenarioError, one_of
from sim.strict_yaml import YamlDocument, decode, load_yaml
from sim.struct_errors import Path as KeyPath
from sim.struct_errors import dotted
from sim.workload_spec import Spec, WorkloadSpec

_SECTIONS: tuple[KeyPath, ...] = (("workload",), ("background", "workload"))


class FittedFrom(Spec, frozen=True):
    """The trace a profile was made from, and what had to be assumed."""

    file: str
    format: str
    sha256: str
    sessions: int
    requests: int
    assumed: list[str] = msgspec.field(default_factory=list[str])


class WorkloadProfile(Spec, frozen=True):
    """A profile's file."""

    name: str
    description: str
    workload: WorkloadSpec
    sources: dict[str, str]  # by key of the workload
    fitted_from: FittedFrom | None = None

    def __post_init__(self) -> None:
        keys = set(WorkloadSpec.__struct_fields__)
        for key in self.sources:
            if key not in keys:
                raise ValueError(f"sources: {one_of(key, keys)}")
        if self.workload.profile is not None:
            raise ValueError(f"workload.profile {self.workload.profile!r} has no place in a profile")
        unsaid = sorted(_said(self.workload) - self.sources.keys())
        if unsaid:
            raise ValueError(f"sources must say where {', '.join(unsaid)} is from")


def _said(spec: WorkloadSpec) -> set[str]:
    given = msgspec.structs.asdict(spec)
    defaults = {field.name: field.default for field in msgspec.structs.fields(WorkloadSpec)}
    return {name for name, value in given.items() if value != defaults[name]}


@cache
def _folder() -> Path:
    return Path(str(files("workloads"))) / "profiles"


def built_in_names() -> list[str]:
    """Return the names of the profiles that ship."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


def profile_path(name: str, beside: Path = Path()) -> Path:
    """Return the file of a built-in name, or of a path that counts from `beside`.

    Raises ScenarioError, with the nearest name, if there is neither.
    """
    names = built_in_names()
    if name in names:
        return _folder() / f"{name}.yaml"
    if "/" in name or name.endswith((".yaml", ".yml")):
        return beside / name
    raise ScenarioError(f"profile {one_of(name, names)}, nor the path of a .yaml file")


def load_profile(path: Path) -> WorkloadProfile:
    """Read a profile.

    Raises ScenarioError with the place of what is wrong.
    """
    return decode(load_yaml(path), WorkloadProfile)


def with_profiles(document: YamlDocument) -> YamlDocument:
    """Return a scenario's document with the numbers of the profiles it names laid under its own.

    A profile that an override names replaces what the file says of the workload; other overrides stay on top.
    Raises ScenarioError if there is no such profile or it is wrong.
    """
    for section in _SECTIONS:
        here: Any = document.data
        for key in section:
            here = here.get(key) if isinstance(here, dict) else None
        if isinstance(here, dict) and isinstance(here.get("profile"), str):
            document = _laid_under(document, section, here)
    return document


def _laid_under(document: YamlDocument, section: KeyPath, own: dict[Any, Any]) -> YamlDocument:
    at = (*section, "profile")
    place = document.place(at)
    overridden = place.source != document.source
    try:
        path = profile_path(own["profile"], Path(document.source).parent)
        if overridden and not path.exists() and Path(own["profile"]).exists():
            path = Path(own["profile"])  # typed where the command runs
        profile = load_yaml(path)
        decode(profile, WorkloadProfile)
    except ScenarioError as error:
        raise ScenarioError(f"{place}: {dotted(at)}: {error}") from None
    if overridden:
        own = {key: value for key, value in own.items() if _is_overridden(document, (*section, key))}
    told = {(*section, *where[1:]): stands for where, stands in profile.places.items() if where[:1] == ("workload",)}
    gone = {(*section, *where) for where in _replacing(profile.data["workload"], own)}
    below = {where: stands for where, stands in told.items() if not any(where[: len(one)] == one for one in gone)}
    data = _replaced(document.data, section, _merged(profile.data["workload"], own))
    return YamlDocument(document.source, data, below | {one: document.place(one) for one in gone} | document.places)


def _is_overridden(document: YamlDocument, path: KeyPath) -> bool:
    below = (place for where, place in document.places.items() if where[: len(path)] == path)
    return any(place.source != document.source for place in (document.place(path), *below))


def _merged(under: dict[Any, Any], over: dict[Any, Any]) -> dict[Any, Any]:
    """Return both; of one mapping in both each key counts, but a distribution that names its kind replaces another."""
    merged = dict(under)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and _joins(value) else value
    return merged


def _joins(value: object) -> bool:
    return isinstance(value, dict) and "kind" not in value


def _replacing(under: dict[Any, Any], over: dict[Any, Any]) -> Iterator[KeyPath]:
    """Yield the path of each value that stands in the place of another."""
    for key, value in over.items():
        old = under.get(key)
        if isinstance(old, dict) and _joins(value):
            yield from ((key, *below) for below in _replacing(old, value))
        else:
            yield (key,)


def _replaced(data: dict[Any, Any], section: KeyPath, value: dict[Any, Any]) -> dict[Any, Any]:
    first, *rest = section
    return {**data, first: _replaced(data[first], tuple(rest), value) if rest else value}
