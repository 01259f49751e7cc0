"""The options of `kvcliff memory`, and how they are told from the words of a pasted command."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sim.commands.memory_words import split_words

_SETTINGS = ("vllm_version", "weight_dtype", "kv_cache_tokens", "non_kv_bytes")
OPTIONS: list[click.Parameter] = [
    click.Option(
        ["--gpu"], metavar="NAME", help="GPU of the catalog, e.g. L4; several joined by commas: one a pipeline stage."
    ),
    click.Option(["--gpus"], type=click.IntRange(1, 100_000), metavar="N", help="How many GPUs the machine has."),
    click.Option(
        ["--log"],
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="An engine's start-up log: its blocks and bytes go before the estimate; more flags are a what-if on them.",
    ),
    click.Option(
        ["--compare"],
        multiple=True,
        metavar="FLAGS",
        help="Set these flags (or this other command or scenario) beside the first. Repeatable.",
    ),
    click.Option(
        ["--out"],
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Draw the memory as .png or .svg.",
    ),
    click.Option(
        ["--vllm-version"],
        metavar="X.Y.Z",
        help="Whose rules and words; where the command does not tell.  [default: 0.32.0]",
    ),
    click.Option(["--weight-dtype"], metavar="TYPE", help="fp8, bf16, awq, ...; auto is the checkpoint's own."),
    click.Option(["--kv-cache-tokens"], type=int, metavar="N", help="What the engine's own log says."),
    click.Option(["--non-kv-bytes"], type=int, metavar="N", help="Measured: what the budget holds besides KV, a GPU."),
    click.Option(["--free-at-start"], type=float, metavar="GIB", help="Memory free when the engine starts, a GPU."),
    click.Option(
        ["--set", "overrides"], multiple=True, metavar="KEY=VALUE", help="Override one key of a scenario. Repeatable."
    ),
    click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object."),
]


class PastedCommand(click.Command):
    """Takes our own options, wherever they stand, and leaves all other words as they are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse our options only."""
        own, words = split_words(args)
        super().parse_args(ctx, own)
        ctx.params["words"] = tuple(words)
        return []

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return what stands after the command's name in its usage line."""
        return [*super().collect_usage_pieces(ctx), "[SCENARIO | COMMAND... | FLAGS...]"]


def parse(arguments: Sequence[str]) -> dict[str, Any]:
    """Return what our own options set, by the names of MemoryOptions."""
    context = click.Command("memory", params=list(OPTIONS)).make_context("memory", list(arguments))
    return as_fields(context.params)


def as_fields(params: dict[str, Any]) -> dict[str, Any]:
    """Sort click's parameters into fields of MemoryOptions; what was not given is left out."""
    given = {name: value for name, value in params.items() if value not in {None, (), False} or value == 0}
    own = {name: given.pop(name) for name in _SETTINGS if name in given}
    given.pop("help", None)
    return {name: value for name, value in given.items() if value is not False} | ({"own": own} if own else {})
