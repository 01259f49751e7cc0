"""A table of an engine's flags: which one a written name means, or why none.

Names are compared as the engines compare them: underscores are hyphens, an unambiguous beginning will do
(argparse), `--no-x` and, as in vLLM 0.33, `--disable-x` turn `--enable-x` off.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sim.errors import did_you_mean
from sim.serve_command.values import SWITCH, SWITCH_OFF, Kind

# A flag whose name has a part that begins so may change how much memory is left.
HINTS = (
    "kv cache mem gpu block seq batch token len parallel quant dtype layer offload graph lora spec mamba window page "
    "swa chunk expert draft context pool buffer prefill decode model weight size"
)
MEMORY_HINTS = tuple(HINTS.split())
HARMLESS_HINTS = ("tokenizer", "tokenize")


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `target` is the setting it gives, dotted below a group; None: it gives none.

    `keys`: what the entries of a JSON flag are, each a flag without names. `note`: what to tell the user.
    """

    names: tuple[str, ...]
    kind: Kind
    target: str | None = None
    note: str | None = None
    keys: Mapping[str, "Flag"] | None = None

    @property
    def name(self) -> str:
        """The name to use in messages."""
        return self.names[0]


@dataclass(frozen=True, slots=True)
class Match:
    """The flag that a written name means; `off`: written in its negated form; `full`: the name it stands for."""

    flag: Flag
    full: str
    off: bool = False


@dataclass(frozen=True)
class FlagTable:
    """All flags of an engine, by every name each has."""

    engine: str
    flags: tuple[Flag, ...]
    matches: dict[str, Match] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for flag in self.flags:
            for name in flag.names:
                assert name not in self.matches, name
                self.matches[name] = Match(flag, name)
        for flag in self.flags:
            for name in _opposites(flag):
                self.matches.setdefault(name, Match(flag, name, off=True))

    def find(self, name: str) -> Match | None:
        """Return what a written name means, by itself or as the beginning of exactly one flag's name."""
        if name in self.matches or not name.startswith("--"):
            return self.matches.get(name)
        begun = [match for full, match in self.matches.items() if full.startswith(name)]
        if len({(id(match.flag), match.off) for match in begun}) == 1:
            return min(begun, key=lambda match: len(match.full))
        return None

    def why_not(self, name: str, other: "FlagTable") -> str | None:
        """Say why a name that no flag has cannot be passed over, or None when it cannot matter for memory.

        It may matter when it is nearly a known flag's, when the other engine has it, or when it speaks of memory.
        """
        if near := self._slip(name):
            return f"unknown flag {name} (did you mean {near}?)"
        foreign = other.matches.get(name)
        if foreign and foreign.flag.target is not None:
            same = [flag.name for flag in self.flags if flag.target == foreign.flag.target]
            instead = f"; {self.engine} has {same[0]}" if same else ""
            return f"{name} is a flag of {other.engine}, not of {self.engine}{instead}"
        if not name.startswith("--"):
            return f"unknown short flag {name}{did_you_mean(name, self._names('-'))}"
        begun = [full for full, match in self.matches.items() if full.startswith(name) and match.flag.target]
        parts = name.strip("-").lower().split("-")
        if begun or any(part.startswith(MEMORY_HINTS) and not part.startswith(HARMLESS_HINTS) for part in parts):
            could_be = f" (could be {', '.join(begun[:6])})" if begun else did_you_mean(name, self._names("--"))
            return f"unknown flag {name}, which may matter for memory{could_be}"
        return None

    def _names(self, dashes: str) -> list[str]:
        """Return the names of flags that give a setting, long or short."""
        long = dashes == "--"
        return [name for name, match in self.matches.items() if match.flag.target and name.startswith("--") is long]

    def _slip(self, name: str) -> str | None:
        """Return the known name within two slips of the keyboard; of short names, within one."""
        edits = 2 if len(name) > len("--abcd") else 1
        for allowed in range(1, edits + 1):
            for known in self.matches:
                if name.startswith("--") == known.startswith("--") and len(known) > 3 and within(name, known, allowed):
                    return known
        return None


def _opposites(flag: Flag) -> Iterator[str]:
    if flag.kind not in {SWITCH, SWITCH_OFF}:
        return
    for name in flag.names:
        if name.startswith("--"):
            yield f"--no-{name[2:]}"
            if name.startswith("--enable-"):
                yield f"--disable-{name.removeprefix('--enable-')}"
            if name.startswith("--disable-"):
                yield f"--enable-{name.removeprefix('--disable-')}"


def within(one: str, other: str, edits: int) -> bool:
    """Whether so many letters inserted, left out, replaced or swapped with their neighbour make the two equal."""
    if abs(len(one) - len(other)) > edits:
        return False
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    one, other = one[same:], other[same:]
    if not one or not other or not edits:
        return len(one) + len(other) <= edits
    swapped = one[:2] == other[:2][::-1] and within(one[2:], other[2:], edits - 1)
    return (
        swapped
        or within(one[1:], other[1:], edits - 1)
        or within(one[1:], other, edits - 1)
        or within(one, other[1:], edits - 1)
    )


def harmless(kind: Kind, names: str) -> tuple[Flag, ...]:
    """Make flags that give no setting from a list of names, aliases joined by a slash."""
    return tuple(Flag(tuple(_dashed(alias) for alias in name.split("/")), kind) for name in names.split())


def noted(kind: Kind, note: str, names: str) -> tuple[Flag, ...]:
    """Make flags that give no setting, but of which the user should know something."""
    return tuple(Flag(flag.names, flag.kind, note=note) for flag in harmless(kind, names))


def _dashed(alias: str) -> str:
    return alias if alias.startswith("-") else f"--{alias}"
