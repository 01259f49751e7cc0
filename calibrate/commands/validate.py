"""`kvcliff validate`."""

import click


@click.command("validate")
def command() -> None:
    """Not there yet."""
