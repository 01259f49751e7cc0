"""From a start command to its settings.

paste.py cleans the text, shell.py or manifest.py cuts it into words, launch.py finds the server among them,
arguments.py reads its flags by the engine's table; here they become one ServeCommand.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sim.serve_command.arguments import Arguments, Given, is_flag, known, read_arguments
from sim.serve_command.command import Engine, ServeCommand, Speculative
from sim.serve_command.config_file import config_words
from sim.serve_command.docker import gpu_count
from sim.serve_command.environment import VARIABLES, read_environment
from sim.serve_command.errors import CommandError, RuleError
from sim.serve_command.flags import FlagTable
from sim.serve_command.launch import EXPECTED, Launch, find_launch, in_container
from sim.serve_command.manifest import containers, is_manifest
from sim.serve_command.paste import clean, plain
from sim.serve_command.sglang_flags import SGLANG
from sim.serve_command.shell import MAX_CHARACTERS, MAX_WORDS, Word, commands
from sim.serve_command.vllm_flags import VLLM
from sim.struct_errors import show

TABLES: Mapping[Engine, tuple[FlagTable, FlagTable]] = {"vllm": (VLLM, SGLANG), "sglang": (SGLANG, VLLM)}
NOTHING: Mapping[str, str] = MappingProxyType({})


def read_command(words: Sequence[str] | str, environment: Mapping[str, str] = NOTHING) -> ServeCommand:
    """Read a start command: text as pasted, or words that a shell has already cut.

    `environment` holds variables set around the command, which those in it go before. Raises CommandError with the
    place, the flag and the rule when something cannot be read, or may matter for memory and is unknown.
    """
    launch = _launch(words, environment)
    table, other = TABLES[launch.engine]
    arguments = read_arguments(launch.words, table, other)
    configured = _configured(arguments, table, other)
    notes = [*launch.notes, *configured.notes, *arguments.notes]
    settings = _last_of(read_environment(_around(launch, environment) | launch.environment), [])
    settings |= _last_of([*configured.given, *_positional(arguments), *arguments.given], notes)
    if launch.gpus is not None:
        settings.setdefault("visible_gpus", Given("visible_gpus", launch.gpus, "--gpus", ""))
    values = _values(launch.engine, settings)
    notes += _remarks(launch.engine, values)
    ignored = dict.fromkeys([*configured.ignored, *arguments.ignored])
    return ServeCommand(
        engine=launch.engine, engine_version=launch.version, ignored=tuple(ignored), notes=tuple(notes), **values
    )


def _around(launch: Launch, environment: Mapping[str, str]) -> dict[str, Word]:
    """Return the variables that matter of those set around the command; a container has its own."""
    if launch.contained:
        return {}
    return {name: Word(value, "the environment") for name, value in environment.items() if name in VARIABLES}


REPLACED = " gives way to "


def _launch(words: Sequence[str] | str, environment: Mapping[str, str]) -> Launch:
    if not isinstance(words, str):
        if sum(map(len, words)) > MAX_CHARACTERS:
            raise CommandError(f"the command has more than {MAX_CHARACTERS:,} characters")
        if len(words) != 1:
            cut = [Word(plain(word), f"word {at}") for at, word in enumerate(words, 1)]
            return _of_commands([cut], environment)
        words = words[0]
    text = clean(words)
    if is_manifest(text):
        return _of_manifest(text, environment)
    return _of_commands(commands(text, environment), environment)


def _of_commands(cut: Sequence[list[Word]], environment: Mapping[str, str]) -> Launch:
    if len(cut) == 1 and cut[0] and is_flag(cut[0][0].text):
        return _bare_flags(cut[0])
    return find_launch(cut, environment)


def _of_manifest(text: str, environment: Mapping[str, str]) -> Launch:
    found = containers(text, environment)
    for container in found:
        if launch := in_container(container, environment):
            others = found[found.index(container) + 1 :]
            if any(in_container(other, environment) for other in others):
                launch.notes.append("several servers are started here: this is of the first")
            return launch
    for container in found:
        if container.inside and is_flag(container.inside[0].text):
            launch = _bare_flags(container.inside)
            launch.environment, launch.gpus, launch.contained = container.environment, container.gpus, True
            return launch
    raise CommandError(f"no container here starts a server; {EXPECTED}, or the image's arguments")


def _bare_flags(words: list[Word]) -> Launch:
    """Take flags without a program for those of the engine that knows more of them."""
    names = [word.text.partition("=")[0].replace("_", "-") for word in words[:MAX_WORDS] if is_flag(word.text)]
    strangers = {engine: sum(table.find(name) is None for name in names) for engine, (table, _) in TABLES.items()}
    engine = min(strangers, key=lambda engine: strangers[engine])
    return Launch(engine, words, notes=[f"no program is named; by its flags this is {engine}"])


def _configured(arguments: Arguments, table: FlagTable, other: FlagTable) -> Arguments:
    """Read the configuration file that the flags name, if they do."""
    paths = [given for given in arguments.given if given.target == "config"]
    if not paths:
        return Arguments()
    if len(paths) > 1:
        raise CommandError(f"{paths[1].place}: --config is given twice; the engine takes one file")
    configured = read_arguments(config_words(paths[0].value), table, other)
    if any(given.target == "config" for given in configured.given):
        raise CommandError(f"--config {show(paths[0].value)}: names another --config")
    return configured


def _positional(arguments: Arguments) -> list[Given]:
    """Return the model among the positional words."""
    if len(arguments.positional) > 1:
        extra = arguments.positional[1]
        raise CommandError(f"{extra.place}: unexpected word {show(extra.text)}, which no flag takes")
    named = [given for given in arguments.given if given.target == "model"]
    if not arguments.positional:
        return []
    word = arguments.positional[0]
    try:
        model = known(word.text)
    except RuleError as problem:
        raise CommandError(f"{word.place}: the model {show(word.text)} {problem}") from None
    if named and named[-1].value != model:
        raise CommandError(f"{word.place}: two models are named, {show(model)} and {show(named[-1].value)}")
    if not model:
        raise CommandError(f"{word.place}: the model's name is empty")
    return [Given("model", model, "the model", word.place)]


def _last_of(given: Sequence[Given], notes: list[str]) -> dict[str, Given]:
    """Return the last value of each setting, as argparse does; a note tells what it replaced."""
    settings: dict[str, Given] = {}
    for one in given:
        before = settings.get(one.target)
        if before is not None and before.value != one.value:
            notes.append(f"{_shown(before)}{REPLACED}{_shown(one)}")
        settings[one.target] = one
    return settings


def _shown(given: Given) -> str:
    return f"{given.name} {show(given.value)} ({given.place})"


def _values(engine: str, settings: Mapping[str, Given]) -> dict[str, Any]:
    """Turn settings by dotted name into the fields of a ServeCommand."""
    values: dict[str, Any] = {}
    for target, given in settings.items():
        first, *path = target.split(".")
        if not path:
            values[first] = given.value if not isinstance(given.value, dict) else given.value | values.get(first, {})
            continue
        here = values[first] = dict(values.get(first) or {})
        for key in path[:-1]:
            below = here.get(key)
            here[key] = dict(below) if isinstance(below, dict) else {}
            here = here[key]
        here[path[-1]] = given.value
    values.pop("config", None)
    if engine == "sglang" and "max_num_batched_tokens" in values and values["max_num_batched_tokens"] is None:
        values["enable_chunked_prefill"] = False
    if sizes := values.pop("cuda_graph_sizes", None):
        name = "max_cudagraph_capture_size" if len(sizes) == 1 else "cudagraph_capture_sizes"
        values[name] = sizes[0] if len(sizes) == 1 else sizes
    if ids := values.pop("device_ids", None):
        values["visible_gpus"] = gpu_count(f"device={ids.replace(' ', '')}")
    if speculative := values.pop("speculative", None):
        values["speculative"] = _speculative(speculative)
    return values


def _speculative(values: dict[str, Any]) -> Speculative:
    tree, steps = values.get("num_draft_tokens"), values.get("num_steps")
    if "num_speculative_tokens" not in values:
        values["num_speculative_tokens"] = tree - 1 if tree else steps
    return Speculative(**values)


def _remarks(engine: str, values: Mapping[str, Any]) -> list[str]:
    """Say what does not go together. Raises CommandError for what the engine refuses."""
    get = values.get
    tokens, sequences = get("max_num_batched_tokens"), get("max_num_seqs")
    if engine == "vllm" and tokens and sequences and tokens < sequences:
        raise CommandError(f"max_num_batched_tokens {tokens:,} is below max_num_seqs {sequences:,}: vLLM refuses")
    tensor, data = get("tensor_parallel_size") or 1, get("data_parallel_size") or 1
    if get("enable_dp_attention") and tensor % data:
        raise CommandError(f"dp_size {data} must divide tp_size {tensor} with --enable-dp-attention: SGLang refuses")
    ranks = tensor * (get("pipeline_parallel_size") or 1) * (1 if get("enable_dp_attention") else data)
    visible = get("visible_gpus")
    notes = []
    if visible is not None and ranks > visible:
        notes.append(f"{ranks} GPUs are needed and {visible} are visible")
    if get("kv_cache_memory_bytes") and get("gpu_memory_utilization"):
        notes.append("kv_cache_memory_bytes fixes the KV cache; gpu_memory_utilization does not change it")
    if get("enforce_eager") and (get("cudagraph_capture_sizes") or get("max_cudagraph_capture_size")):
        notes.append("enforce_eager leaves out CUDA graphs; their sizes do not matter")
    if (get("max_loras") or get("max_lora_rank")) and not get("enable_lora"):
        notes.append("LoRA is not enabled; its sizes do not matter")
    if get("model") is None:
        notes.append("no model is named")
    return notes
