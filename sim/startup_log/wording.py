"""A wording: a fragment of a line and the numbers in it.

A group of a pattern is named `fact__unit`. Wordings are fragments, not lines, since pasted logs wrap, and a cut line
still gives what it says whole: a pattern ends behind a number's unit or where its line ends, so that half a number is
never read as a number.
Every pattern begins with fixed text or with a bounded number: matching takes time linear in the line.
"""

import re
from dataclasses import dataclass

# An unlimited number, for behind fixed text; a bounded one, for in front of it. Both take in what no number is
# (nan, 1e308), to be refused by name, and leave out placeholders of documentation and tracebacks.
_HEAD = r"[-+]?(?:[0-9]|\.[0-9]|[nN]a[nN](?![a-z])|[iI]nf)"
NUMBER = _HEAD + r"[0-9.,e+-]*"
BOUNDED = r"(?<![0-9.,])" + _HEAD + r"[0-9.,e+-]{0,400}"


@dataclass(frozen=True, slots=True)
class Wording:
    """A pattern, and a text without which a line cannot hold it."""

    anchor: str
    pattern: re.Pattern[str]


def wording(anchor: str, pattern: str) -> Wording:
    """Return a wording whose pattern may say `<fact__unit>` for a number behind text and `<<fact__unit>>` before it."""
    pattern = re.sub(r"<<(\w+)>>", rf"(?P<\1>{BOUNDED})", pattern)
    pattern = re.sub(r"(?<!\?P)<(\w+)>", rf"(?P<\1>{NUMBER})", pattern)
    return Wording(anchor, re.compile(pattern))
