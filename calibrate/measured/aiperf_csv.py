"""AIPerf's `profile_export_aiperf.csv`: a table of distributions, a blank line, a table of single values.

The values are the JSON's, rounded to two decimals; the load is not in it.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from calibrate.measured import aiperf_summary
from calibrate.measured.run import MeasuredLoad, MeasuredRun
from sim.errors import MeasurementError

NAME = "aiperf-csv"
_NAMES = {
    "time to first token": "time_to_first_token",
    "inter token latency": "inter_token_latency",
    "inter chunk latency": "inter_chunk_latency",
    "request latency": "request_latency",
    "benchmark duration": "benchmark_duration",
    "request count": "request_count",
    "error request count": "error_request_count",
    "request throughput": "request_throughput",
    "input token throughput": "input_token_throughput",
    "output token throughput": "output_token_throughput",
    "total token throughput": "total_token_throughput",
    "input sequence length": "input_sequence_length",
    "output sequence length": "output_sequence_length",
    "usage prompt tokens": "usage_prompt_tokens",
    "overall usage prompt cache read %": "overall_usage_prompt_cache_read_pct",
}
_NAME = re.compile(r"^(?P<name>.*?)(?: \((?P<unit>[^()]*)\))?$")
NOTE = "values are rounded to two decimals; the load is not in this file: give the JSON beside it, or the folder"


def recognises(header: Sequence[str]) -> bool:
    """Say whether a first row is this table's."""
    return header[:2] in (["Metric", "avg"], ["Metric", "Value"])


def read(file: Path, rows: Sequence[tuple[int, list[str]]]) -> MeasuredRun:
    """Return a table as a load point."""
    header: list[str] = []
    found: dict[str, dict[str, str | float]] = {}
    for number, row in rows:
        if row[0] == "Metric":
            header = ["avg" if name == "Value" else name for name in row]
            continue
        if header[:1] != ["Metric"] or row[0] == "Endpoint":
            break  # a table of GPUs follows
        if len(row) < len(header):
            raise MeasurementError(f"{file}: line {number}: {len(row)} cells, where {len(header)} are expected")
        match = _NAME.match(row[0].strip())
        key = _NAMES.get(match["name"].lower()) if match else None
        if match is None or key is None:
            continue
        values = {name: _number(file, number, text) for name, text in zip(header[1:], row[1:], strict=False) if text}
        found[key] = {"unit": match["unit"] or "", **values}
    if not found:
        raise MeasurementError(f"{file}: its table names no metric of AIPerf")
    run = aiperf_summary.read(file, "", found)
    load = MeasuredLoad(requests=run.completed)
    return replace(run, format=NAME, tool="AIPerf", load=load, notes=(*run.notes, NOTE))


def _number(file: Path, line: int, text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise MeasurementError(f"{file}: line {line}: {text[:40]!r} is not a number") from None
