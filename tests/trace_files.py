"""Trace files for tests: the shared samples, and files made of rows."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from workloads.errors import WorkloadError
from workloads.traces.open import open_trace
from workloads.traces.reading import ReadOptions
from workloads.traces.request import TraceRequest

SAMPLES = Path(__file__).parents[2] / "shared" / "data" / "traces"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="shared/data/traces is not beside the checkout")


def write_rows(path: Path, rows: Iterable[Any]) -> Path:
    """Write JSON Lines; text and bytes are written as they are."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def requests_of(path: Path, **options: Any) -> list[TraceRequest]:
    """Return all requests of a trace."""
    return list(open_trace(path, ReadOptions(**options)))


def notes_of(path: Path, **options: Any) -> str:
    """Return what was noted while all of a trace was read, in one text."""
    trace = open_trace(path, ReadOptions(**options))
    for _ in trace:
        pass
    return "; ".join(trace.notes)


def refusal_of(path: Path, **options: Any) -> str:
    """Return the one line with which a trace is refused."""
    with pytest.raises(WorkloadError) as raised:
        requests_of(path, **options)
    message = str(raised.value)
    assert "\n" not in message
    assert len(message) < len(str(path)) + 300
    return message


def by_session(requests: Iterable[TraceRequest]) -> dict[str | None, list[TraceRequest]]:
    """Return requests by session, in order."""
    sessions = defaultdict(list)
    for request in requests:
        sessions[request.session].append(request)
    return dict(sessions)
