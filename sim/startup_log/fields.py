"""Split what a log prints of an engine's settings: `key=value, key=value` and `{'key': value}`.

The values are reprs of Python objects, not all of them literals, so no parser of Python reads them. Commas count only
outside brackets and quotes. A value at the very end of a cut line is left out: `max_seq_len=3276` may have been 32768.
"""

import ast
import re
from collections.abc import Iterator
from contextlib import suppress

Setting = str | int | float | bool | None

_MARK = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[\](){},'\"]")
_KEYED = re.compile(r"\s*['\"]?(\w{1,80})['\"]?\s*[=:]\s*(.*)", re.DOTALL)
_NAMED = {"None": None, "True": True, "False": False}
_NUMBER = re.compile(r"-?[0-9][0-9_]{0,17}|-?[0-9.]{1,20}(?:e[-+]?[0-9]{1,3})?", re.IGNORECASE)


def settings_in(text: str) -> dict[str, Setting]:
    """Return the settings of `a=1, b='x', ...`, up to the bracket that closes the list; later keys win."""
    pairs = (_KEYED.match(field) for field in _fields(text))
    return {pair[1]: _value(pair[2].strip()) for pair in pairs if pair}


def _fields(text: str) -> Iterator[str]:
    depth = begin = 0
    for mark in _MARK.finditer(text):
        sign = mark[0]
        if sign in "'\"":  # opens a string that is cut
            return
        if sign in "[({":
            depth += 1
        elif sign in "])}":
            depth -= 1
            if depth < 0:  # closes the list itself
                yield text[begin : mark.start()]
                return
        elif sign == "," and not depth:
            yield text[begin : mark.start()]
            begin = mark.end()
    rest = text[begin:].rstrip()
    if not depth and rest.endswith(("]", ")", "}")):  # a closed value cannot have been cut
        yield rest


def _value(text: str) -> Setting:
    if text in _NAMED:
        return _NAMED[text]
    if _NUMBER.fullmatch(text) or (len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""):
        with suppress(ValueError, SyntaxError):
            value = ast.literal_eval(text)
            return value if isinstance(value, int | float | str) else text
    return text
