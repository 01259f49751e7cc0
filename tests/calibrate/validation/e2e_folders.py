"""Tiny made-up folders of end-to-end measurements, in the layout of the public ones."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROW = {
    "experiment_id": "toy_a",
    "gpu": "H100-80GB-SXM",
    "num_gpus": "1",
    "model": "Qwen/Qwen3-0.6B",
    "weight_dtype": "bfloat16",
    "kv_cache_dtype": "auto (bfloat16)",
    "engine": "vLLM",
    "engine_version": "0.23.0",
    "tensor_parallel": "1",
    "max_num_seqs": "64",
    "max_num_batched_tokens": "2048",
    "max_model_len": "4096",
    "prefix_caching": "on",
    "kv_cache_tokens": "40000",
    "input_tokens_mean": "200",
    "output_tokens_mean": "20",
    "arrival": "open loop Poisson 2 req/s for 20 s",
    "client": "a script",
    "notes": "",
}
POINT = {"experiment_id": "toy_a", "load_kind": "request_rate_rps", "load_value": "2", "requests": "40"}


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as CSV; the first row's columns are the file's."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)


def folder(path: Path, experiments: Sequence[Mapping[str, object]], points: Sequence[Mapping[str, object]]) -> Path:
    """Write a folder whose rows are ROW and POINT with changes."""
    path.mkdir(exist_ok=True)
    write(path / "e2e_experiments.csv", [ROW | row for row in experiments])
    write(path / "e2e_points.csv", [POINT | row for row in points])
    return path


def engine_clock_rows(
    count: int, *, every_s: float = 0.5, ttft_s: float = 0.02, output: int = 20
) -> list[dict[str, object]]:
    """Return per-request rows stamped on the engine's clock."""
    return [
        {
            "input_tokens": 200,
            "output_tokens": output,
            "arrival_s": every_s * i,
            "queued_s": every_s * i,
            "scheduled_s": every_s * i,
            "first_token_s": every_s * i + ttft_s,
            "last_token_s": every_s * i + ttft_s + 0.005 * (output - 1),
        }
        for i in range(count)
    ]
