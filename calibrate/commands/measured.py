"""`kvcliff measured`: results of load tests, whatever tool wrote them, as one table."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from calibrate.measured.run import MeasuredRun


@click.command("measured")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: every column, notes and settings.")
@click.option("--csv", "csv_path", metavar="FILE", type=click.Path(path_type=Path), help="Write every column as CSV.")
def command(files: tuple[Path, ...], csv_path: Path | None, *, as_json: bool) -> None:
    """Show results of load tests, whatever tool wrote them.

    One table with one definition per metric.

    Understood by what they hold: vllm bench serve (JSON, appended lines, detailed), its multi-turn benchmark,
    sglang.bench_serving, GuideLLM (JSON, CSV), AIPerf (JSON, JSONL, CSV, or its folder), inference-perf (a stage, or
    its folder), agent-sim, scrapes of vLLM's /metrics (one, or one before and one after the test), and vLLM's log.
    Plain or gzip. Times become seconds; TPOT is (E2E - TTFT) / (output tokens - 1); what a tool defines otherwise is
    converted or left out, and a note says so.
    """
    from calibrate.measured.read import read_measured
    from calibrate.measured.table import as_csv
    from calibrate.measured.table import as_json as rows_json

    runs = read_measured(files)
    if csv_path is not None:
        _write(csv_path, as_csv(runs))
    if as_json:
        click.echo(json.dumps({"load_points": rows_json(runs)}, allow_nan=False))
    else:
        _print(runs, csv_path)


def _write(path: Path, text: str) -> None:
    from sim.errors import MeasurementError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MeasurementError(f"{path}: {error.strerror or error}") from None


def _print(runs: "Sequence[MeasuredRun]", csv_path: Path | None) -> None:
    from rich.console import Console

    console = Console()
    console.print(_table(runs))
    if any(_is_mean(run, keys) for run in runs for keys in _TIMES.values()):
        _say(console, "* the mean: no percentile is known")
    for what, said in (("from", _sources(runs)), ("server", _servers(runs)), ("note", _notes(runs))):
        for text, numbers in said.items():
            _say(console, f"{what} {_numbers(numbers, len(runs))}: {text}")
    detailed = sum(len(run.requests) for run in runs)
    if detailed:
        _say(console, f"{detailed:,} requests are listed one by one: their metrics are computed here")
    if csv_path is not None:
        _say(console, f"Written: {csv_path}")


_TIMES = {
    "TTFT\np50 ms": ("ttft_p50_s", "ttft_mean_s"),
    "TTFT\np99 ms": ("ttft_p99_s",),
    "TPOT\np50 ms": ("tpot_p50_s", "tpot_mean_s"),
    "ITL\np99 ms": ("itl_p99_s", "itl_mean_s"),
    "E2E\np50 ms": ("e2e_p50_s", "e2e_mean_s"),
    "E2E\np99 ms": ("e2e_p99_s",),
}


def _table(runs: "Sequence[MeasuredRun]") -> "Table":
    from rich.table import Table

    from calibrate.measured.table import load_text

    table = Table(title=f"{len(runs):,} load points, as measured", title_justify="left", box=None, padding=(0, 1, 0, 0))
    for name in ("", "load", "done", "req/s", "out\ntok/s", *_TIMES):
        table.add_column(name, justify="left" if name == "load" else "right", overflow="fold")
    for number, run in enumerate(runs, 1):
        cells = [str(number), load_text(run.load), _counts(run)]
        cells += [_amount(run.metrics.get(rate)) for rate in ("requests_per_s", "output_tokens_per_s")]
        cells += [_time(run, keys) for keys in _TIMES.values()]
        table.add_row(*cells)
    return table


def _sources(runs: "Sequence[MeasuredRun]") -> dict[str, list[int]]:
    said: dict[str, list[int]] = {}
    for number, run in enumerate(runs, 1):
        said.setdefault(f"{run.file} ({run.tool}{f', {run.model}' if run.model else ''})", []).append(number)
    return said


def _servers(runs: "Sequence[MeasuredRun]") -> dict[str, list[int]]:
    said: dict[str, list[int]] = {}
    for number, run in enumerate(runs, 1):
        if text := _server(run):
            said.setdefault(text, []).append(number)
    return said


def _notes(runs: "Sequence[MeasuredRun]") -> dict[str, list[int]]:
    said: dict[str, list[int]] = {}
    for number, run in enumerate(runs, 1):
        for note in run.notes:
            said.setdefault(note, []).append(number)
    return said


def _counts(run: "MeasuredRun") -> str:
    if run.completed is None:
        return "-"
    return f"{run.completed:,}" + (f" ({run.failed:,} failed)" if run.failed else "")


def _amount(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _time(run: "MeasuredRun", keys: tuple[str, ...]) -> str:
    """Return a time in milliseconds; a mean in place of a percentile carries a star."""
    value = next((run.metrics[key] for key in keys if key in run.metrics), None)
    if value is None:
        return "-"
    shown = f"{value * 1e3:,.0f}" if value >= 1 else f"{value * 1e3:.3g}"
    return f"{shown}*" if _is_mean(run, keys) else shown


def _is_mean(run: "MeasuredRun", keys: tuple[str, ...]) -> bool:
    return keys[0] not in run.metrics and any(key in run.metrics for key in keys[1:])


def _server(run: "MeasuredRun") -> str:
    said = []
    if (hits := run.metrics.get("prefix_hit_rate")) is not None:
        said.append(f"hits {hits:.0%}")
    if (usage := run.metrics.get("kv_usage_peak")) is not None:
        said.append(f"KV {usage:.0%}")
    if (preempted := run.metrics.get("preemptions")) is not None:
        said.append(f"{preempted:g} preempted")
    if (running := run.metrics.get("running_peak")) is not None:
        said.append(f"{running:g} running")
    return ", ".join(said)


def _numbers(numbers: list[int], of: int) -> str:
    if len(numbers) == of and of > 1:
        return "all"
    if numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 2:
        return f"{numbers[0]} to {numbers[-1]}"
    shown = ", ".join(map(str, numbers[:8]))
    return shown if len(numbers) <= 8 else f"{shown}, ..."


def _say(console: "Console", line: str) -> None:
    console.print(line, soft_wrap=True, highlight=False, markup=False)
