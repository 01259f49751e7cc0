"""An engine's words, read by its table of flags into settings."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sim.errors import did_you_mean
from sim.serve_command.errors import CommandError, RuleError
from sim.serve_command.flags import Flag, FlagTable, Match
from sim.serve_command.shell import MAX_WORDS, Word
from sim.serve_command.values import (
    JSON_OBJECT,
    PER_PROMPT,
    SCALED,
    SWITCH,
    SWITCH_OFF,
    Kind,
    Takes,
    as_text,
    json_value,
)
from sim.struct_errors import show

NEGATIVE = re.compile(r"-\.?[0-9].*")
UNKNOWN_VALUE = re.compile(r"\$\w+|\$\{[^}]*\}|\$\([^)]*\)|`[^`]*`|\{\{[^}]*\}\}")
PLACEHOLDER = re.compile(r"<[A-Za-z][\w./:-]*>|^(?:\.\.\.|\u2026)$")
NAME = re.compile(r"--?[A-Za-z0-9][\w-]{0,99}+", re.ASCII)
_OURS = {"--gpu", "--gpus"}
OPTIMIZATION = re.compile(r"-O=?([0-3])")


class Given(NamedTuple):
    """A setting, its value, and the flag or variable that gave it, with its place."""

    target: str
    value: Any
    name: str
    place: str


@dataclass(slots=True)
class Arguments:
    """What the words say: settings in their order, positional words, and the flags that give no setting."""

    given: list[Given] = field(default_factory=list)
    positional: list[Word] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_arguments(words: Sequence[Word], table: FlagTable, other: FlagTable) -> Arguments:
    """Read words by a table; `other` is the other engine's, to tell its flags from unknown ones.

    Raises CommandError with the place and name of the first flag that cannot be read or passed over.
    """
    if len(words) > MAX_WORDS:
        raise CommandError(f"the command has {len(words):,} words; at most {MAX_WORDS:,} are read")
    return _Reader(list(_spelled_out(words, table)), table, other).read()


def is_flag(text: str) -> bool:
    """Whether a word is a flag, not a value: a negative number is a value."""
    return len(text) > 1 and text.startswith("-") and not NEGATIVE.fullmatch(text)


def known(text: str) -> str:
    """Return a value that is all there; raises RuleError for a variable without value and a placeholder."""
    if found := UNKNOWN_VALUE.search(text):
        raise RuleError(f"holds {show(found.group())}, whose value is not in the command")
    if found := PLACEHOLDER.search(text):
        raise RuleError(f"holds the placeholder {found.group()}")
    return text


def _spelled_out(words: Sequence[Word], table: FlagTable) -> Iterator[Word]:
    """Replace vLLM's -O: a level with or without blank, keys after a dot, or JSON."""
    for at, word in enumerate(words):
        following = words[at + 1].text if at + 1 < len(words) else ""
        if table.engine != "vllm" or not word.text.startswith("-O"):
            yield word
        elif word.text == "-O":
            level = following in {"0", "1", "2", "3"}
            yield Word("--optimization-level" if level else "--compilation-config", word.place)
        elif found := OPTIMIZATION.fullmatch(word.text):
            yield Word(f"--optimization-level={found[1]}", word.place)
        else:
            yield Word(f"--compilation-config{word.text[2:]}", word.place)


