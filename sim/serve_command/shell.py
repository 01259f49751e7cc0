"""Shell text into commands, each a list of words with its place, as far as pasted commands need it.

Not shlex: its words have no places, it ends a word at `#` inside it, and long quotes cost the square of their length.
Understood: quotes, escapes, comments, continued lines, variables with a known value, redirections (dropped), and
what ends a command. A line that starts with a dash goes on with the command above it, since web pages lose
backslashes.
"""

import re
from bisect import bisect
from collections.abc import Mapping
from typing import NamedTuple

from sim.serve_command.errors import CommandError

MAX_CHARACTERS = 200_000
MAX_WORDS = 500  # after the program: more than any engine has flags that matter
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
BEFORE_ASSIGNMENTS = {"export", "env", "sudo", "declare", "set", "ENV"}
FLAG_AHEAD = re.compile(r"--?[A-Za-z]")
TOKEN = re.compile(
    r"""
      (?P<continued> [\\^`] [ \t]*+ (?:\n | \Z) | \\ [ \t]++ \#[^\n]*+ (?:\n | \Z) )
    | (?P<newline>   \n\s*+ )
    | (?P<blank>     [^\S\n]++ )
    | (?P<apostrophe> (?<=[A-Za-z])'(?=[a-z]{1,2}\b) )
    | (?P<single>    '([^']*+)' )
    | (?P<double>    "((?:[^"\\]++|\\.)*+)" )
    | (?P<open>      ['"] )
    | (?P<gap>       <[A-Za-z][\w./:-]*+> )
    | (?P<redirect>  (?:(?<!\S)(?:\d++|&))? >>? (?: &[\d-]++ | [ \t]*+[^\s;|&<>]*+ ) | <++ [ \t]*+ [^\s;|&<>]*+ )
    | (?P<end>       && | \|\|? | [;&] )
    | (?P<variable>  \$\{[^}\n]*+\} | \$\w++ )
    | (?P<computed>  \$\([^()\n]*+\) | `[^`\n]*+` )
    | (?P<escaped>   \\. )
    | (?P<plain>     [^\s'"\\<>;|&\#$^`0-9]++ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::?-(?P<default>[^}]*))?\}|(?P<bare>[A-Za-z_]\w*))")
ESCAPE = re.compile(r'\\([\\"$`])|\\\n')


class Word(NamedTuple):
    """One word and where it stands: `line 3`, or `word 5` of a single line."""

    text: str
    place: str


def commands(text: str, variables: Mapping[str, str]) -> list[list[Word]]:
    """Cut shell text into commands of words; assignments in it count for what follows.

    Raises CommandError when a quote is left open or variables stand for too much text.
    """
    return _Reader(text, dict(variables)).read()


class _Reader:
    """Goes through the text once."""

    def __init__(self, text: str, variables: dict[str, str]) -> None:
        self.text = text
        self.variables = variables
        self.newlines = [found.start() for found in re.finditer("\n", text)]
        self.done: list[list[Word]] = []
        self.command: list[Word] = []
        self.assigning = True  # only assignments so far in this command
        self.word: list[str] | None = None  # the pieces of the word being read
        self.start = 0  # where it starts
        self.words = 0  # begun so far
        self.expanded = 0  # characters that variables stood for

    def read(self) -> list[list[Word]]:
        at, line_ended = 0, False
        while at < len(self.text):
            found = TOKEN.match(self.text, at)
            assert found is not None
            kind = found.lastgroup
            if self.text[at] == "#" and self.word is None:
                end = self.text.find("\n", at)
                at = len(self.text) if end < 0 else end
                continue
            if kind == "newline":
                line_ended = True
                self._end_word()
            elif kind in {"blank", "continued", "redirect"}:
                self._end_word()
            else:
                if line_ended and not FLAG_AHEAD.match(self.text, at):
                    self._end_command()
                line_ended = False
                self._take(kind or "", found)
            at = found.end()
        self._end_command()
        return [command for command in self.done if command]

    def _take(self, kind: str, found: "re.Match[str]") -> None:
        if kind == "end":
            self._end_command()
            return
        if self.word is None:
            self.word, self.start = [], found.start()
            self.words += 1
        whole = found.group()
        match kind:
            case "open":
                raise CommandError(f"{self._place(found.start())}: the quote {whole} is never closed")
            case "single":
                self.word.append(whole[1:-1])
            case "double":
                self.word.append(VARIABLE.sub(self._value, ESCAPE.sub(r"\1", whole[1:-1])))
            case "escaped":
                self.word.append(whole[1])
            case "variable":
                self._expand(VARIABLE.sub(self._value, whole))
            case _:
                self.word.append(whole)

    def _value(self, found: "re.Match[str]") -> str:
        """Return what a variable stands for, or its name when nothing is known of it."""
        name = found["braced"] or found["bare"]
        value = self.variables.get(name) or found["default"] or found.group()
        self.expanded += len(value)
        if self.expanded > MAX_CHARACTERS:
            raise CommandError(f"the command's variables stand for more than {MAX_CHARACTERS:,} characters")
        return value

    def _expand(self, value: str) -> None:
        """Add a variable's value outside quotes: blanks in it end words."""
        for position, piece in enumerate(value.split()):
            if position:
                self._end_word()
            if self.word is None:
                self.word = []
            self.word.append(piece)

    def _end_word(self) -> None:
        if self.word is None:
            return
        word = "".join(self.word)
        if self.assigning and ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            self.variables[name] = value
        elif word not in BEFORE_ASSIGNMENTS:
            self.assigning = False
        self.command.append(Word(word, self._place(self.start)))
        self.word = None

    def _end_command(self) -> None:
        self._end_word()
        if self.command:
            self.done.append(self.command)
        self.command = []
        self.assigning = True

    def _place(self, at: int) -> str:
        if not self.newlines:
            return f"word {self.words}"
        return f"line {bisect(self.newlines, at) + 1}"
