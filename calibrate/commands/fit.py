"""`kvcliff fit`."""

import click


@click.command("fit")
def command() -> None:
    """Not there yet."""
