import csv
from pathlib import Path
from typing import Any

import pytest

PUBLISHED = """sessions,ttft_p50_s,ttft_p95_s,ttft_p99_s,requests_per_s
1,0.388,0.487,0.493,0.42
6,1.06,1.43,1.75,1.18
10,1.19,1.89,2.31,1.33
12,1.25,2.16,2.60,1.36
14,1.29,8.93,38.9,1.05
20,2.25,25.5,44.8,0.68
48,5.74,40.5,43.2,0.89
"""


@pytest.fixture
def published() -> list[dict[str, Any]]:
    """Return the published fp8 sweep."""
    rows = csv.DictReader(PUBLISHED.splitlines())
    return [{**{key: float(value) for key, value in row.items()}, "sessions": int(row["sessions"])} for row in rows]


@pytest.fixture
def points(published: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a simulated sweep: 10 % over the published one, with intervals and all else a point has."""
    return [_point(row) for row in published]


def _point(row: dict[str, Any]) -> dict[str, Any]:
    point = {"sessions": row["sessions"], "requests": 200, "refused": 0, "unfinished": 0}
    for key, value in row.items():
        if key != "sessions":
            point |= {key: value * 1.1, f"{key}_low": value * 1.0, f"{key}_high": value * 1.2}
    return point | {
        "output_tokens_per_s": 75 * row["requests_per_s"],
        "prefix_hit_rate": 0.93,
        "preemptions": 3 * row["sessions"],
        "reprefilled_tokens": 12_800 * row["sessions"],
        "kv_usage_peak": 0.5,
    }


@pytest.fixture
def left(tmp_path: Path) -> Any:
    """Return a function that lists the names of everything in the test's folder."""
    return lambda: sorted(path.name for path in tmp_path.rglob("*"))
