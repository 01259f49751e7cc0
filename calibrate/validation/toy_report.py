"""The toy's result in the terminal: what was measured, and the queue measured beside simulated."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calibrate.validation.toy_queue import POLICIES
from calibrate.validation.toy_run import ANSWER, ANSWERS, CONTEXT, LIMIT, PROMPT, ToyResult
from sim.units import seconds

_TITLES = {
    "ttft_p50_s": "TTFT p50",
    "ttft_p95_s": "TTFT p95",
    "all_done_s": "all done",
    "output_tokens_per_s": "tokens/s",
}


def print_report(result: ToyResult, console: Console) -> None:
    """Print everything."""
    without_s, with_s = result.answer_without_cache_s, result.answer_with_cache_s
    one_s, sixteen_s = result.decode_1_row_s, result.decode_16_rows_s
    tokens = "identical tokens" if result.same_tokens else "DIFFERENT tokens"
    console.print(f"measured on {result.machine} (processor time of one thread)")
    console.print(
        f"  a {ANSWER}-token answer to {PROMPT} tokens, median of {ANSWERS}: {seconds(without_s)} without a KV cache, "
        f"{seconds(with_s)} with one: {without_s / with_s:.1f}x, {tokens}"
    )
    console.print(
        f"  a decode step at context {CONTEXT}: {seconds(one_s)} with 1 row, {seconds(sixteen_s)} with 16: "
        f"{16 * one_s / sixteen_s:.2f}x tokens a second"
    )
    console.print(f"  the curve through the step times is {result.fit_error:.1%} off in the median")
    console.print()
    console.print(_table(result))


def _table(result: ToyResult) -> Table:
    table = Table(
        title=f"{result.requests} requests at t = 0", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("policy")
    table.add_column("figure")
    for column in ("measured", "simulated", "error"):
        table.add_column(column, justify="right", no_wrap=True)
    for policy, measured in result.measured.items():
        for row, (name, error) in enumerate(result.errors(policy).items()):
            real, ours = getattr(measured, name), getattr(result.simulated[policy], name)
            shown = [f"{value:,.0f}" if name == "output_tokens_per_s" else seconds(value) for value in (real, ours)]
            style = "" if abs(error) <= LIMIT else "yellow"
            table.add_row("" if row else POLICIES[policy], _TITLES[name], *shown, Text(f"{error:+.1%}", style))
    return table
