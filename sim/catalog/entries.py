"""Reads the catalog's YAML files and finds an entry by name or alias.

Case, spaces, underscores and hyphens do not matter in a name; anything else must match, and what does not
match is an error with the nearest valid name, never a default.
"""

from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from sim.errors import CatalogError, did_you_mean

_MOST_NEAR = 8
_LEAST_ALIKE = 0.5
_LONGEST_SHOWN = 100


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

    Raises CatalogError with the nearest valid names when there is none.
    """
    found = index_of(file_name).get(fold(name))
    if found is not None:
        return found
    known = [called for entry in read_entries(file_name) for called in (entry["name"], *entry.get("aliases", ()))]
    near = dict.fromkeys(index_of(file_name)[fold(called)]["name"] for called in _nearest(name, known))
    others = f"nearest: {', '.join(near)}" if near else f"known: {', '.join(names_in(file_name))}"
    raise CatalogError(f"{kind} {_shown(name)} is not in the catalog{did_you_mean(name, known)}; {others}")


def _nearest(name: str, known: list[str]) -> list[str]:
    folded = {called.lower(): called for called in known}
    return [folded[near] for near in get_close_matches(name.lower(), folded, n=_MOST_NEAR, cutoff=_LEAST_ALIKE)]


def _shown(name: str) -> str:
    return repr(name if len(name) <= _LONGEST_SHOWN else name[:_LONGEST_SHOWN] + "...")


def fold(name: str) -> str:
    """Return a name without what does not matter in it."""
    return name.lower().replace(" ", "").replace("_", "").replace("-", "")
