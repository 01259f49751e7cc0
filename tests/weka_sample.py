"""Recorded Claude Code sessions of the shared sample as requests, read without the project's readers."""

import json
from collections.abc import Iterator
from pathlib import Path

from workloads.traces.request import HUMAN, TOOL, BlockIds, TraceRequest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces" / "weka_cc"


def weka_requests(folder: Path = FOLDER) -> Iterator[TraceRequest]:
    """Yield the requests of main agents, file by file."""
    for path in sorted(folder.glob("trace_*.json")):
        session = json.loads(path.read_text())
        shared = session["tool_tokens"] + session["system_tokens"]
        row = 0
        for one in session["requests"]:
            if one["type"] == "subagent":
                continue
            row += 1
            yield TraceRequest(
                row,
                one["in"],
                max(one["out"], 1),
                one["t"],
                session["id"],
                BlockIds(one["hash_ids"], session["block_size"], session["id"]),
                gap_s=one.get("think_time"),
                api_s=one.get("api_time"),
                driver=TOOL if "tool_result" in one.get("input_types", ()) else HUMAN,
                shared_tokens=shared,
            )
