"""`kvcliff validate`: one subcommand a kind of evidence, each in a module of `calibrate.validation`."""

from importlib import import_module

import click

from sim.command_group import CommandGroup

KINDS = {  # subcommand: module that holds its `command`
    "steps": "calibrate.validation.steps_command",
    "e2e": "calibrate.validation.e2e_command",
    "cliff": "calibrate.validation.cliff_command",
    "scenarios": "calibrate.validation.scenarios_command",
    "memory": "calibrate.validation.memory_command",
    "machine": "calibrate.validation.machine_command",
    "toy": "calibrate.validation.toy_command",
}


class _Kinds(CommandGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(KINDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        if cmd_name not in KINDS:
            return None
        command: click.Command = import_module(KINDS[cmd_name]).command
        return command


@click.group("validate", cls=_Kinds)
def command() -> None:
    """Compare predictions with measurements.

    Those of whole steps, end-to-end runs, a real engine's cliff, published figures of scenarios, posted start-ups, this
    machine's steps, and a queue served on it.
    """
