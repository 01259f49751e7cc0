"""`kvcliff validate steps`."""

import click


@click.command("steps")
def command() -> None:
    """Not there yet."""
