"""Options that several commands have."""

from typing import Any

import click

MOST_SESSIONS = 100_000


def overrides_option(function: Any) -> Any:
    """Add `--set`."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override one key of the scenario, e.g. engine.kv_cache_dtype=fp8. Repeatable.",
    )(function)
