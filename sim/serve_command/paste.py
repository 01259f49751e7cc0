"""What copying does to a command, undone: prompts, fences, curly quotes, dashes that were hyphens, colours."""

import re

from sim.serve_command.errors import CommandError
from sim.serve_command.shell import MAX_CHARACTERS

LOOKALIKES = str.maketrans(
    {
        "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2033": '"',
        "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u2032": "'",
        "\u2010": "-", "\u2011": "-", "\u2212": "-", "\uff0d": "-",
        "\u00a0": " ", "\u202f": " ", "\u2007": " ", "\u3000": " ", "\u2028": "\n", "\u2029": "\n", "\x85": "\n",
        "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": "", "\u00ad": "",
        "\r": "\n", "\v": "\n", "\f": "\n",
    }
)  # fmt: skip
COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
BINARY = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ufffd\ud800-\udfff]")
LONG_DASH = re.compile(r"(?<![^\s'\"\[,])[\u2013\u2014]{1,2}-?(?=[A-Za-z])")
MINUS = re.compile(r"[\u2013\u2014](?=[0-9])")
FENCE = re.compile(r"[ \t>]*(?:```|~~~)[ \t]*[\w.+-]*[ \t]*")
PROMPT = re.compile(
    r"""[ \t]*+ (?:
        (?:\([\w.-]+\)[ ]?)? (?:\[?[\w.-]+@[\w.-]+[:\ ]?[^\s$\#%>]*\]?[ ]?) [$\#%>] [ ]+   # (venv) user@host:~$
      | (?:\([\w.-]+\)[ ]?)? [$%>] [ ]+
      | PS [ ]+ [A-Z]:[^>\n]*> [ ]*
      | [A-Z]:\\[^>\n]*> [ ]*
      | ! (?=[a-z])                                                                        # a notebook's cell
    )""",
    re.VERBOSE,
)


def clean(text: str) -> str:
    """Return the shell text that was meant. Raises CommandError for text too long, empty or binary."""
    if len(text) > MAX_CHARACTERS:
        raise CommandError(f"the command has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read")
    text = plain(text)
    if not text.strip():
        raise CommandError("the command is empty")
    return "\n".join(_without_prompt(line) for line in _fenced(text.rstrip().split("\n")))


def plain(text: str) -> str:
    """Return text with the characters that a keyboard has. Raises CommandError when it is binary."""
    text = COLOUR.sub("", text.replace("\r\n", "\n"))
    if found := BINARY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise CommandError(f"line {line}: the command is not plain text (character {found.group()!a})")
    return MINUS.sub("-", LONG_DASH.sub("--", text.translate(LOOKALIKES)))


def _fenced(lines: list[str]) -> list[str]:
    """Blank what is not between fences, if there are any: prose holds quotes that mean nothing."""
    if not any(FENCE.fullmatch(line) for line in lines):
        return lines
    kept, inside = [], False
    for line in lines:
        fence = FENCE.fullmatch(line) is not None
        inside ^= fence
        kept.append(line if inside and not fence else "")
    return kept


def _without_prompt(line: str) -> str:
    found = PROMPT.match(line)
    return line[found.end() :] if found else line
