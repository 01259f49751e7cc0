"""Writes a sweep's files: a row a point as CSV, everything as JSON, p99 TTFT of all combinations as one chart."""

import json
from collections.abc import Sequence
from pathlib import Path

from sim.errors import ScenarioError
from sim.report.atomic import replacing
from sim.report.csv_files import write_csv
from sim.report.figure_files import remove_figure, save_figure
from sim.report.sweep_chart import sweep_chart
from sim.report.sweep_rows import Swept, point_rows, sweep_json


def write_sweep(swept: Sequence[Swept], out: Path) -> list[Path]:
    """Write into a folder and return what was written; raises ScenarioError if it cannot be."""
    try:
        written = [write_csv(out / "sweep.csv", point_rows(swept)), out / "sweep.json"]
        with replacing(out / "sweep.json") as path:
            path.write_text(json.dumps(sweep_json(swept), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        chart = sweep_chart(swept)
        if chart is None:
            remove_figure(out / "sweep")  # of another sweep
        else:
            written += save_figure(chart, out / "sweep")
    except OSError as error:
        raise ScenarioError(f"{out}: cannot be written: {error.strerror}") from None
    return written
