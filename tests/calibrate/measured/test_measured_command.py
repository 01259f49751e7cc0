"""`kvcliff measured`: table, notes, JSON, CSV, and one clear line on errors."""

import csv
import json
from pathlib import Path

from click.testing import CliRunner

from calibrate.measured.table import COLUMNS
from sim.cli import main

RESULT = {
    "model_id": "m", "num_prompts": 2, "request_rate": 2.5, "max_concurrency": 4, "duration": 2.0, "completed": 2,
    "failed": 1, "total_input_tokens": 20, "total_output_tokens": 8, "request_throughput": 1.0,
    "output_throughput": 4.0, "total_token_throughput": 14.0, "mean_ttft_ms": 15.0, "p99_ttft_ms": 1500.0,
    "median_e2el_ms": 12.5,
}  # fmt: skip


def _file(folder: Path) -> Path:
    path = folder / "r.json"
    path.write_text("\n".join(json.dumps(RESULT | {"max_concurrency": most}) for most in (4, 8)))
    return path


def test_table(tmp_path: Path) -> None:
    """One row a load point, a star where only the mean is known, the file below."""
    result = CliRunner().invoke(main, ["measured", str(_file(tmp_path))])
    assert result.exit_code == 0, result.output
    assert "2 load points" in result.output
    assert "2.5/s ≤8" in result.output
    assert "1,500" in result.output
    assert "15*" in result.output
    assert str(tmp_path / "r.json") in result.output


def test_json_and_csv(tmp_path: Path) -> None:
    """Strict JSON with every column; the CSV has the same."""
    out = tmp_path / "t.csv"
    result = CliRunner().invoke(main, ["measured", str(_file(tmp_path)), "--json", "--csv", str(out)])
    points = json.loads(result.output)["load_points"]
    assert [point["concurrency"] for point in points] == [4, 8]
    assert points[0]["ttft_p99_s"] == 1.5
    assert points[0]["ttft_p50_s"] is None
    assert "NaN" not in result.output
    assert "Infinity" not in result.output
    assert set(COLUMNS) <= set(points[0])
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["concurrency"] for row in rows] == ["4", "8"]
    assert rows[0]["ttft_p50_s"] == ""


def test_errors_are_one_line(tmp_path: Path) -> None:
    """Exit code 2, no traceback."""
    result = CliRunner().invoke(main, ["measured", str(tmp_path / "none.json")])
    assert result.exit_code == 2
    assert "No such file" in result.output
    result = CliRunner().invoke(main, ["measured", str(_file(tmp_path)), "--csv", str(tmp_path)])
    assert result.exit_code == 2
    assert "directory" in result.output
