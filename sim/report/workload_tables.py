"""Workload profiles in the terminal: a line each, or one with its numbers, where they are from and what they draw."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sim.report.terminal import plain_console
from sim.workload_drawn import PERCENTILES
from sim.workload_profiles import WorkloadProfile
from sim.workload_spec import DistributionSpec, MixtureSpec, Number, QuantilesSpec, Spec

_TITLES = {
    "requests_per_session": "requests",
    "first_prompt_tokens": "first prompt",
    "prompt_tokens": "every prompt",
    "longest_prompt_tokens": "longest prompt",
    "growth_tokens": "growth",
    "output_tokens": "answer",
    "pause_s": "pause, s",
}


def print_profiles(profiles: Sequence[WorkloadProfile]) -> None:
    """Print a line a profile."""
    console = plain_console()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for profile in profiles:
        table.add_row(Text(profile.name, "bold"), profile.description)
    console.print(table)
    console.print()
    console.print("workload: {profile: NAME} in a scenario uses one; kvcliff workloads NAME shows its numbers")


def print_profile(profile: WorkloadProfile, drawn: Mapping[str, Any], max_model_len: int | None) -> None:
    """Print the numbers of a profile, each with its source, and percentiles of sessions drawn from it."""
    console = plain_console()
    console.print(Text.assemble((profile.name, "bold"), "  ", profile.description))
    console.print()
    for key, source in profile.sources.items():
        console.print(Text.assemble((f"{key}: ", "bold"), said(getattr(profile.workload, key))))
        console.print(Padding(source, (0, 0, 0, 4)), style="dim")
    if profile.fitted_from is not None:
        of = profile.fitted_from
        counts = f"{of.sessions:,} sessions, {of.requests:,} requests"
        console.print(f"fitted from {of.file} ({of.format}, {counts}, SHA-256 {of.sha256[:12]})")
    console.print()
    limit = "no limit of length" if max_model_len is None else f"max_model_len {max_model_len:,}"
    console.print(f"{drawn['sessions']:,} sessions drawn, {limit}; lengths in tokens:")
    console.print(percentile_table({"": drawn["percentiles"]}))
    for line in drawn_lines(drawn):
        console.print(line)


def percentile_table(by_name: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    """Return a row a quantity, or one a name where there are several."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("")
    columns = [*(f"p{share}" for share in PERCENTILES), "mean"]
    for column in columns:
        table.add_column(column, justify="right")
    for key, title in _TITLES.items():
        for name, rows in by_name.items():
            if key in rows:
                table.add_row(f"{title}{f', {name}' if name else ''}", *(_short(rows[key][one]) for one in columns))
    return table


def drawn_lines(drawn: Mapping[str, Any]) -> list[str]:
    """Return what the table does not say."""
    lines = []
    at = drawn["median_prompt_tokens_at_request"]
    if len(at) > 1:
        parts = ", ".join(f"{_short(tokens)} ({number})" for number, tokens in at.items())
        lines.append(f"median prompt at request: {parts}")
    if drawn["shrinking_share"]:
        lines.append(f"prompts that are shorter than the one before: {drawn['shrinking_share']:.2%}")
    words = {"60": "1 min", "300": "5 min", "3600": "1 h", "unlimited": "ever"}
    kept = ", ".join(f"{rate:.1%} {words[kept]}" for kept, rate in drawn["hit_rate_by_kept_s"].items())
    lines.append(f"prompt tokens found if idle sessions are kept for: {kept}")
    return lines


def said(value: Any) -> str:
    """Return a number, a distribution or a group of them in one line."""
    if isinstance(value, MixtureSpec):
        total = sum(part.weight for part in value.parts)
        return "; ".join(f"{part.weight / total:.0%} {said(part.of)}" for part in value.parts)
    if isinstance(value, QuantilesSpec):
        pairs = zip(value.shares, value.values, strict=True)
        return "quantiles " + ", ".join(f"{share:.4g}: {_short(one)}" for share, one in pairs)
    if isinstance(value, Spec):
        named = {name: getattr(value, name) for name in value.__struct_fields__}
        given = {name: one for name, one in named.items() if one is not None and (one or name != "min")}
        kind = value.__struct_config__.tag
        text = ", ".join(f"{name} {said(one)}" for name, one in given.items())
        return f"{kind} {text}" if kind else text
    return _short(value)


def _short(value: "Number | DistributionSpec | float | str | bool") -> str:
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 or float(value).is_integer() else f"{value:.3g}"


def print_fit(
    profile: WorkloadProfile, both: Mapping[str, Mapping[str, Any]], assumed: Sequence[str], out: Path | None
) -> None:
    """Print a fitted profile beside its trace, on standard error where the profile itself went to standard output."""
    console = plain_console()
    console.stderr = out is None
    console.print(Text.assemble((profile.name, "bold"), "  ", profile.description))
    console.print(percentile_table({name: one["percentiles"] for name, one in both.items()}))
    for name, one in both.items():
        console.print(f"{name}: {drawn_lines(one)[-1]}")
    for line in assumed:
        console.print(Padding(f"assumed: {line}", (0, 0, 0, 2)), style="dim")
    if out is not None:
        console.print(f"wrote {out}; a scenario uses it as workload: {{profile: {out}}}")
