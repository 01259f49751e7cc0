"""`kvcliff convert`."""

import click


@click.command("convert")
def command() -> None:
    """Not there yet."""
