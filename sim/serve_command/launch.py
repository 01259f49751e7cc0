"""Which server a pasted text starts, with which words, in which environment.

What stands before the start (sudo, nohup, uv run, numactl, srun) does not matter; only where the server's own words
begin does.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sim.errors import did_you_mean
from sim.serve_command.command import Engine
from sim.serve_command.docker import VERSION, Container, image_version, read_docker
from sim.serve_command.errors import CommandError
from sim.serve_command.paste import clean
from sim.serve_command.shell import ASSIGNMENT, BEFORE_ASSIGNMENTS, Word, commands
from sim.struct_errors import show

PROGRAMS: dict[str, Engine] = {"vllm": "vllm", "sglang": "sglang"}
MODULES: dict[str, Engine] = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "sglang.launch_server": "sglang",
    "sglang_router.launch_server": "sglang",
    "sglang.srt.entrypoints.http_server": "sglang",
}
SHELLS = {"bash", "sh", "zsh", "dash"}
SHELL_COMMAND = re.compile(r"-[a-z]*c")
PINNED = re.compile(rf"(vllm|sglang)(?:\[[\w,-]*\])?(?:==|@)v?{VERSION}")
MAX_NESTING = 3
EXPECTED = (
    "expected `vllm serve MODEL ...`, `python -m vllm.entrypoints.openai.api_server ...`, "
    "`python -m sglang.launch_server ...` or `docker run ... IMAGE ...`"
)


@dataclass(slots=True)
class Launch:
    """A server's start: its words after the program, and what is set around it."""

    engine: Engine
    words: list[Word]
    version: str | None = None
    environment: dict[str, Word] = field(default_factory=dict)
    gpus: int | None = None
    contained: bool = False  # what is set outside does not reach it
    notes: list[str] = field(default_factory=list)


def find_launch(cut: Sequence[list[Word]], variables: Mapping[str, str]) -> Launch:
    """Return the first server that the commands start. Raises CommandError when none does."""
    launch = _search(cut, variables, 0)
    if launch is None:
        raise CommandError(_no_server([word.text for command in cut for word in command]))
    pinned = [PINNED.search(word.text) for command in cut for word in command]
    launch.version = launch.version or next((f[2] for f in pinned if f and f[1] == launch.engine), None)
    return launch


def _no_server(words: list[str]) -> str:
    for program, following in itertools.pairwise(words):
        if program.rpartition("/")[2] in PROGRAMS:
            near = did_you_mean(following, ["serve"])
            return f"{show(f'{program} {following}')} starts no server{near}; {EXPECTED}"
    return f"no server is started here; {EXPECTED}"


def _search(cut: Sequence[list[Word]], variables: Mapping[str, str], depth: int) -> Launch | None:
    exported: dict[str, Word] = {}
    found: list[Launch] = []
    for command in cut:
        launch = _launch(command, variables, depth)
        if launch is None:
            exported |= assignments(command)
            continue
        if not launch.contained:
            launch.environment = exported | launch.environment
        found.append(launch)
    if len(found) > 1:
        found[0].notes.append(f"{len(found)} servers are started here; this is the first")
    return found[0] if found else None


def assignments(words: Sequence[Word]) -> dict[str, Word]:
    """Return the `NAME=value` words that words begin with, by name."""
    values = {}
    for word in words:
        if ASSIGNMENT.match(word.text):
            name, _, value = word.text.partition("=")
            values[name] = Word(value, word.place)
        elif word.text not in BEFORE_ASSIGNMENTS:
            break
    return values


def _launch(words: list[Word], variables: Mapping[str, str], depth: int) -> Launch | None:
    container = read_docker(words, variables)
    if container is not None:
        return in_container(container, variables, depth)
    if inner := _shell_command(words):
        if depth == MAX_NESTING:
            raise CommandError(f"{inner.place}: shells are nested deeper than {MAX_NESTING}")
        launch = _search(commands(clean(inner.text), variables), variables, depth + 1)
        if launch is not None and not launch.contained:
            launch.environment = assignments(words) | launch.environment
        return launch
    start = _start(words)
    if start is None:
        return None
    engine, at = start
    return Launch(engine, words[at:], environment=_set_before(words[:at]))


def in_container(container: Container, variables: Mapping[str, str], depth: int = 0) -> Launch | None:
    """Return the server that a container starts: by its words, or by the entrypoint of vLLM's own image."""
    launch = _launch(container.inside, variables, depth)
    if launch is None:
        starts_itself = container.is_vllm and (
            not container.inside or container.inside[0].text.startswith("-") or "openai" in container.image
        )
        if not starts_itself:
            return None
        launch = Launch("vllm", container.inside)
    launch.version = launch.version or image_version(container.image, launch.engine)
    launch.environment = container.environment | launch.environment
    launch.gpus = container.gpus
    launch.contained = True
    launch.notes += container.notes
    return launch


def _set_before(words: Sequence[Word]) -> dict[str, Word]:
    """Return what is set before the program, wherever among its wrappers: `sudo -E env A=1 nohup B=2`."""
    values: dict[str, Word] = {}
    for word in words:
        values |= assignments([word])
    return values


def _start(words: Sequence[Word]) -> tuple[Engine, int] | None:
    """Return the engine and where its words begin."""
    for at, word in enumerate(words):
        program = re.split(r"[/\\]", word.text)[-1].removesuffix(".exe").partition("@")[0]
        if program in PROGRAMS and at + 1 < len(words) and words[at + 1].text == "serve":
            return PROGRAMS[program], at + 2
        dotted = re.sub(r"[/\\]", ".", word.text.removesuffix(".py"))
        for module, engine in MODULES.items():
            if dotted == module or dotted.endswith(f".{module}"):
                return engine, at + 1
    return None


def _shell_command(words: Sequence[Word]) -> Word | None:
    """Return the text that `bash -c` runs."""
    for at, word in enumerate(words[:-2]):
        if word.text.rpartition("/")[2] in SHELLS and SHELL_COMMAND.fullmatch(words[at + 1].text):
            return words[at + 2]
    return None
