"""Tells `kvcliff memory`'s own options from the words of a start command pasted beside them."""

import shlex
from collections.abc import Sequence

from sim.errors import MemoryLedgerError

TAKES_VALUE = {
    "--gpu",
    "--gpus",
    "--log",
    "--compare",
    "--set",
    "--out",
    "--vllm-version",
    "--weight-dtype",
    "--kv-cache-tokens",
    "--non-kv-bytes",
    "--free-at-start",
}
SWITCHES = {"--json", "-h", "--help"}
_CONTAINERS = {"docker", "podman", "nerdctl"}


def split_words(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return our own options and the words of a command.

    `--gpus` before a container's image is the container's.
    """
    own: list[str] = []
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, _ = word.partition("=")
        if name in SWITCHES or (name in TAKES_VALUE and not (name == "--gpus" and _before_image(words))):
            own.append(word)
            if name in TAKES_VALUE and not equals and rest:
                own.append(rest.pop(0))
        else:
            words.append(word)
    return own, words


def cut(text: str, option: str) -> list[str]:
    """Cut an option's text into words, as a shell does."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise MemoryLedgerError(f"{option} {text[:60]!r}: {str(error).lower()}") from None


def _before_image(words: Sequence[str]) -> bool:
    if not any(word in _CONTAINERS for word in words):
        return False
    return not any("vllm" in word or "sglang" in word for word in words if not word.startswith("-"))
