"""`kvcliff calibrate`."""

import click


@click.command("calibrate")
def command() -> None:
    """Not there yet."""
