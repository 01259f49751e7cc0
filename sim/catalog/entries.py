"""Reads the catalog's YAML files and finds an entry by name or alias.

Case, spaces, underscores and hyphens do not matter in a name; anything else must match, and what does not
match is an error with the nearest valid name, never a default.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from sim.errors import CatalogError, did_you_mean


@lru_cache(maxsize=4)
def read_entries(file_name: str) -> tuple[dict[str, Any], ...]:
    """Return the entries of a catalog file in this package, parsed once a process."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = Path(__file__).with_name(file_name).read_text(encoding="utf-8")
    return tuple(yaml.load(text, Loader=loader))  # noqa: S506 -- both loaders are the safe ones


def names_in(file_name: str) -> tuple[str, ...]:
    """Return the main name of each entry, in the file's order."""
    return tuple(entry["name"] for entry in read_entries(file_name))


@lru_cache(maxsize=4)
def index_of(file_name: str) -> dict[str, dict[str, Any]]:
    """Return the entries by each folded name and alias."""
    entries = read_entries(file_name)
    return {fold(called): entry for entry in reversed(entries) for called in (entry["name"], *entry.get("aliases", ()))}


def find_entry(file_name: str, kind: str, name: str) -> dict[str, Any]:
    """Return the entry called `name`, or that has it as an alias.

    Raises CatalogError with the nearest and all valid names when there is none.
    """
    found = index_of(file_name).get(fold(name))
    if found is not None:
        return found
    known = [called for entry in read_entries(file_name) for called in (entry["name"], *entry.get("aliases", ()))]
    valid = ", ".join(names_in(file_name))
    raise CatalogError(f"{kind} {name!r} is not in the catalog{did_you_mean(name, known)}; known: {valid}")


def fold(name: str) -> str:
    """Return a name without what does not matter in it."""
    return name.lower().replace(" ", "").replace("_", "").replace("-", "")
