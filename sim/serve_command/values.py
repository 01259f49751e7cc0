"""What a flag's words mean: each kind reads the words after a flag into one typed value.

A kind raises RuleError with the rule that the words break; the caller adds the place and the flag. Numbers are
read as the engines read them: vLLM's 1k is 1,000 and its 1K is 1,024; SGLang's are 1k and 1Ki.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from sim.errors import one_of
from sim.serve_command.errors import RuleError

MAX_DIGITS = 30
MOST = 10**15  # above any count of tokens or bytes of one GPU
DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
VLLM_SUFFIXES = DECIMAL | BINARY
SGLANG_SUFFIXES = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {f"{k}i": v for k, v in BINARY.items()}
TRUTH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


class Takes(Enum):
    """How many words follow a flag."""

    NOTHING = "nothing"
    ONE = "one"
    MANY = "many"  # at least one
    MAYBE_ONE = "maybe one"


@dataclass(frozen=True, slots=True)
class Kind:
    """How many words a flag takes and what they mean; `read` raises RuleError with the rule."""

    takes: Takes
    read: Callable[[str], Any]


def _truth(text: str) -> bool:
    if text.lower() not in TRUTH:
        raise RuleError("must be true or false")
    return TRUTH[text.lower()]


SWITCH = Kind(Takes.NOTHING, _truth)
SWITCH_OFF = Kind(Takes.NOTHING, lambda text: not _truth(text))  # the setting is named the other way round


def _digits(text: str, rule: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9][0-9_]*", text) or len(text) > MAX_DIGITS:
        raise RuleError(rule)
    return int(text.rstrip("_").replace("_", ""))


def whole(least: int = 1, most: int = 10**9) -> Kind:
    """Return the kind of a whole number within bounds."""
    rule = f"must be a whole number from {least:,} to {most:,}"

    def read(text: str) -> int:
        value = _digits(text, rule)
        if not least <= value <= most:
            raise RuleError(rule)
        return value

    return Kind(Takes.ONE, read)


def _scaled(text: str, suffixes: Mapping[str, int]) -> int:
    examples = ", ".join(name for name in ("1k", "1K", "1Ki") if name[1:] in suffixes)
    rule = f"must be a whole number from 1 to {MOST:,}, such as 8192, {examples}"
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]{1,2})", text)
    if not found or len(text) > MAX_DIGITS:
        value = _digits(text, rule)
    else:
        number, suffix = found.groups()
        if suffix not in suffixes:
            raise RuleError(f"ends in an unknown unit: {one_of(suffix, suffixes)}")
        scale = suffixes[suffix]
        if "." in number and scale % 1000:
            raise RuleError(f"mixes a decimal point with {suffix}, which is {scale:,}; write a whole number")
        value = int(float(number) * scale) if "." in number else int(number) * scale
    if not 1 <= value <= MOST:
        raise RuleError(rule)
    return value


SCALED = Kind(Takes.ONE, lambda text: _scaled(text, VLLM_SUFFIXES))
SGLANG_SCALED = Kind(Takes.ONE, lambda text: _scaled(text, SGLANG_SUFFIXES))


def _scaled_or_auto(text: str) -> int | Literal["auto"]:
    return "auto" if text == "-1" or text.lower() == "auto" else _scaled(text, VLLM_SUFFIXES)


SCALED_OR_AUTO = Kind(Takes.ONE, _scaled_or_auto)  # -1 and auto: as long as the memory allows


def chunk_tokens(text: str) -> int | None:
    """Read SGLang's chunked prefill size: -1 turns it off, which is None here."""
    return None if text == "-1" else _scaled(text, SGLANG_SUFFIXES)


def number(least: float = 0.0, most: float = 1e6, *, above: bool = False) -> Kind:
    """Return the kind of a finite number within bounds; `above`: the least itself is not allowed."""
    rule = f"must be a number {'above' if above else 'from'} {least:g} {'and at most' if above else 'to'} {most:g}"

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise RuleError(rule) from None
        if not math.isfinite(value) or not least <= value <= most or (above and value == least):
            raise RuleError(rule)
        return value

    return Kind(Takes.ONE, read)


SHARE = number(0, 1, above=True)


def _word(text: str) -> str:
    if not text.strip():
        raise RuleError("is empty")
    return text


WORD = Kind(Takes.ONE, _word)


def choice(*names: str) -> Kind:
    """Return the kind of one of some names, in any case."""

    def read(text: str) -> str:
        folded = {name.lower(): name for name in names}
        if text.lower() not in folded:
            raise RuleError(f"is unknown: {one_of(text, names)}")
        return folded[text.lower()]

    return Kind(Takes.ONE, read)


def _items(text: str) -> list[str]:
    items = [item for item in re.split(r"[\s,\[\]\"']+", text) if item]
    if not items:
        raise RuleError("is empty")
    return items


def _wholes(text: str) -> tuple[int, ...]:
    return tuple(whole().read(item) for item in _items(text))


WHOLES = Kind(Takes.MANY, _wholes)
COMMA_WHOLES = Kind(Takes.ONE, _wholes)
WORDS = Kind(Takes.MANY, lambda text: tuple(_items(text)))


def _no_constant(name: str) -> None:
    raise RuleError(f"holds {name}, which is no number")


def _json_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise RuleError(f"holds a number of {len(text)} digits")
    return int(text)


def _json_float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise RuleError(f"holds a number out of range: {text[:MAX_DIGITS]}")
    return value


def json_value(text: str) -> Any:
    """Read strict JSON: no NaN, no Infinity, no number too long."""
    try:
        return json.loads(text, parse_constant=_no_constant, parse_int=_json_int, parse_float=_json_float)
    except json.JSONDecodeError as problem:
        raise RuleError(f"is not JSON: {problem.msg.lower()} at character {problem.pos + 1}") from None
    except RecursionError:
        raise RuleError("is nested too deep") from None


def _json_object(text: str) -> dict[str, Any]:
    if text in {"", "None", "null"}:
        return {}
    value = json_value(text)
    if not isinstance(value, dict):
        raise RuleError("must be a JSON object such as '{\"key\": 1}'")
    return value


JSON_OBJECT = Kind(Takes.ONE, _json_object)


def _per_prompt(text: str) -> dict[str, int]:
    """Items of each modality a prompt may hold: JSON, or `image=4,video=0` as old versions had it."""
    pairs: dict[str, Any] = {}
    if text.lstrip().startswith("{"):
        pairs = _json_object(text)
    else:
        for item in _items(text):
            modality, equals, count = item.partition("=")
            if not equals:
                raise RuleError("must be JSON such as '{\"image\": 2}'")
            pairs[modality] = count
    limits = {}
    for modality, limit in pairs.items():
        count = limit.get("count", 1) if isinstance(limit, dict) else limit
        limits[modality] = whole(0, 10**6).read(as_text(count))
    return limits


PER_PROMPT = Kind(Takes.ONE, _per_prompt)


def as_text(value: object) -> str:
    """Return a value from JSON or YAML as the word that a command line would have in its place."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value)
