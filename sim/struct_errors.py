"""Why a value does not fit a msgspec type: the path to the first thing wrong, and the rule it breaks.

msgspec decides whether a value fits; this file only finds out where and says so in words. It walks the value
beside the type and descends into the first child that msgspec refuses on its own, so that dict keys, unions
and `__post_init__` are located too. Structs, dicts, lists, tuples and unions of them are walked; any other
type is a leaf.
"""

import math
import operator
import re
import types
import typing
from collections.abc import Collection, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from sim.errors import KvcliffError, did_you_mean

Path = tuple[Any, ...]

NOUNS: dict[type[inspect.Type], str] = {
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.StrType: "text",
    inspect.BoolType: "true or false",
    inspect.NoneType: "null",
    inspect.StructType: "a mapping",
    inspect.DictType: "a mapping",
    inspect.ListType: "a list",
    inspect.VarTupleType: "a list",
    inspect.TupleType: "a list",
    inspect.SetType: "a list",
    inspect.FrozenSetType: "a list",
}
MAPPINGS = {dict, Mapping, MutableMapping}
LISTS = {list, tuple, set, frozenset, Sequence, MutableSequence, Collection}
BOUNDS = (
    ("ge", ">=", operator.ge),
    ("gt", ">", operator.gt),
    ("le", "<=", operator.le),
    ("lt", "<", operator.lt),
)
LONGEST_SHOWN = 60
BARE_WORD_HINT = " (YAML reads a bare yes, no, on or off as true or false: quote it)"


class Problem(NamedTuple):
    """The first thing wrong: where it stands in the value, and one line that starts with that path."""

    path: Path
    text: str


def dotted(path: Path) -> str:
    """Return `load.sessions[0]` for `("load", "sessions", 0)`."""
    text = ""
    for part in path:
        if type(part) is int:
            text += f"[{part}]"
        else:
            plain = isinstance(part, str) and part.isprintable() and 0 < len(part) <= LONGEST_SHOWN
            word = part if plain else show(part)
            text += f".{word}" if text else word
    return text


