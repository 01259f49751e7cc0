"""Tables, texts, spans and descriptions with bytes changed, dropped and put in: read, or refused in one line."""

import json
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trace_requests import opened

from workloads.errors import WorkloadError

_SPAN = {
    "trace_id": "t",
    "span_id": "s",
    "start_time": "2026-02-25T10:00:00.5",
    "end_time": "2026-02-25T10:00:01",
    "attributes": {"gen_ai.usage.input_tokens": 9, "gen_ai.input.messages": '[{"role": "user", "content": "x"}]'},
}
_TEN = {"distribution": "constant", "value": 10}
_STATISTICS = {"min": 1, "max": 90, "mean": 20, "standard_deviation": 9, "distribution_type": "log_normal"}
_CLIENT = """
clients:
- rate_fraction: 1
  arrival: {process: gamma, cv: 2}
  prefix_group: p
  input_distribution: {type: gaussian, params: {mean: 90, std_dev: 9, min: 1, max: 99}}
  output_distribution: {type: exponential, params: {mean: 9}}
  reasoning: {multi_turn: {max_rounds: 3, think_time_us: 5, context_growth: accumulate}}
"""
_TURNS = {"num_turns": _TEN, "num_tokens": _TEN, "prefix_num_tokens": _TEN}
FILES = {
    "azure": (
        "a.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.1+00:00,5,6\n2024-05-10 00:00:01,5,6\n",
    ),
    "burstgpt": (
        "a.csv",
        "Timestamp,Session ID,Elapsed time,Request tokens,Response tokens\n1,7,2,5,6\n9,7,2,5,6\n",
    ),
    "vidur": ("a.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,10,5\n1,10,5\n"),
    "lmcache": ("a.jsonl", '{"timestamp": 9e6, "input": "some text", "output": "x", "session_id": "a"}\n' * 2),
    "otel": ("a.json", json.dumps({"spans": [_SPAN, _SPAN]})),
    "vllm-multi-turn": (
        "a.json",
        json.dumps(
            {
                "filetype": "generate_conversations",
                "num_conversations": 2,
                "prompt_input": _TURNS,
                "prompt_output": {"num_tokens": _TEN},
            }
        ),
    ),
    "conversation-replay": (
        "a.yaml",
        "data:\n  conversation_replay:\n    num_conversations: 2\n    turns_per_conversation: {type: poisson}\n",
    ),
    "shared-prefix": ("a.yaml", "data:\n  shared_prefix: {num_groups: 2, question_len: {type: lognormal, mean: 50}}\n"),
    "workload-catalog": (
        "a.json",
        json.dumps({"input_sequence_length": _STATISTICS, "output_sequence_length": _STATISTICS}),
    ),
    "blis": ("a.yaml", f"version: '2'\naggregate_rate: 5\nnum_requests: 30\n{_CLIENT}"),
    "blis-trace": (
        "a.csv",
        "arrival_time_us,session_id,round_index,input_tokens,output_tokens\n1,a,0,5,6\n9,a,1,5,6\n",
    ),
}
_PIECES = [
    "0",
    "-",
    "9" * 30,
    "1e308",
    "null",
    '"',
    "[",
    "{",
    "}",
    ",",
    "\n",
    "\0",
    "\udcff",
    "NaN",
    ".inf",
    "*a",
    "&a ",
    ": ",
    "",
]


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), st.sampled_from(_PIECES)), max_size=4))
def test_a_changed_file_is_read_or_refused(tmp_path: Path, name: str, changes: list[tuple[float, int, str]]) -> None:
    """Whether its format is told or recognised, and its bad rows skipped or not."""
    file, content = FILES[name]
    for share, dropped, piece in changes:
        place = int(share * len(content))
        content = content[:place] + piece + content[place + dropped :]
    path = tmp_path / file
    path.write_bytes(content.encode(errors="surrogateescape"))
    for told, skips in ((None, False), (name, False), (name, True)):
        refusal = ""
        try:
            requests = list(islice(opened(path, format=told, skip_bad_rows=skips), 500))
        except WorkloadError as error:
            requests, refusal = [], str(error)
        assert refusal.startswith(str(path)) != bool(requests)
        assert "\n" not in refusal
        assert all(one.prompt_tokens >= 1 <= one.output_tokens for one in requests)
        assert changes or len(requests) >= 2
