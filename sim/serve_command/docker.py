"""`docker run` (also podman, nerdctl): its own flags, the image, and what runs inside."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sim.serve_command.errors import CommandError
from sim.serve_command.shell import ASSIGNMENT, Word
from sim.struct_errors import show

PROGRAMS = {"docker", "podman", "nerdctl"}
STARTS = {"run", "create"}
SWITCHES = (
    "--rm --detach --interactive --tty --privileged --init --read-only --no-healthcheck --oom-kill-disable "
    "--publish-all --quiet --sig-proxy --disable-content-trust --use-api-socket --replace --tls-verify"
)
WITHOUT_VALUE = set(SWITCHES.split())
SHORT_WITHOUT_VALUE = re.compile(r"-[ditPq]+")
VERSION = r"(\d+\.\d+\.\d+(?:\.?(?:post|rc|dev|a|b)\d+)?)"


@dataclass(slots=True)
class Container:
    """A container to start: the words inside follow the image, after its entrypoint where one is given."""

    image: str
    inside: list[Word]
    environment: dict[str, Word] = field(default_factory=dict)
    gpus: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def is_vllm(self) -> bool:
        """Whether the image is named after vLLM."""
        return "vllm" in self.image.lower()


def image_version(image: str, engine: str) -> str | None:
    """Return the engine's version in the tag of an image of its own, such as `vllm/vllm-openai:v0.11.2`."""
    name, _, tag = image.rpartition("/")[2].partition(":")
    found = re.search(rf"{engine}[_-]?v?{VERSION}", tag) or re.match(rf"v?{VERSION}", tag)
    return found[1] if found and engine in (image + name).lower() else None


def read_docker(words: Sequence[Word], variables: Mapping[str, str]) -> Container | None:
    """Return the container that the words start, or None. Raises CommandError when the image is missing."""
    at = next((i for i, word in enumerate(words) if word.text.rpartition("/")[2] in PROGRAMS), None)
    if at is None:
        return None
    run = next((i for i, word in enumerate(words[at + 1 : at + 3], at + 1) if word.text in STARTS), None)
    if run is None:
        return None
    flags, at = _flags(words, run + 1)
    if at == len(words):
        raise CommandError(f"{words[run].place}: the container to {words[run].text} names no image")
    container = Container(words[at].text, [*words[at + 1 :]])
    for name, value in flags:
        if name in {"-e", "--env"}:
            _add_variable(container, value, variables)
        elif name == "--gpus":
            container.gpus = gpu_count(value.text)
        elif name == "--env-file":
            container.notes.append(f"--env-file {show(value.text)} is not read")
        elif name == "--entrypoint" and value.text:
            container.inside.insert(0, value)
    return container


def _flags(words: Sequence[Word], at: int) -> tuple[list[tuple[str, Word]], int]:
    """Return the flags that have a value, and where the image stands."""
    flags = []
    while at < len(words) and words[at].text.startswith("-"):
        name, equals, value = words[at].text.partition("=")
        if name in WITHOUT_VALUE or SHORT_WITHOUT_VALUE.fullmatch(name):
            at += 1
            continue
        if not name.startswith("--") and len(name) > 2:  # -p8000:8000
            name, value = name[:2], words[at].text[2:]
        elif not equals:
            at += 1
            if at == len(words):
                raise CommandError(f"{words[at - 1].place}: {show(name)} has no value")
            value = words[at].text
        flags.append((name, Word(value, words[at].place)))
        at += 1
    return flags, at


def _add_variable(container: Container, word: Word, variables: Mapping[str, str]) -> None:
    """Add `NAME=value`, or `NAME` with its value outside the container."""
    name, equals, value = word.text.partition("=")
    if not equals and name in variables:
        container.environment[name] = Word(variables[name], word.place)
    elif equals and ASSIGNMENT.match(word.text):
        container.environment[name] = Word(value, word.place)


def gpu_count(text: str) -> int | None:
    """Return how many GPUs a list names: `0,1`, `2` after `--gpus`, `"device=0,1"`; None for all."""
    text = text.strip(" \"'")
    devices = re.search(r"device=([\w,-]+)", text)
    if devices:
        return len(devices[1].split(","))
    count = re.fullmatch(r"(?:count=)?([0-9]{1,4})", text)
    return int(count[1]) if count else None
