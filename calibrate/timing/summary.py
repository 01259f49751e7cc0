"""What a calibration came to: for people a line an operation, for machines one object."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calibrate.timing.layer_shape import LayerShape
from calibrate.timing.outcome import Outcome, Skipped
from calibrate.timing.points import FIELDS, Point
from calibrate.timing.work import work
from sim.units import GB, TERA, gib, seconds

if TYPE_CHECKING:
    from rich.table import Table

_COUNTS = FIELDS[FIELDS.index("tokens") :]


def point_of(row: Mapping[str, str]) -> Point:
    """Return the point a row of the file belongs to."""
    texts = {name: row.get(name, "") for name in FIELDS if name not in _COUNTS}
    if row["operation"] != "launch":
        texts["graph"] = ""
    counts = {name: round(float(row[name])) for name in _COUNTS if row.get(name)}
    values: dict[str, Any] = {**texts, **counts}
    return Point(**values)


def as_json(outcome: Outcome, rows: Sequence[Mapping[str, str]], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outcome in plain types. `rows` are all of the file, `facts` go in as they are."""
    skipped = [{"point": str(one.point), "reason": one.reason} for one in outcome.skipped]
    counts = {"rows": len(rows), "rows_added": len(outcome.rows), "points_left": outcome.left}
    return {**facts, **counts, "skipped": skipped}


def operations_table(rows: Sequence[Mapping[str, str]], shape: LayerShape, dtype: str) -> "Table":
    """Return one line a kind of operation: how many rows, their range, the best rates reached."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("operation", no_wrap=True)
    for name in ("rows", "shortest", "longest", "GB/s", "TFLOP/s"):
        table.add_column(name, justify="right")
    groups: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for row in rows:
        kind = (row["operation"], row["weight_dtype"], row["kv_cache_dtype"], row["label"])
        groups.setdefault(kind, []).append(row)
    for key in sorted(groups):
        table.add_row(*_line(key, groups[key], shape, dtype))
    return table


def _line(kind: tuple[str, ...], rows: Sequence[Mapping[str, str]], shape: LayerShape, dtype: str) -> list[str]:
    name = " ".join(part for part in kind if part and part != "measured")
    if kind[0] == "peak_memory":
        return [name, str(len(rows)), gib(max(float(row["memory_bytes"]) for row in rows)), "", "", ""]
    times = [float(row["time_s"]) for row in rows]
    works = [work(point_of(row), shape, dtype) for row in rows]
    read = max(one.read_bytes / time_s for one, time_s in zip(works, times, strict=True)) / GB
    flops = max(one.flops / time_s for one, time_s in zip(works, times, strict=True)) / TERA
    rates = [f"{rate:.3g}" if rate > 0 else "" for rate in (read, flops)]
    return [name, str(len(rows)), seconds(min(times)), seconds(max(times)), *rates]


def skipped_lines(skipped: Sequence[Skipped]) -> list[str]:
    """Return one line a reason and kind of point, with the first such point."""
    kinds = Counter((_reason(one), one.point.operation) for one in skipped)
    lines: list[str] = []
    for (reason, operation), count in kinds.items():
        first = next(one for one in skipped if (_reason(one), one.point.operation) == (reason, operation))
        more = f" and {count - 1} more like it" if count > 1 else ""
        lines.append(f"skipped {first.point}{more}: {first.reason}")
    return lines


def _reason(one: Skipped) -> str:
    """Return the reason without its figures."""
    return " ".join(word for word in one.reason.split() if not any(letter.isdigit() for letter in word))
