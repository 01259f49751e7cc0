"""A command-line option in minutes."""

import math
from typing import Any

import click


class Minutes(click.FloatRange):
    """Minutes above zero and up to a limit; `nan` lies in click's own ranges and is refused here."""

    def __init__(self, most: float) -> None:
        super().__init__(0, most, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raises click.BadParameter if it is none or out of range."""
        minutes = float(super().convert(value, param, ctx))
        if math.isnan(minutes):
            self.fail("nan is not a number of minutes.", param, ctx)
        return minutes
