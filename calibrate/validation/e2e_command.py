"""`kvcliff validate e2e`."""

import click


@click.command("e2e")
def command() -> None:
    """Not there yet."""
