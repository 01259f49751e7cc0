"""Files of every format here with bytes changed, dropped and put in: read, or refused in one line."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workloads.errors import WorkloadError
from workloads.traces.open import open_trace
from workloads.traces.reading import ReadOptions

_CALL = {"timestamp": 1, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
_EVENT = {"event_type": "user_message", "timestamp": "2026-01-01T10:00:00Z"}
_REQUEST = {"t": 0.5, "in": 130, "out": 5, "hash_ids": [1, 2], "input_types": ["text"], "think_time": 1}
_AGENT = {"type": "subagent", "requests": [_REQUEST, _REQUEST]}
_ROUND = {"session_id": "a", "prefix_tokens": 5, "newly_append_tokens": 6, "timing_events": [_EVENT]}


def _lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


FILES = {
    "mooncake": _lines(_CALL, _CALL),
    "agentic-rows": _lines({**_CALL, "session_id": "a"}, {**_CALL, "session_id": "a", "delay": 5}),
    "bailian": _lines({**_CALL, "chat_id": 1, "parent_chat_id": -1}, {**_CALL, "chat_id": 2, "parent_chat_id": 1}),
    "weka": _lines({"id": "a", "block_size": 64, "tool_tokens": 9, "requests": [_REQUEST, _AGENT, _REQUEST]}),
    "tracelab-csv": b"session_id,arrival_time,round_idx,prefix_len,input_len,output_len\na,1,0,5,6,7\na,1,1,18,2,3\n",
    "tracelab-jsonl": _lines(_ROUND, {**_ROUND, "output_tokens": 4}),
}
_PIECES = [
    b"0",
    b"-",
    b"9" * 30,
    b"1e308",
    b"null",
    b'"',
    b"[",
    b"{",
    b"}",
    b",",
    b"\n",
    b"\0",
    b"\xff",
    b"NaN",
    b"_",
    b"",
]


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), st.sampled_from(_PIECES)), max_size=4))
def test_a_changed_file_is_read_or_refused(tmp_path: Path, name: str, changes: list[tuple[float, int, bytes]]) -> None:
    """Whether its format is told or recognised, and its bad rows skipped or not."""
    content = FILES[name]
    for share, dropped, piece in changes:
        place = int(share * len(content))
        content = content[:place] + piece + content[place + dropped :]
    path = tmp_path / "a"
    path.write_bytes(content)
    for options in (ReadOptions(), ReadOptions(format=name), ReadOptions(format=name, skip_bad_rows=True)):
        refusal = ""
        try:
            requests = list(open_trace(path, options))
        except WorkloadError as error:
            requests, refusal = [], str(error)
        assert refusal.startswith(str(path)) != bool(requests)
        assert "\n" not in refusal
        assert all(one.prompt_tokens >= 1 <= one.output_tokens for one in requests)
        assert changes or len(requests) == (4 if name == "weka" else 2)
