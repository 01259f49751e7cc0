"""`kvcliff validate machine`."""

import click


@click.command("machine")
def command() -> None:
    """Not there yet."""
