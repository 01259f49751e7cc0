"""YAML and JSON that start a server: Kubernetes manifests, compose files, a bare list of arguments."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sim.serve_command.docker import Container, gpu_count
from sim.serve_command.errors import CommandError
from sim.serve_command.paste import clean
from sim.serve_command.shell import Word, commands
from sim.serve_command.values import as_text
from sim.struct_errors import Path
from sim.yaml_reader import YamlReader

FIRST_LINE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*+[ \t]*(?:\[|-[ ]|---|\{|[\w.\"-]+:(?:[ \t]|\n|\Z))")
SEPARATOR = re.compile(r"^---.*$", re.MULTILINE)
STARTS = ("image", "command", "args", "entrypoint")
WORDS_KEYS = ("entrypoint", "command", "args")


def is_manifest(text: str) -> bool:
    """Whether a text is YAML or JSON rather than shell, by its first line."""
    return FIRST_LINE.match(text) is not None


def containers(text: str, variables: Mapping[str, str]) -> list[Container]:
    """Return what a manifest starts, in its order; a list of arguments is a container without image.

    Raises CommandError for text that is not YAML.
    """
    found = []
    for document, reader in _documents(text):
        if isinstance(document, list) and all(not isinstance(item, dict | list) for item in document):
            found.append(Container("", _Words(reader, variables).read(document, ())))
        else:
            found += [_container(value, path, reader, variables) for path, value in _mappings(document, ())]
    return found


def _documents(text: str) -> Iterator[tuple[Any, YamlReader]]:
    """Read the documents one by one, each below as many empty lines as stand before it."""
    ends = [found.span() for found in SEPARATOR.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    for start, end in zip(starts, [*(first for first, _ in ends), len(text)], strict=True):
        if text[start:end].strip():
            reader = YamlReader("command", CommandError)
            yield reader.read("\n" * text.count("\n", 0, start) + text[start:end]), reader


def _mappings(value: object, path: Path) -> Iterator[tuple[Path, dict[Any, Any]]]:
    """Yield each mapping that could be a container, the outermost first."""
    if isinstance(value, dict):
        if any(isinstance(value.get(key), str | list) for key in STARTS):
            yield path, value
        for key, below in value.items():
            yield from _mappings(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _mappings(below, (*path, index))


def _container(value: dict[Any, Any], path: Path, reader: YamlReader, variables: Mapping[str, str]) -> Container:
    words = _Words(reader, variables)
    inside = [word for key in WORDS_KEYS for word in words.read(value.get(key), (*path, key))]
    image = value.get("image")
    return Container(
        image if isinstance(image, str) else "",
        inside,
        words.environment(value, path),
        _gpus(value),
    )


class _Words:
    """Makes words of values, each with the line it stands on."""

    def __init__(self, reader: YamlReader, variables: Mapping[str, str]) -> None:
        self.reader = reader
        self.variables = variables

    def read(self, value: object, path: Path) -> list[Word]:
        """Return a list's items as words, or text cut as the shell cuts it."""
        if isinstance(value, list):
            return [Word(as_text(item), self._line((*path, index))) for index, item in enumerate(value)]
        if not isinstance(value, str) or not value.strip():
            return []
        place = self._line(path)
        cut = commands(clean(value), self.variables)
        if len(cut) > 1:
            return [Word("sh", place), Word("-c", place), Word(value, place)]
        return [Word(word.text, place) for command in cut for word in command]

    def environment(self, value: dict[Any, Any], path: Path) -> dict[str, Word]:
        """Return the variables: Kubernetes' list of name and value, compose's mapping or `NAME=value` list."""
        found: dict[str, Word] = {}
        for key in ("env", "environment"):
            entries = value.get(key)
            place = self._line((*path, key))
            if isinstance(entries, dict):
                found |= {as_text(name): Word(as_text(entry), place) for name, entry in entries.items()}
            for entry in entries if isinstance(entries, list) else []:
                if isinstance(entry, dict) and "value" in entry:
                    found[as_text(entry.get("name"))] = Word(as_text(entry["value"]), place)
                elif isinstance(entry, str) and "=" in entry:
                    name, _, text = entry.partition("=")
                    found[name] = Word(text, place)
        return found

    def _line(self, path: Path) -> str:
        while path and path not in self.reader.places:
            path = path[:-1]
        mark = self.reader.places[path].value
        return f"line {mark.line}" if mark else "the manifest"


def _gpus(value: dict[Any, Any]) -> int | None:
    """Return the GPUs a container asks for: `nvidia.com/gpu` of its limits, or compose's reserved devices."""
    limits = _at(value, "resources", "limits")
    for name, count in limits.items() if isinstance(limits, dict) else []:
        if as_text(name).endswith((".com/gpu", ".com/gpus")):
            return gpu_count(as_text(count))
    devices = _at(value, "deploy", "resources", "reservations", "devices")
    for device in devices if isinstance(devices, list) else []:
        if isinstance(device, dict):
            ids = device.get("device_ids")
            return len(ids) if isinstance(ids, list) else gpu_count(as_text(device.get("count")))
    return None


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
