"""Which modules of a checkpoint a list of names means.

Quantisation configs name modules exactly, by a beginning (`model.layers.0.self_attn*`), by one part (`gate`), with
`*` anywhere, or with `re:` as an expression. Lists run to thousands of names, so they are indexed once.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

_PREFIXES = ("model.language_model.", "language_model.model.", "model.", "")  # before `layers.`, by kind of model
_ELSEWHERE = ("vis", "audio", "encoder", "mtp")  # layers of encoders and drafts, whose numbers mean others
_NOTHING = re.compile(r"(?!)")
_MOST_REPEATS = 6  # of one expression: beyond, and with repeated groups, matching could take for ever


@dataclass(frozen=True, slots=True)
class Rule:
    """The bits a weight takes in the modules a pattern names."""

    pattern: str
    bits: float


class RuleIndex:
    """Rules, by how they name modules: exact names first, then beginnings, parts and expressions."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._exact: dict[str, float] = {}
        self._beginnings: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
        self._parts: list[tuple[str, float]] = []
        self._expressions: list[tuple[re.Pattern[str], float]] = []
        for rule in rules:
            self._add(rule.pattern, rule.bits)

    def bits_at(self, module: str) -> float | None:
        """Return the bits of a module named from `layers.N.` on, or None if no rule means it."""
        name = module
        while name:
            if name in self._exact:
                return self._exact[name]
            name = name.rpartition(".")[0]
        number = ".".join(module.split(".", 2)[:2])
        for beginning, bits in self._beginnings[number]:
            if module.startswith(beginning):
                return bits
        for part, bits in self._parts:
            if part in f".{module}.":
                return bits
        for expression, bits in self._expressions:
            if any(expression.match(prefix + module) for prefix in _PREFIXES):
                return bits
        return None

    def _add(self, pattern: str, bits: float) -> None:
        before, found, after = pattern.partition("layers.")
        if found and any(word in before for word in _ELSEWHERE) and not pattern.startswith("re:"):
            return
        bare = found + after if found else pattern
        if pattern.startswith("re:"):
            self._expressions.append((_compiled(pattern[3:]), bits))
        elif "*" not in bare and bare.startswith("layers."):
            self._exact.setdefault(bare, bits)
        elif "*" not in bare:
            self._parts.append((f".{bare}.", bits))
        elif bare.find("*") == len(bare) - 1 and bare.startswith("layers.") and bare.count(".") > 1:
            self._beginnings[".".join(bare.split(".", 2)[:2])].append((bare[:-1], bits))
        else:
            self._expressions.append((_compiled(translate(pattern.rstrip("*") + "*")), bits))


@lru_cache(maxsize=32)
def rule_index(rules: tuple[Rule, ...]) -> RuleIndex:
    """Return the index of these rules, built once."""
    return RuleIndex(rules)


def is_quick(pattern: str) -> bool:
    """Whether matching a pattern is sure to end soon."""
    expression = pattern.removeprefix("re:")
    repeats = len(re.findall(r"(?<!\\)[*+{]", expression))
    return repeats <= _MOST_REPEATS and re.search(r"\)[*+{]", expression) is None


def is_expression(pattern: str) -> bool:
    """Whether a pattern has to be matched, name by name, not looked up."""
    return pattern.startswith("re:") or "*" in pattern.rstrip("*") or not pattern.rpartition("layers.")[1]


def _compiled(expression: str) -> "re.Pattern[str]":
    try:
        return re.compile(expression)
    except re.error:
        return _NOTHING  # an engine would refuse it; here it names nothing
