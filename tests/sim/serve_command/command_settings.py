"""What a command says, as a dictionary, for tests to compare."""

from dataclasses import fields
from typing import Any

from sim.serve_command import ServeCommand

SAID = {"engine", "ignored", "notes"}


def settings(command: ServeCommand) -> dict[str, Any]:
    """Return the settings that a command gives, without the flags it passes over."""
    values = {field.name: getattr(command, field.name) for field in fields(command) if field.name not in SAID}
    return {name: value for name, value in values.items() if value is not None}
