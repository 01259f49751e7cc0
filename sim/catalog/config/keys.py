"""Typed access to a config: a key that is missing, of the wrong type or out of bounds is one line naming it."""

import math
from collections.abc import Mapping
from typing import Any

from sim.errors import CatalogError

MOST = 10**12  # no count in a config comes near it
MOST_LAYERS = 4096
_LONGEST_KEY = 200


class Keys:
    """The keys of one JSON object, null meaning absent; `where` opens each message."""

    def __init__(self, where: str, values: Mapping[str, Any], path: str = "") -> None:
        self.where, self.values, self._path = where, values, path

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def broken(self, key: str, what: str) -> CatalogError:
        """Return the error that says what is wrong with a key."""
        return CatalogError(f"{self.where}: {_on_one_line(self._path + key)} {what}")

    def count(self, *names: str) -> int:
        """Return the first of these keys that is there, a whole number above 0."""
        found = self.count_or_none(*names)
        if found is None:
            raise self.broken(names[0], "is missing")
        return found

    def count_or_none(self, *names: str) -> int | None:
        """Return the first of these keys that is there, above 0, or None."""
        for key in names:
            if key in self:
                return self._whole(key, 1)
        return None

    def size(self, *names: str) -> int:
        """Return the first of these keys that is there, 0 or more; 0 if none is."""
        return next((self._whole(key, 0) for key in names if key in self), 0)

    def number(self, key: str) -> float | None:
        """Return a finite number above 0, or None."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not _fair(value):
            raise self.broken(key, f"{shown(value)} must be a number above 0")
        return float(value)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return a switch."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.broken(key, f"{shown(value)} must be true or false")
        return value

    def text(self, key: str) -> str | None:
        """Return a text, or None."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.broken(key, f"{shown(value)} must be text")
        return value

    def part(self, key: str) -> "Keys | None":
        """Return a nested object, or None."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.broken(key, f"{shown(value)} must be an object")
        return Keys(self.where, value, f"{self._path}{key}.")

    def items(self, key: str, kind: type | tuple[type, ...]) -> list[Any]:
        """Return a list whose elements are of one type; empty if absent."""
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise self.broken(key, f"{shown(value)} must be a list")
        for element in value:
            if not isinstance(element, kind):
                raise self.broken(key, f"holds {shown(element)}")
        return list(value)

    def per_layer(self, key: str, kind: type | tuple[type, ...], layers: int) -> list[Any]:
        """Return a list with an element for each layer."""
        found = self.items(key, kind)
        if len(found) != layers:
            raise self.broken(key, f"has {len(found)} entries for num_hidden_layers {layers}")
        return found

    def _whole(self, key: str, least: int) -> int:
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.broken(key, f"{shown(value)} must be a whole number {'above 0' if least else 'of 0 or more'}")
        if value > MOST:
            raise self.broken(key, f"{shown(value)} is beyond {MOST:.0e}")
        return value


def shown(value: object) -> str:
    """Return a value as messages show it: short, and on one line."""
    if isinstance(value, Mapping):
        return "{...}"
    if isinstance(value, list | tuple):
        return f"[{len(value)} entries]"
    if isinstance(value, int) and abs(value) > MOST:
        return "of that size"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _on_one_line(key: str) -> str:
    return key if key.isprintable() and len(key) <= _LONGEST_KEY else shown(key)


def _fair(value: float) -> bool:
    return math.isfinite(value) and 0 < value <= MOST if isinstance(value, float) else 0 < value <= MOST