class _Reader:
    def __init__(self, words: list[Word], table: FlagTable, other: FlagTable) -> None:
        self.words = words
        self.table = table
        self.other = other
        self.at = 0
        self.dotted = set(filter(None, map(self._dotted, words)))
        self.result = Arguments()

    def read(self) -> Arguments:
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if not is_flag(word.text):
                self.result.positional.append(word)
                continue
            try:
                self._flag(word)
            except RuleError as problem:
                raise CommandError(f"{word.place}: {problem}") from None
        return self.result

    def _dotted(self, word: Word) -> str | None:
        """Return the flag that a word gives one key of."""
        name, dot, _ = word.text.partition("=")[0].partition(".")
        match = self.table.find(name.replace("_", "-")) if dot and is_flag(name) else None
        return match.flag.name if match else None

    def _flag(self, word: Word) -> None:
        written, equals, explicit = word.text.partition("=")
        name, dot, path = written.partition(".")
        name = name.replace("_", "-") if name.startswith("--") else name
        if not NAME.fullmatch(name):
            raise RuleError(f"{show(name)} is no flag")
        if name in _OURS:
            raise RuleError(
                f"{name} is kvcliff's own, no flag of {self.table.engine}: put it after the command's quotes"
            )
        match = self.table.find(name)
        if match is None:
            self._pass_over(name, has_value=bool(equals))
            return
        flag = match.flag
        if match.full != name and flag.target is not None:
            self.result.notes.append(f"{name} is read as {match.full}")
        if dot and flag.keys is None and flag.kind not in {JSON_OBJECT, PER_PROMPT} and flag.target is not None:
            raise RuleError(f"{name} takes no JSON keys, so {show(written)} means nothing")
        takes_one = Kind(Takes.ONE, str) if dot else flag.kind
        text = self._value(match.full, takes_one, explicit if equals else None)
        if flag.target is None:
            self._note(flag)
        elif dot:
            self._entry(flag, path, text)
        else:
            self._setting(match, text, word.place)

    def _value(self, name: str, kind: Kind, explicit: str | None) -> str:
        """Return the flag's value as one text; the values of a list are joined by blanks."""
        if explicit is not None:
            return explicit
        most = {Takes.NOTHING: 0, Takes.ONE: 1, Takes.MAYBE_ONE: 1, Takes.MANY: len(self.words)}[kind.takes]
        texts: list[str] = []
        while len(texts) < most and self.at < len(self.words) and not is_flag(self.words[self.at].text):
            texts.append(self.words[self.at].text)
            self.at += 1
        if kind.takes is Takes.NOTHING:
            return self._truth(name)
        if not texts and kind.takes is not Takes.MAYBE_ONE:
            before = f" before {show(self.words[self.at].text)}" if self.at < len(self.words) else ""
            raise RuleError(f"{name} has no value{before}")
        return " ".join(texts)

    def _truth(self, name: str) -> str:
        """Return the truth value that some write after a switch, although newer versions take none."""
        if self.at < len(self.words) and self.words[self.at].text.lower() in {"true", "false"}:
            self.at += 1
            value = self.words[self.at - 1].text
            self.result.notes.append(f"{name} takes no value in newer versions; {value} is read as meant")
            return value
        return "true"

    def _setting(self, match: Match, text: str, place: str) -> None:
        flag = match.flag
        try:
            value = flag.kind.read(known(text))
        except RuleError as problem:
            raise RuleError(f"{match.full} {show(text)} {problem}") from None
        if flag.name in self.dotted:  # vLLM puts these together into one object, last of all
            self.result.notes.append(f"{match.full} {show(text)} gives way to {flag.name} with keys after a dot")
            return
        if flag.keys is not None:
            for key, entry in value.items():
                self._key(flag, key, entry, place)
        elif flag.kind in {SWITCH, SWITCH_OFF}:
            self._give(flag.target, value is not match.off, match.full, place)
        else:
            self._give(flag.target, value, match.full, place)

    def _entry(self, flag: Flag, path: str, text: str) -> None:
        """Read `--flag.key.key value`, where the value is JSON or a bare word."""
        keys = path.removesuffix("+").split(".")
        place = self.words[self.at - 1].place
        if not all(keys):
            raise RuleError(f"{flag.name} has an empty key in {show(path)}")
        try:
            value = _bare(known(text)) if not path.endswith("+") else text.split(",")
        except RuleError as problem:
            raise RuleError(f"{flag.name} {show(path)} {show(text)} {problem}") from None
        if flag.kind is PER_PROMPT:
            for modality, limit in PER_PROMPT.read(as_text(_nested(keys, value))).items():
                self._give(f"{flag.target}.{modality}", limit, flag.name, place)
        elif flag.keys is None:
            self._give(".".join([flag.target or "", *keys]), value, flag.name, place)
        elif len(keys) == 1:
            self._key(flag, keys[0], value, place)
        elif keys[0] not in flag.keys:
            raise RuleError(f"{flag.name} has no key {show(keys[0])}{did_you_mean(keys[0], flag.keys)}")

    def _key(self, flag: Flag, key: str, value: object, place: str) -> None:
        """Read one entry of a JSON flag."""
        entry = (flag.keys or {}).get(key)
        if entry is None:
            raise RuleError(f"{flag.name} has no key {show(key)}{did_you_mean(key, flag.keys or {})}")
        if entry.target is None or value is None:
            return
        text = as_text(value)
        if isinstance(value, list) and entry.kind.takes is not Takes.MANY:
            raise RuleError(f"{flag.name} {key} must not be a list")
        try:
            read = entry.kind.read(text)
        except RuleError as problem:
            raise RuleError(f"{flag.name} {key} {show(text)} {problem}") from None
        self._give(entry.target, read, f"{flag.name} {key}", place)

    def _give(self, target: str | None, value: object, name: str, place: str) -> None:
        self.result.given.append(Given(target or "", value, name, place))

    def _note(self, flag: Flag) -> None:
        if flag.note:
            self.result.notes.append(f"{flag.name} {flag.note}; that is not accounted for")
        elif flag.name not in self.result.ignored:
            self.result.ignored.append(flag.name)

    def _pass_over(self, name: str, *, has_value: bool) -> None:
        """Pass over an unknown flag, with the word after it, if that cannot matter; else raise RuleError."""
        if reason := self.table.why_not(name, self.other):
            raise RuleError(reason)
        if not has_value and self.at < len(self.words) and not is_flag(self.words[self.at].text):
            self.at += 1
        if name not in self.result.ignored:
            self.result.ignored.append(name)
            self.result.notes.append(f"{name} is unknown, and by its name does not touch memory: ignored")


def _nested(keys: list[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _bare(text: str) -> Any:
    """Read a value after a dotted flag as vLLM does: JSON, else a number with a unit, else text."""
    for read in (json_value, SCALED.read):
        try:
            return read(text)
        except RuleError:
            continue
    return text
