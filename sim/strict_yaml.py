"""YAML into frozen structs, with errors that say where, what and which rule, in one line.

`load_yaml` reads a file and keeps the place of every key, `apply_overrides` applies `--set key.path=value`,
`decode` makes the struct. What counts as YAML is in yaml_reader.py; why a value does not fit, in
struct_errors.py.
"""

import copy
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sim.errors import KvcliffError, ScenarioError, did_you_mean
from sim.struct_errors import Path as KeyPath
from sim.struct_errors import dotted, first_problem, not_finite, show
from sim.yaml_reader import MAX_DEPTH, MAX_DIGITS, Place, YamlReader

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A mapping read from YAML, and the place of everything in it, by path: `("load", "sessions", 0)`."""

    source: str
    data: dict[Any, Any]
    places: dict[KeyPath, Place]

    def place(self, path: KeyPath) -> Place:
        """Return where a path stands, or the nearest thing around it that stands somewhere."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Place(self.source))

    def blamed(self, path: KeyPath, text: str) -> Place:
        """Return the place of what is wrong at a path: an override below it whose key the text names, else its own."""
        for below, place in self.places.items():
            overridden = place.source != self.source and below[: len(path)] == path
            if overridden and str(below[-1]) in re.split(r"[\s:.]+", text):
                return place
        return self.place(path)


def load_yaml(path: str | Path, error: type[KvcliffError] = ScenarioError) -> YamlDocument:
    """Read a YAML file whose top level is a mapping.

    Raises `error` if the file is missing, unreadable, not UTF-8, empty, not YAML or not a mapping.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
    except IsADirectoryError:
        raise error(f"{path}: is a directory, not a YAML file") from None
    except FileNotFoundError:
        raise error(f"{path}: no such file{_nearest_file(path)}") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"{str(path)!r}: cannot be read: {reason}") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = problem.object.count(b"\n", 0, problem.start) + 1
        byte = problem.object[problem.start]
        raise error(f"{path}:{line}: is not UTF-8 text (byte 0x{byte:02x})") from None
    return parse_yaml(text, str(path), error)


def parse_yaml(text: str, source: str, error: type[KvcliffError] = ScenarioError) -> YamlDocument:
    """Read YAML text whose top level is a mapping; `source` names it in messages.

    Raises `error` if the text is empty, not YAML or not a mapping.
    """
    reader = YamlReader(source, error)
    data = reader.read(text)
    if not reader.places:
        raise error(f"{source}: is empty; expected a mapping of settings")
    if not isinstance(data, dict):
        raise error(f"{reader.places[()]}: expected a mapping at the top level, got {show(data)}")
    return YamlDocument(source, data, reader.places)


def decode(document: YamlDocument, into: type[T], error: type[KvcliffError] = ScenarioError) -> T:
    """Return the document as `into`, a msgspec Struct or any type msgspec converts to.

    Raises `error` with the place, path, value and rule of the first thing that does not fit.
    """
    problem = not_finite(document.data) or first_problem(document.data, into)
    if problem:
        raise error(f"{document.blamed(problem.path, problem.text)}: {problem.text}")
    return msgspec.convert(document.data, into)


def apply_overrides(
    document: YamlDocument, overrides: Iterable[str], error: type[KvcliffError] = ScenarioError
) -> YamlDocument:
    """Return a copy of the document with each `key.path=value` applied; the value is YAML.

    A number in a path indexes a list (`load.sessions.0` or `load.sessions[0]`). A mapping that does not exist
    is made: `decode` then names a misspelt one. A key that itself holds a dot cannot be reached.
    Raises `error` if an override is malformed or leads through something that holds no keys.
    """
    data, places = copy.deepcopy(document.data), dict(document.places)
    for override in overrides:
        name, equals, text = override.partition("=")
        parts = re.sub(r"\[(\d+)\]", r".\1", name.strip()).split(".")
        if not (equals and all(parts) and name.isprintable() and len(parts) <= MAX_DEPTH):
            raise error(f"--set {show(override)}: expected key.path=value, such as engine.block_size=16")
        reader = YamlReader(f"--set {name.strip()}", error, has_lines=False)
        path = _assign(data, parts, reader.read(text), reader)
        places = {old: place for old, place in places.items() if old[: len(path)] != path}
        places[path] = Place(reader.source)
    return YamlDocument(document.source, data, places)


def _assign(data: dict[Any, Any], parts: list[str], value: object, reader: YamlReader) -> KeyPath:
    """Set the value under the parts and return the path of what was new: the value or a mapping around it."""
    here: Any = data
    path: KeyPath = ()
    new: KeyPath | None = None
    for part in parts[:-1]:
        path = (*path, _key(here, part, path, reader))
        child = here[path[-1]] if isinstance(here, list) else here.get(path[-1])
        if child is None:
            child = here[path[-1]] = {}
            new = new or path
        here = child
    key = _key(here, parts[-1], path, reader)
    here[key] = value
    return new or (*path, key)


def _key(here: object, part: str, path: KeyPath, reader: YamlReader) -> str | int:
    if isinstance(here, list):
        if not (part.isdecimal() and len(part) < MAX_DIGITS and int(part) < len(here)):
            raise reader.error(f"{reader.source}: {dotted(path)} has {len(here)} items, no item {part!r}")
        return int(part)
    if not isinstance(here, dict):
        raise reader.error(f"{reader.source}: {dotted(path)} is {show(here)} and holds no key {part!r}")
    number = int(part) if part.isdecimal() and len(part) < MAX_DIGITS else None
    return number if number in here and part not in here and number is not None else part


def _nearest_file(path: Path) -> str:
    with suppress(OSError):
        if not path.parent.is_dir():
            return f", nor a folder {path.parent}"
        files = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
        return did_you_mean(path.name, files)
    return ""
