"""`--config FILE.yaml`: each key is a flag, and the command line goes before it (vLLM and SGLang alike)."""

from pathlib import Path

from sim.serve_command.errors import CommandError
from sim.serve_command.shell import MAX_CHARACTERS, Word
from sim.serve_command.values import as_text
from sim.strict_yaml import load_yaml
from sim.struct_errors import show


def config_words(path: str) -> list[Word]:
    """Return a configuration file as the words of a command line.

    Raises CommandError when it is no readable YAML mapping of a sensible size.
    """
    if not path.isprintable():
        raise CommandError(f"--config {show(path)}: is no name of a file")
    file = Path(path)
    try:
        too_large = file.is_file() and file.stat().st_size > MAX_CHARACTERS
        special = file.exists() and not file.is_file() and not file.is_dir()
    except (OSError, ValueError) as problem:
        raise CommandError(f"--config {show(path)}: cannot be read: {problem}") from None
    if too_large or special:
        raise CommandError(f"--config {show(path)}: is not a YAML file of at most {MAX_CHARACTERS:,} bytes")
    document = load_yaml(file, CommandError)
    words: list[Word] = []
    for key, value in document.data.items():
        place = str(document.place((key,)))
        name = f"--{as_text(key)}"
        if value is None:
            continue
        if isinstance(value, list):
            words += [Word(name, place), *(Word(as_text(item), place) for item in value)]
        else:
            words.append(Word(f"{name}={as_text(value)}", place))
    return words
