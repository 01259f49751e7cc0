"""YAML text into plain dicts and lists, with the place of everything in them.

Stricter than YAML 1.1 where a typo would pass unseen: a repeated key, a foreign tag, a second document or a
container that contains itself is an error; `010`, `1:30` and dates stay text; `1e3` is a number.
"""

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from sim.errors import KvcliffError
from sim.struct_errors import Path, dotted, show

Node = Any  # yaml.nodes: ScalarNode, SequenceNode or MappingNode, told apart by `id`

MAX_DEPTH = 100
MAX_ENTRIES = 200_000  # aliases of aliases can stand for far more text than the file has
MAX_DIGITS = 100

TAG = "tag:yaml.org,2002:"
TRUTH = {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}
FLOAT = (
    r"[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
PLAIN_WORDS = (  # tag, what a plain scalar of it looks like, its first characters
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", "|".join(f"{w}|{w.title()}|{w.upper()}" for w in TRUTH), list("yYnNtTfFoO")),
    ("int", r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F]+)", list("-+0123456789")),
    ("float", FLOAT, list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
)
UNPRINTABLE = "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


class Mark(NamedTuple):
    """A line and a column, both counted from 1."""

    line: int
    column: int


class Place(NamedTuple):
    """Where a key and its value stand; an override has no lines."""

    source: str
    key: Mark | None = None
    value: Mark | None = None

    def __str__(self) -> str:
        return f"{self.source}:{self.key.line}" if self.key else self.source


@functools.cache
def _loader_class() -> Any:
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("StrictLoader", (base,), {"yaml_implicit_resolvers": {}})
    for tag, pattern, first in PLAIN_WORDS:
        loader.add_implicit_resolver(TAG + tag, re.compile(f"(?:{pattern})\\Z"), first)
    return loader


class YamlReader:
    """Reads one text; `places` then says where each path stands. Empty text leaves `places` empty.

    `source` starts every message; an override has no lines worth naming.
    """

    def __init__(self, source: str, error: type[KvcliffError], *, has_lines: bool = True) -> None:
        self.source = source
        self.error = error
        self.has_lines = has_lines
        self.places: dict[Path, Place] = {}
        self._open: set[int] = set()
        self._entries = 0

    def read(self, text: str) -> Any:
        """Return the data in the text; raises `error` if it is not one plain YAML document."""
        node = self._compose(text)
        if node is None:
            return None
        self.places[()] = self._place(node, node)
        return self._value(node, ())

    def _compose(self, text: str) -> Node | None:
        import yaml

        try:
            return _loader_class()(text).get_single_node()
        except yaml.MarkedYAMLError as problem:
            at = problem.problem_mark or problem.context_mark
            if at and problem.context_mark and at.line >= len(text.splitlines()):
                at = problem.context_mark  # the text ends too early: name what was left open
            words = " ".join(filter(None, (problem.problem, problem.context)))
            raise self._failure(Mark(at.line + 1, at.column + 1) if at else None, words) from None
        except (yaml.YAMLError, ValueError) as problem:
            if found := re.search(UNPRINTABLE, text):
                line = text.count("\n", 0, found.start()) + 1
                mark = Mark(line, found.start() - text.rfind("\n", 0, found.start()))
                raise self._failure(mark, f"character {found.group()!r} is not allowed in YAML") from None
            raise self._failure(None, " ".join(str(problem).split())) from None
        except RecursionError:
            raise self._failure(None, "is nested too deep") from None

    def _failure(self, mark: Mark | None, words: str) -> KvcliffError:
        """Return the error for something that is not even YAML: these carry a column too."""
        at = f":{mark.line}:{mark.column}" if mark and self.has_lines else ""
        return self.error(f"{self.source}{at}: {words}")

    def _place(self, key: Node, value: Node) -> Place:
        marks = [Mark(node.start_mark.line + 1, node.start_mark.column + 1) for node in (key, value)]
        return Place(self.source, *marks) if self.has_lines else Place(self.source)

    def _refuse(self, node: Node, words: str) -> KvcliffError:
        return self.error(f"{self._place(node, node)}: {words}")

    @contextmanager
    def _inside(self, node: Node) -> Iterator[None]:
        self._entries += 1 + len(node.value)
        if id(node) in self._open:
            raise self._refuse(node, "an alias inside this mapping or list refers to the whole of it")
        if len(self._open) >= MAX_DEPTH:
            raise self._refuse(node, f"is nested deeper than {MAX_DEPTH} levels")
        if self._entries > MAX_ENTRIES:
            raise self._refuse(node, f"stands for more than {MAX_ENTRIES:,} entries")
        self._open.add(id(node))
        yield
        self._open.discard(id(node))

    def _value(self, node: Node, path: Path) -> Any:
        if node.id == "scalar":
            return self._scalar(node)
        if node.tag not in {f"{TAG}map", f"{TAG}seq"}:
            raise self._refuse(node, f"tag {node.tag!r} is not supported")
        with self._inside(node):
            if node.id == "sequence":
                self.places.update(((*path, i), self._place(item, item)) for i, item in enumerate(node.value))
                return [self._value(item, (*path, i)) for i, item in enumerate(node.value)]
            pairs = self._pairs(node, path)
            self.places.update(((*path, key), self._place(*pair)) for key, pair in pairs.items())
            return {key: self._value(pair[1], (*path, key)) for key, pair in pairs.items()}

    def _pairs(self, node: Node, path: Path) -> dict[Any, tuple[Node, Node]]:
        """Return key and value nodes by key; what `<<` merges in yields to what stands here."""
        pairs: dict[Any, tuple[Node, Node]] = {}
        merged: list[Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == f"{TAG}merge":
                merged += value_node.value if value_node.id == "sequence" else [value_node]
                continue
            if key_node.id != "scalar":
                raise self._refuse(key_node, f"a {key_node.id} cannot be a key")
            key = self._scalar(key_node)
            if key in pairs:
                first = f" (first at line {pairs[key][0].start_mark.line + 1})" if self.has_lines else ""
                raise self._refuse(key_node, f"{dotted((*path, key))} is set twice{first}")
            pairs[key] = (key_node, value_node)
        for other in merged:
            if other.id != "mapping":
                raise self._refuse(other, "<< can only merge a mapping or a list of mappings")
            with self._inside(other):
                pairs = self._pairs(other, path) | pairs
        return pairs

    def _scalar(self, node: Node) -> Any:
        kind, text = node.tag.removeprefix(TAG), node.value
        try:
            if kind in {"int", "float"} and len(text) > MAX_DIGITS:
                raise self._refuse(node, f"a number of {len(text)} digits is too long")
            match kind:
                case "str" | "merge":
                    return text
                case "null":
                    return None
                case "bool":
                    return TRUTH[text.lower()]
                case "int":
                    return int(text.replace("_", ""), 0)
                case "float":
                    return float(re.sub(r"\.(?=inf|nan)", "", text.replace("_", "").lower()))
        except (ValueError, KeyError):
            raise self._refuse(node, f"{show(text)} is no {kind}") from None
        raise self._refuse(node, f"tag {node.tag!r} is not supported")
