"""GuideLLM's CSV: three header rows (group, name, statistic), one row a benchmark, percentiles as a list in a cell."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from calibrate.measured.fields import Fields
from calibrate.measured.guidellm import END_NOTE, ORDER_NOTE, TPOT_NOTE, load_of
from calibrate.measured.run import MeasuredRun
from calibrate.measured.statistics import rates_of
from sim.errors import MeasurementError

NAME = "guidellm-csv"
METRICS = {
    "ttft": ("Time to First Token", 1e-3),
    "tpot": ("Inter Token Latency", 1e-3),
    "e2e": ("Request Latency", 1.0),
}
ORDER = ("p001", "p01", "p05", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999")


def recognises(header: Sequence[str]) -> bool:
    """Say whether a first row is this table's."""
    return header[:1] == ["Run Info"] or ("Benchmark" in header and "Request Latency" in header)


def read(file: Path, rows: Sequence[tuple[int, list[str]]]) -> list[MeasuredRun]:
    """Return each row as a load point."""
    if len(rows) < 4:
        raise MeasurementError(f"{file}: three rows of headers and no benchmark below them")
    heads = [row for _, row in rows[:3]]
    width = max(len(head) for head in heads)
    groups, names, statistics = (head + [""] * (width - len(head)) for head in heads)
    columns = list(zip(groups, names, statistics, strict=True))
    for number, row in rows[3:]:
        if len(row) < width:
            raise MeasurementError(f"{file}: line {number}: {len(row)} cells, where {width} are expected: cut short?")
    return [_run(file, number, _Row(file, number, columns, row)) for number, row in rows[3:]]


class _Row:
    """Cells of one row by group, part of the name, and statistic."""

    def __init__(self, file: Path, number: int, columns: Sequence[tuple[str, str, str]], cells: list[str]) -> None:
        self.file, self.number = file, number
        self._cells = list(zip(columns, cells, strict=False))

    def text(self, group: str, name: str, statistic: str = "") -> str | None:
        for (a, b, c), cell in self._cells:
            if a == group and name in b and (not statistic or c == statistic) and cell:
                return cell
        return None

    def number_of(self, group: str, name: str, statistic: str = "") -> float | None:
        text = self.text(group, name, statistic)
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            raise MeasurementError(f"{self.file}: line {self.number}: {group} {text[:40]!r} is not a number") from None
        return value if math.isfinite(value) else None


def _run(file: Path, number: int, row: _Row) -> MeasuredRun:
    place = f"line {number}"
    strategy = row.text("Benchmark", "Strategy") or ""
    completed = _whole(row.number_of("Request Counts", "Successful"))
    inputs, outputs = (
        row.number_of("Token Metrics", f"Successful {kind} Tokens", "Mean") for kind in ("Input", "Output")
    )
    duration_s = row.number_of("Timings", "Duration")
    totals = [None if mean is None or not completed else mean * completed for mean in (inputs, outputs)]
    return MeasuredRun(
        file=file,
        format=NAME,
        place=place,
        tool="GuideLLM",
        model=_model(row.text("Run Info", "Backend")),
        load=load_of(_strategy(file, place, strategy), completed, sessions=False),
        duration_s=duration_s,
        completed=completed,
        failed=_whole(row.number_of("Request Counts", "Errored")),
        input_tokens_mean=inputs if completed else None,
        output_tokens_mean=outputs if completed else None,
        metrics=(_spreads(row) | rates_of(duration_s, completed, *totals)) if completed else {},
        notes=(TPOT_NOTE, ORDER_NOTE, END_NOTE),
        settings={"strategy": strategy},
    )


def _spreads(row: _Row) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric, (group, unit_s) in METRICS.items():
        for statistic, name in {"mean": "Mean", "std": "Std Dev", "p50": "Median"}.items():
            if (value := row.number_of(group, "Successful", name)) is not None:
                found[f"{metric}_{statistic}_s"] = value * unit_s
        for name, value in _percentiles(row, group).items():
            found[f"{metric}_{name}_s"] = value * unit_s
    if "tpot_mean_s" in found:
        found["itl_mean_s"] = found["tpot_mean_s"]
    return found


def _percentiles(row: _Row, group: str) -> dict[str, float]:
    text = row.text(group, "Successful", "Percentiles")
    if text is None:
        return {}
    try:
        values = json.loads(text)
        pairs = dict(zip(ORDER, map(float, values), strict=True))
    except (ValueError, TypeError, RecursionError):
        raise MeasurementError(
            f"{row.file}: line {row.number}: percentiles of {group} {text[:40]!r} are no list of 11"
        ) from None
    return {name: pairs[name] for name in ("p75", "p90", "p95", "p99")}


def _strategy(file: Path, place: str, text: str) -> Fields:
    """Return `concurrent@2`, `constant@3.5` and their like as a strategy."""
    kind, _, amount = text.partition("@")
    try:
        number = float(amount)
    except ValueError:
        return Fields(file, place, {"type_": kind})
    if kind in {"concurrent", "throughput"}:
        return Fields(file, place, {"type_": kind, "streams": int(number)})
    return Fields(file, place, {"type_": kind, "rate": number})


def _model(backend: str | None) -> str | None:
    try:
        settings = json.loads(backend or "{}")
    except (ValueError, RecursionError):
        return None
    model = settings.get("model") if isinstance(settings, dict) else None
    return model if isinstance(model, str) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
