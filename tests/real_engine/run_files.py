"""A driven run as the files that `kvcliff validate cliff` reads."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from calibrate.validation.cliff_workload import Workload


def write_run(
    stem: Path,
    workload: Workload,
    records: tuple[list[Any], list[Any]],
    engine: Mapping[str, Any],
    versions: Mapping[str, str],
) -> None:
    """Write requests and steps, the workload, and a summary with the engine's settings beside one another."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    for what, rows in zip(("requests", "steps"), records, strict=True):
        lines = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        Path(f"{stem}.{what}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    Path(f"{stem}.workload.json.gz").write_bytes(gzip.compress(msgspec.json.encode(workload), mtime=0))
    complete = all("finish" in request for request in records[0])
    summary = {**versions, "clock": "cpu", "complete": complete, "engine": dict(engine)}
    Path(f"{stem}.summary.json").write_text(json.dumps(summary, indent=1))