def show(value: object) -> str:
    """Return a value in one short line, in YAML's words."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}...{text[-1]}"


def not_finite(value: object, path: Path = ()) -> Problem | None:
    """Return the first NaN or infinity anywhere in a value, or None."""
    if isinstance(value, float) and not math.isfinite(value):
        return _problem(path, f"{value} must be a finite number")
    children: Any = ()
    if isinstance(value, dict):
        children = (*((key, key) for key in value), *value.items())
    elif isinstance(value, list):
        children = enumerate(value)
    return next(filter(None, (not_finite(child, (*path, key)) for key, child in children)), None)


def first_problem(value: object, wanted: Any, path: Path = ()) -> Problem | None:
    """Return the first reason why `value` cannot become a `wanted`, or None if it can."""
    refusal = _refusal(value, wanted)
    if refusal is None:
        return None
    members = _members(wanted)
    structs = [member for member in members if _is_struct(member)]
    if isinstance(value, dict) and structs:
        struct, problem = _tagged(value, structs, path)
        problem = problem or (_in_struct(value, struct, path) if struct else None)
    else:
        problem = _in_children(value, members, path)
    return problem or _own_problem(value, wanted, refusal, path)


def _problem(path: Path, rule: str, separator: str = " ") -> Problem:
    return Problem(path, f"{dotted(path)}{separator}{rule}" if path else rule)


def _refusal(value: object, wanted: Any) -> Exception | None:
    try:
        msgspec.convert(value, wanted)
    except (msgspec.ValidationError, KvcliffError) as error:
        return error
    return None


def _is_struct(member: Any) -> bool:
    origin = typing.get_origin(member) or member
    return isinstance(origin, type) and issubclass(origin, msgspec.Struct)


def _members(wanted: Any) -> list[Any]:
    """Return the alternatives of a type without their annotations: `[int, None]` for `int | None`."""
    if hasattr(wanted, "__supertype__"):
        return _members(wanted.__supertype__)
    origin = typing.get_origin(wanted)
    if origin is typing.Annotated:
        return _members(typing.get_args(wanted)[0])
    if origin in {typing.Union, types.UnionType}:
        return [member for alternative in typing.get_args(wanted) for member in _members(alternative)]
    return [wanted]


def _tagged(value: dict[Any, Any], structs: list[Any], path: Path) -> tuple[Any, Problem | None]:
    """Return the struct a mapping is meant to be; with several, its tag decides."""
    config = structs[0].__struct_config__
    if config.tag_field is None:
        return structs[0], None
    by_tag = {struct.__struct_config__.tag: struct for struct in structs}
    tag = value.get(config.tag_field, None if len(structs) > 1 else config.tag)
    tag_path = (*path, config.tag_field)
    if config.tag_field not in value and tag is None:
        return None, _problem(tag_path, f"is required but missing: one of {_listed(by_tag)}")
    if isinstance(tag, dict | list) or tag not in by_tag:
        return None, _problem(tag_path, _not_one_of(tag, by_tag))
    return by_tag[tag], None


def _in_struct(value: dict[Any, Any], struct: Any, path: Path) -> Problem | None:
    config = struct.__struct_config__
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    valid = [*fields, config.tag_field] if config.tag_field else [*fields]
    for key, child in value.items():
        if key in fields:
            if problem := first_problem(child, fields[key].type, (*path, key)):
                return problem
        elif key not in valid and (config.forbid_unknown_fields or not isinstance(key, str)):
            near = _deeper(str(key), struct) or did_you_mean(str(key), valid) or f"; valid keys: {_listed(valid)}"
            return _problem((*path, key), f"is not a known key{near}")
    missing = (name for name, field in fields.items() if field.required and name not in value)
    return next((_problem((*path, name), "is required but missing") for name in missing), None)


def _deeper(key: str, struct: Any) -> str:
    """Return ` (did you mean 'engine.block_size'?)` where a struct in this one has the key, or an empty string."""
    for field in msgspec.structs.fields(struct):
        for member in filter(_is_struct, _members(field.type)):
            if any(key == inner.encode_name for inner in msgspec.structs.fields(member)):
                return f" (did you mean '{field.encode_name}.{key}'?)"
    return ""


def _in_children(value: object, members: list[Any], path: Path) -> Problem | None:
    """Return the first problem in what a dict or list holds, if a member says what it should hold."""
    for member in members:
        origin, arguments = typing.get_origin(member), typing.get_args(member)
        if isinstance(value, dict) and origin in MAPPINGS:
            return _in_dict(value, arguments, path)
        if isinstance(value, list) and origin in LISTS:
            fixed = origin is tuple and arguments[-1] is not ...
            wanted = zip(value, arguments if fixed else [arguments[0]] * len(value), strict=False)
            problems = (first_problem(child, kind, (*path, i)) for i, (child, kind) in enumerate(wanted))
            return next(filter(None, problems), None)
    return None


def _in_dict(value: dict[Any, Any], arguments: tuple[Any, ...], path: Path) -> Problem | None:
    key_type, item_type = arguments
    for key, child in value.items():
        if refusal := _refusal(key, key_type):
            return _problem((*path, key), f"is no valid key: {_rule(key, key_type, refusal)}")
        if problem := first_problem(child, item_type, (*path, key)):
            return problem
    return None


def _own_problem(value: object, wanted: Any, refusal: Exception, path: Path) -> Problem:
    """Return the problem of a value whose children are all right on their own."""
    if isinstance(refusal, KvcliffError) or refusal.__cause__ is not None:  # raised by a __post_init__
        return _problem(path, _one_line(refusal.__cause__ or refusal), ": ")
    return _problem(path, _rule(value, wanted, refusal))


def _rule(value: object, wanted: Any, refusal: Exception) -> str:
    """Return the rule that a leaf breaks, with the value."""
    members = _leaves(inspect.type_info(wanted))
    for member in members:
        if _same_kind(value, member) and (rule := _broken_limit(value, member)):
            return f"{show(value)} {rule}" if not isinstance(value, dict | list) else rule
    if any(_same_kind(value, member) and not _choices(member) for member in members):
        return f"{show(value)} is refused: {_one_line(refusal)}"
    choices = [choice for member in members for choice in _choices(member)]
    if choices and all(_choices(member) or isinstance(member, inspect.NoneType) for member in members):
        rule = _not_one_of(value, choices)
    else:
        nouns = dict.fromkeys(_noun(member) for member in members)
        near = did_you_mean(value, map(str, choices)) if isinstance(value, str) else ""
        rule = f"expected {' or '.join(nouns)}, got {show(value)}{near}"
    wants_text = any(isinstance(member, inspect.StrType) for member in members) or str in map(type, choices)
    return rule + (BARE_WORD_HINT if isinstance(value, bool) and wants_text else "")


def _leaves(info: inspect.Type) -> list[inspect.Type]:
    if isinstance(info, inspect.Metadata):
        return _leaves(info.type)
    if isinstance(info, inspect.UnionType):
        return [leaf for member in info.types for leaf in _leaves(member)]
    return [info]


def _choices(member: inspect.Type) -> list[Any]:
    if isinstance(member, inspect.LiteralType):
        return list(member.values)
    return [item.value for item in member.cls] if isinstance(member, inspect.EnumType) else []


def _noun(member: inspect.Type) -> str:
    if choices := _choices(member):
        return f"one of {_listed(choices)}" if len(choices) > 1 else show(choices[0])
    return NOUNS.get(type(member), f"a {type(member).__name__.removesuffix('Type').lower()}")


def _same_kind(value: object, member: inspect.Type) -> bool:
    """Say whether a value is of the kind that a type wants, whatever its size."""
    if choices := _choices(member):
        return type(value) in set(map(type, choices))
    noun = _noun(member)
    kinds: dict[type, set[str]] = {
        bool: {"true or false"},
        int: {"a whole number", "a number"},
        float: {"a number"},
        dict: {"a mapping"},
        list: {"a list"},
        str: {"text"},
        types.NoneType: {"null"},
    }
    return noun in kinds.get(type(value), set()) or (isinstance(value, str) and noun not in NOUNS.values())


def _broken_limit(value: Any, member: inspect.Type) -> str | None:
    """Return the limit of a `msgspec.Meta` that a value of the right kind breaks."""
    for name, symbol, holds in BOUNDS:
        bound = getattr(member, name, None)
        if bound is not None and not holds(value, bound):
            return f"must be {symbol} {bound:.12g}"
    divisor = getattr(member, "multiple_of", None)
    if divisor is not None and value % divisor:
        return f"must be a multiple of {divisor:.12g}"
    return _broken_shape(value, member)


def _broken_shape(value: Any, member: inspect.Type) -> str | None:
    unit = "character" if isinstance(value, str) else "item"
    least, most = getattr(member, "min_length", None), getattr(member, "max_length", None)
    if least is not None and len(value) < least:
        return f"must have at least {least} {unit}{'s' * (least != 1)}"
    if most is not None and len(value) > most:
        return f"must have at most {most} {unit}{'s' * (most != 1)}"
    if isinstance(member, inspect.TupleType) and len(value) != len(member.item_types):
        return f"must have {len(member.item_types)} items, not {len(value)}"
    pattern = getattr(member, "pattern", None)
    return f"must match the pattern {pattern!r}" if pattern and not re.search(pattern, value) else None


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(sorted(map(str, names)))


def _not_one_of(value: object, valid: Iterable[Any]) -> str:
    names = list(map(str, valid))
    near = did_you_mean(str(value), names) if not isinstance(value, dict | list) else ""
    return f"{show(value)} is not one of {_listed(names)}{near}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
