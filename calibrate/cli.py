"""The commands of calibration, by name; `sim.cli` looks here lazily. One module a command, each with `command`."""

from importlib import import_module

import click

COMMANDS = {
    "calibrate": "time the operations of a model on this machine's GPU or CPU",
    "compare": "set a prediction beside what load tests measured, and name what explains the gap",
    "convert": "turn public measurement files into the measurement table",
    "measured": "show results of load tests, whatever tool wrote them, as one table",
    "fit": "turn measurements into a profile, with residuals and intervals",
    "validate": "compare a profile with whole steps and end-to-end runs",
}


def load(name: str) -> click.Command:
    """Return a command; its module imports what it needs when it runs."""
    command: click.Command = import_module(f"calibrate.commands.{name}").command
    return command
