"""Files that describe a load in one YAML or JSON value: small, flat, checked, errors with the key's path."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from workloads.errors import WorkloadError
from workloads.traces.format import Head
from workloads.traces.json_rows import json_fault
from workloads.traces.reading import Reading
from workloads.traces.text_lines import document

T = TypeVar("T")
MOST_SPEC_BYTES = 2**20  # people write these by hand
_MOST_NODES = 200_000  # with every alias written out
_MOST_DEPTH = 40
_SUFFIXES = {".yaml", ".yml"}
_LIKE_YAML = re.compile(r"^(api|clients|cohorts|data|inference_perf|load|trace_version|version)\s*:", re.MULTILINE)


def spec_document(reading: Reading, kind: type[T], *path: str) -> T:
    """Return the value under a path of keys of a YAML or JSON file, decoded into a type.

    Raises WorkloadError with what is wrong and the path of its key.
    """
    value = _value(reading.path)
    for depth, key in enumerate(path):
        if not isinstance(value, dict) or key not in value:
            raise reading.error(f"key missing: {'.'.join(path[: depth + 1])}")
        value = value[key]
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        inside = "." if path and "at `$." in str(error) else ": " if path else ""
        raise reading.error(f"{'.'.join(path)}{inside}{json_fault(error)}") from None


def yaml_keys(head: Head, *path: str) -> frozenset[str]:
    """Return the keys of a YAML or JSON file, or of what it holds under a path; nothing for files of other kinds."""
    value = head.first
    if value is None:
        if not _SUFFIXES & set(head.path.suffixes) and not _LIKE_YAML.search(head.text):
            return frozenset()
        value = _yaml_of(head.path, head.path.stat().st_mtime_ns)
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return frozenset(map(str, value)) if isinstance(value, dict) else frozenset()


@lru_cache(maxsize=1)
def _yaml_of(path: Path, _changed_ns: int) -> Any:
    return _value(path)


def _value(path: Path) -> Any:
    text = document(path, MOST_SPEC_BYTES)
    if text.lstrip()[:1] == b"{":  # YAML's flow style is left to YAML, where it is not JSON
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if not _SUFFIXES & set(path.suffixes):
                raise WorkloadError(f"{path}: {json_fault(error)}") from None
    return _yaml(path, text)


def _yaml(path: Path, text: bytes) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_size(path, text, loader)
        return yaml.load(text, loader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise WorkloadError(f"{path}{line}: no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:  # bytes no text has; dates no year has
        raise WorkloadError(f"{path}: no YAML: {str(error).splitlines()[0][:100]}") from None


def _check_size(path: Path, text: bytes, loader: Any) -> None:
    """Refuse what is nested too deep, or grows too large where its aliases are written out; nothing is built yet."""
    import yaml

    sizes: dict[str | None, int] = {}  # nodes under an anchor
    unended: list[tuple[str | None, int]] = []  # collections: their anchors, and how many nodes came before
    nodes = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            unended.append((event.anchor, nodes))
            nodes += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = unended.pop()
            sizes[anchor] = nodes - before
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            sizes[event.anchor] = 1
        elif isinstance(event, yaml.AliasEvent):
            nodes += sizes.get(event.anchor, _MOST_NODES)  # one that is not complete holds itself
        if len(unended) > _MOST_DEPTH:
            raise WorkloadError(f"{path}: nested more than {_MOST_DEPTH} deep")
        if nodes > _MOST_NODES:
            raise WorkloadError(f"{path}: more than {_MOST_NODES:,} values, or an alias of nothing or of itself")
