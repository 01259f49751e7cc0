"""`kvcliff validate cliff`."""

import click


@click.command("cliff")
def command() -> None:
    """Not there yet."""
