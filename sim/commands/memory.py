"""`kvcliff memory`: the ledger of a scenario, a start command, or an engine's start-up log."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import click

from sim.catalog import Model, load_model, with_overrides
from sim.commands.memory_options import parse
from sim.commands.memory_words import cut, split_words
from sim.errors import MemoryLedgerError
from sim.memory import MemorySettings
from sim.memory.remedies import Remedy, remedies_of
from sim.memory.sglang_remedies import sglang_remedies_of
from sim.memory_request import Ledger, MemoryRequest, ledger_of
from sim.memory_request.from_command import flag_settings, gpus_of, request_of_command, types_of, with_remarks
from sim.memory_request.from_log import gpu_of_log, like_log, settings_of_log, sglang_of_log, with_log
from sim.serve_command import REPLACED, ServeCommand, read_command
from sim.startup_log import read_startup_log
from sim.units import GIB

_MOST_BYTES = 2**20  # of a file with a command
_PICTURES = {".png", ".svg"}
_BAR_COLUMNS = 100
_PROGRAM = re.compile(r"(python[\d.]*|vllm|sglang|uv|docker|podman|nerdctl|env|sudo|nohup)$")
_MOST_GIB = 2**20


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """The command line, read; `words` are a scenario, a start command, or flags."""

    words: tuple[str, ...] = ()
    gpu: str | None = None
    gpus: int | None = None
    log: Path | None = None
    compare: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    out: Path | None = None
    as_json: bool = False
    free_at_start: float | None = None  # GiB
    own: Mapping[str, Any] | None = None  # settings by the ledger's names


def memory_command(options: MemoryOptions) -> None:
    """Print the ledger, or several side by side; draw them where asked."""
    if options.out is not None and options.out.suffix.lower() not in _PICTURES:
        raise MemoryLedgerError(f"--out {options.out} must end in {' or '.join(sorted(_PICTURES))}")
    asked = {"as given": options} | {text: _changed(options, text) for text in options.compare}
    requests = {name: _request(one) for name, one in asked.items()}
    ledgers = {name: ledger_of(request) for name, request in requests.items()}
    if options.out is not None:
        from sim.report.ledger_chart import draw_bars
        from sim.report.ledger_titles import common_title

        try:
            models, gpus = _names_of(requests)
            title = common_title(tuple(ledgers.values()), [model.name for model in models], gpus)
            draw_bars(ledgers, options.out, title=title)
        except OSError as error:
            raise MemoryLedgerError(f"--out {options.out}: {(error.strerror or 'cannot be written').lower()}") from None
        click.echo(f"wrote {options.out}", err=True)
    if options.as_json:
        click.echo(json.dumps(_document(requests, ledgers)))
    else:
        _show(requests, ledgers)


def _document(requests: Mapping[str, MemoryRequest], ledgers: Mapping[str, Ledger]) -> dict[str, Any]:
    from sim.memory.document import ledger_document

    documents = [
        ledger_document(
            ledgers[name], model=request.model, gpu=request.gpus[0].name, remedies=_remedies(request, ledgers[name])
        )
        | {"ignored": list(request.ignored), "notes": list(request.notes)}
        for name, request in requests.items()
    ]
    if len(documents) == 1:
        return documents[0]
    return {"compared": [{"name": name} | document for name, document in zip(requests, documents, strict=True)]}


def _show(requests: Mapping[str, MemoryRequest], ledgers: Mapping[str, Ledger]) -> None:
    from sim.report.terminal import plain_console

    console = plain_console()
    for number, request in enumerate(requests.values()):
        for note in request.notes:
            if number and REPLACED in note:  # that is what a comparison is for
                continue
            console.print(f"note: {note}", style="dim")
        if request.ignored:
            console.print(f"ignored, for it leaves memory as it is: {', '.join(request.ignored)}", style="dim")
    if len(ledgers) > 1:
        from sim.report.ledger_compare import compare_table

        models, gpus = _names_of(requests)
        console.print(compare_table(tuple(ledgers), tuple(ledgers.values()), models=models, gpus=gpus))
        return
    from sim.report.ledger_bar import terminal_bar
    from sim.report.ledger_table import ledger_table

    ((name, request),) = requests.items()
    ledger = ledgers[name]
    console.print(
        ledger_table(ledger, model=request.model, gpu=request.gpus[0].name, remedies=_remedies(request, ledger))
    )
    console.print(terminal_bar(ledger, min(console.width, _BAR_COLUMNS)))


def _names_of(requests: Mapping[str, MemoryRequest]) -> tuple[list[Model], list[str]]:
    """Return what the ledgers are of, one by one."""
    return [request.model for request in requests.values()], [request.gpus[0].name for request in requests.values()]


def _remedies(request: MemoryRequest, ledger: Ledger) -> Sequence[Remedy]:
    if ledger.refusal is None:
        return ()
    if request.sglang is not None:
        return sglang_remedies_of(request.gpus[0], request.model, request.settings, request.sglang)
    return remedies_of(request.gpus if len(request.gpus) > 1 else request.gpus[0], request.model, request.settings)


def _changed(options: MemoryOptions, text: str) -> MemoryOptions:
    """Return the options with what `--compare` changes: more flags, or another question altogether."""
    own, words = split_words(cut(text, "--compare"))
    if not own and not words:
        raise MemoryLedgerError("--compare is empty: give flags to compare with, e.g. --compare '--kv-cache-dtype fp8'")
    changes = parse(own)
    for name in ("log", "compare", "out", "as_json", "overrides"):
        if changes.pop(name, None):
            raise MemoryLedgerError(f"--compare {text[:60]!r}: holds settings to compare with, nothing else")
    merged = dict(options.own or {}) | changes.pop("own", {})
    changed = replace(options, compare=(), own=merged, **changes)
    if words and not words[0].startswith("-"):
        return replace(changed, words=tuple(words), log=None, overrides=())
    return replace(changed, words=(*options.words, *words))


def _request(options: MemoryOptions) -> MemoryRequest:
    own = dict(options.own or {})
    if options.free_at_start is not None:
        own["free_bytes_at_start"] = _bytes_of_gib(options.free_at_start)
    words = list(options.words)
    scenario = _scenario_path(words)
    if scenario is not None:
        return _of_scenario(scenario, words[1:], options, own)
    if options.overrides:
        raise MemoryLedgerError("--set changes a scenario, and none is given; use vLLM's flags instead")
    command = _command(words) if words else ServeCommand(engine="vllm")
    if options.log is not None:
        return _of_log(options.log, command, options, own)
    if options.gpu is None:
        raise MemoryLedgerError("--gpu is missing: say which GPU it runs on, e.g. --gpu L4")
    if not words:
        raise MemoryLedgerError(
            "nothing to account for: give a scenario, a start command, or --model with vLLM's flags"
        )
    return request_of_command(command, options.gpu, options.gpus, own)


def _bytes_of_gib(size: float) -> int:
    """Return a size in bytes; the settings check what is merely too much."""
    if not abs(size) < _MOST_GIB:  # nor is NaN
        raise MemoryLedgerError(f"--free-at-start {size:g} must be a number of GiB above 0 and below {_MOST_GIB:,}")
    return round(size * GIB)


def _scenario_path(words: Sequence[str]) -> Path | None:
    if not words or words[0].startswith("-") or " " in words[0]:
        return None
    path = Path(words[0])
    if path.suffix.lower() not in {".yaml", ".yml"}:
        return None
    return None if path.is_file() and _is_manifest(path) else path


def _is_manifest(path: Path) -> bool:
    """Whether a YAML file starts a container; a scenario is YAML too, and starts none."""
    from sim.serve_command.errors import CommandError
    from sim.serve_command.manifest import containers, is_manifest
    from sim.serve_command.paste import clean

    text = clean(_text(path))
    try:
        return is_manifest(text) and bool(containers(text, {}))
    except CommandError:  # no YAML: the scenario's reader says where
        return False


def _command(words: list[str]) -> ServeCommand:
    """Read a command: pasted words, a file that holds it, or standard input (`-`)."""
    first = words[0]
    if first == "-":
        return _with_flags(read_command(sys.stdin.read(_MOST_BYTES)), words[1:])
    if _is_command_file(first, words[1:]):
        return _with_flags(read_command(_text(Path(first))), words[1:])
    if len(words) > 1 and " " in first.strip():  # pasted in quotes, with more flags after it
        return _with_flags(read_command(first), words[1:])
    command = read_command(words[0] if len(words) == 1 else words)
    if first.startswith("-"):  # flags alone are vLLM's here, of a model that is named elsewhere
        return replace(command, notes=tuple(note for note in command.notes if not note.startswith("no ")))
    return command


def _is_command_file(first: str, rest: Sequence[str]) -> bool:
    """Whether the first word is a file that holds a command, rather than the program that starts one."""
    if " " in first or first.startswith("-") or _PROGRAM.match(Path(first).name):
        return False
    return Path(first).is_file() and (not rest or rest[0].startswith("-"))


def _with_flags(command: ServeCommand, words: Sequence[str]) -> ServeCommand:
    """Return a command with more flags: what they say goes before."""
    if not words:
        return command
    flags = _command(list(words))
    said = {
        field.name: value
        for field in fields(flags)
        if field.name not in {"engine", "ignored", "notes"} and (value := getattr(flags, field.name)) is not None
    }
    return replace(command, **said, ignored=(*command.ignored, *flags.ignored), notes=(*command.notes, *flags.notes))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8")
    except OSError as error:
        raise MemoryLedgerError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    except UnicodeDecodeError:
        raise MemoryLedgerError(f"{path}: is not text in UTF-8") from None


def _of_scenario(path: Path, words: list[str], options: MemoryOptions, own: dict[str, Any]) -> MemoryRequest:
    from sim.engine_flags import memory_settings
    from sim.load import decode_scenario
    from sim.strict_yaml import apply_overrides, load_yaml

    scenario = decode_scenario(apply_overrides(load_yaml(path), list(options.overrides)))
    command = _command(words) if words else ServeCommand(engine="vllm")
    model = with_overrides(load_model(command.model or scenario.model), command.hf_overrides or {})
    notes = [*command.notes]
    changes = flag_settings(command, model, notes) | own
    request = MemoryRequest(
        gpus=gpus_of(options.gpu or scenario.gpu),
        model=model,
        settings=memory_settings(scenario),
        gpu_count=options.gpus,
        ignored=command.ignored,
        notes=tuple(notes),
    )
    log = options.log or (None if scenario.engine.startup_log is None else path.parent / scenario.engine.startup_log)
    if log is not None:
        return with_remarks(like_log(request, read_startup_log(log), changes))
    return with_remarks(replace(request, settings=replace(request.settings, **changes)))


def _of_log(path: Path, command: ServeCommand, options: MemoryOptions, own: dict[str, Any]) -> MemoryRequest:
    facts = read_startup_log(path)
    named = command.model or facts.model
    if named is None:
        raise MemoryLedgerError(f"{path} names no model: add --model")
    gpu = gpu_of_log(facts) if options.gpu is None else None
    if gpu is None and options.gpu is None:
        raise MemoryLedgerError(f"{path} shows no GPU's memory: add --gpu, e.g. --gpu L4")
    model = with_overrides(load_model(named), command.hf_overrides or {})
    notes = [*command.notes]
    changes = flag_settings(command, model, notes) | own
    request = MemoryRequest(
        gpus=(gpu,) if gpu is not None else gpus_of(options.gpu or ""),
        model=model,
        settings=MemorySettings(**(settings_of_log(facts) | types_of(facts.quantization, model))),
        sglang=sglang_of_log(facts) if facts.engine == "sglang" else None,
        gpu_count=options.gpus,
        ignored=command.ignored,
        notes=tuple(notes),
    )
    return with_remarks(with_log(request, facts, changes))
