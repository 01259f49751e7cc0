"""Load points as one table: the same columns for the terminal, CSV and JSON."""

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

from calibrate.measured.run import METRICS, RATES, SERVER, STATISTICS, MeasuredLoad, MeasuredRun

SPREADS = tuple(f"{metric}_{statistic}_s" for metric in METRICS for statistic in STATISTICS)
COLUMNS = (
    "file", "place", "format", "tool", "model", "concurrency", "rate_per_s", "burstiness", "requests", "sessions",
    "duration_s", "completed", "failed", "input_tokens_mean", "output_tokens_mean", *RATES, *SPREADS, *SERVER,
)  # fmt: skip


def row_of(run: MeasuredRun) -> dict[str, Any]:
    """Return a load point by column; None is what the result does not say."""
    load = run.load
    return {
        "file": str(run.file),
        "place": run.place,
        "format": run.format,
        "tool": run.tool,
        "model": run.model,
        "concurrency": load.concurrency,
        "rate_per_s": load.rate_per_s,
        "burstiness": load.burstiness,
        "requests": load.requests,
        "sessions": load.sessions,
        "duration_s": run.duration_s,
        "completed": run.completed,
        "failed": run.failed,
        "input_tokens_mean": run.input_tokens_mean,
        "output_tokens_mean": run.output_tokens_mean,
        **{name: run.metrics.get(name) for name in (*RATES, *SPREADS, *SERVER)},
    }


def load_text(load: MeasuredLoad) -> str:
    """Return the load in few words: `8 at once`, `10/s`, `10/s ≤440`."""
    said = []
    if load.rate_per_s is not None and math.isfinite(load.rate_per_s):
        said.append(f"{load.rate_per_s:g}/s")
    if load.concurrency is not None:
        said.append(f"≤{load.concurrency:,}" if said else f"{load.concurrency:,} at once")
    elif load.rate_per_s is not None and not said:
        said.append("all at once")
    return " ".join(said) or "not stated"


def as_csv(runs: Sequence[MeasuredRun]) -> str:
    """Return the table as CSV; an empty cell is what a result does not say."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row_of(run) for run in runs)
    return text.getvalue()


def as_json(runs: Sequence[MeasuredRun]) -> list[dict[str, Any]]:
    """Return the load points in plain types; infinite rates are the text `inf`."""
    return [
        {key: "inf" if one == math.inf else one for key, one in row_of(run).items()}
        | {
            "detailed_requests": len(run.requests),
            "notes": list(run.notes),
            "settings": dict(run.settings),
            "buckets": {
                name: [["inf" if bound == math.inf else bound, count] for bound, count in pairs]
                for name, pairs in run.buckets.items()
            },
            "server_samples": len(run.series),
        }
        for run in runs
    ]
