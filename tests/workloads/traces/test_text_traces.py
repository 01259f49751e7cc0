"""Prompts known by their text: LMCache's rows, sorted by time, and how far two of them agree."""

import gzip
import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_requests import SAMPLES, needs_samples, opened, read

from workloads.errors import WorkloadError
from workloads.traces.request import BlockIds, TraceRequest
from workloads.traces.text_blocks import text_blocks

LMCACHE = SAMPLES / "lmcache_agent_trace"


def row(at_us: float, text: str, output: str = "fine", session: str | None = "a") -> dict[str, Any]:
    """Return a row as LMCache writes it."""
    return {"timestamp": at_us, "input": text, "output": output, "session_id": session}


def write(path: Path, *rows: object) -> Path:
    """Write rows, or lines as they are."""
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in rows))
    return path


def agreeing(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how far two agree from the front on."""
    apart = (place for place, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs)
    return next(apart, min(len(one), len(other)))


def ids(request: TraceRequest) -> list[object]:
    """Return the ids of a request's blocks."""
    assert isinstance(request.content, BlockIds)
    return list(request.content.ids)


def hit_tokens(requests: list[TraceRequest], block_tokens: int = 16) -> int:
    """Return the tokens of blocks an earlier prompt began with: an infinite cache, from cold."""
    seen: set[object] = set()
    tokens = 0
    for request in requests:
        known = next((place for place, one in enumerate(ids(request)) if one not in seen), len(ids(request)))
        tokens += min(known * block_tokens, request.prompt_tokens)
        seen.update(ids(request))
    return tokens


@needs_samples
@pytest.mark.parametrize("name", ["miniswe", "taubench"])
def test_samples_are_read_in_order_of_time(name: str) -> None:
    """Every row once, a quarter of a token a character, gaps from row to row."""
    (path,) = (LMCACHE / name).glob("*.jsonl")
    rows = sorted((json.loads(line) for line in path.read_text().splitlines()), key=lambda one: one["timestamp"])
    requests = read(path)
    assert [one.prompt_tokens for one in requests] == [math.ceil(len(one["input"]) / 4) for one in rows]
    assert [one.output_tokens for one in requests] == [max(math.ceil(len(one["output"]) / 4), 1) for one in rows]
    assert [one.at_s for one in requests] == [one["timestamp"] / 1e6 for one in rows]
    gaps = [(after["timestamp"] - before["timestamp"]) / 1e6 for before, after in pairwise(rows)]
    assert [one.gap_s for one in requests[1:]] == pytest.approx(gaps, abs=1e-6)
    assert {one.session for one in requests} == {rows[0]["session_id"]}
    trace = opened(path, limit=1)
    assert len(list(trace)) == 1
    assert "tokens are estimated: 0.25 a character" in trace.notes


@needs_samples
@pytest.mark.parametrize(("name", "block_tokens"), [("miniswe", 16), ("taubench", 16), ("miniswe", 1)])
def test_hits_are_those_of_the_texts(name: str, block_tokens: int) -> None:
    """Whole blocks of the longest common beginning with any earlier text, by comparing characters."""
    (path,) = (LMCACHE / name).glob("*.jsonl")
    rows = sorted((json.loads(line) for line in path.read_text().splitlines()), key=lambda one: one["timestamp"])
    texts = [one["input"] for one in rows]
    tokens = 0
    for place, text in enumerate(texts):
        common = max((agreeing(text, before) for before in texts[:place]), default=0)
        whole = text in texts[:place]
        tokens += math.ceil(len(text) / 4) if whole else common // (4 * block_tokens) * block_tokens
    assert hit_tokens(read(path, block_tokens=block_tokens), block_tokens) == tokens


@needs_samples
def test_a_folder_of_sessions_is_one_trace(tmp_path: Path) -> None:
    """One file a session, on one clock: sorted over all of them, each row with its file."""
    for name in ("miniswe", "taubench"):
        (path,) = (LMCACHE / name).glob("*.jsonl")
        (tmp_path / f"{name}.jsonl").write_bytes(path.read_bytes())
    (tmp_path / "README.md").write_text("about")
    requests = read(tmp_path)
    assert len(requests) == 13 + 43
    assert {one.file for one in requests} == {"miniswe.jsonl", "taubench.jsonl"}
    times = [one.at_s or 0.0 for one in requests]
    assert times == sorted(times)


def test_sessions_interleave(tmp_path: Path) -> None:
    """Gaps are the session's own; equal times keep the file's order."""
    path = write(
        tmp_path / "a.jsonl", row(9e6, "x"), row(1e6, "y", session="b"), row(1e6, "z"), row(4e6, "w", "", None)
    )
    requests = read(path)
    assert [(one.row, one.session, one.gap_s) for one in requests] == [
        (2, "b", None),
        (3, "a", None),
        (4, None, None),
        (1, "a", 8.0),
    ]


@pytest.mark.parametrize("packed", [False, True])
def test_a_first_row_may_be_longer_than_a_head(tmp_path: Path, *, packed: bool) -> None:
    """Prompts of agents are; and archives, which cannot be sought in, are sorted as well."""
    path = write(tmp_path / "a.jsonl", row(2e6, "long " * 100_000), row(1e6, "short"))
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert [one.prompt_tokens for one in read(path)] == [2, 125_000]


def test_the_users_estimate_counts(tmp_path: Path) -> None:
    """Other tokenizers, other languages."""
    path = write(tmp_path / "a.jsonl", row(1e6, "x" * 100, "y" * 10))
    assert read(path, tokens_per_character=0.5)[0][1:3] == (50, 5)
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(WorkloadError, match="tokens_per_character"):
            read(path, tokens_per_character=wrong)


@settings(max_examples=60)
@given(st.text(max_size=300), st.text(max_size=150), st.text(max_size=150), st.sampled_from([0.25, 0.5, 1.0]))
def test_ids_agree_exactly_as_far_as_whole_blocks_of_text(front: str, one: str, other: str, rate: float) -> None:
    """And never further, whatever the characters."""
    first, second = front + one, front + other
    mine, theirs = list(text_blocks(first, rate, 4).ids), list(text_blocks(second, rate, 4).ids)
    whole = len(mine) if first == second else int(agreeing(first, second) * rate) // 4
    assert agreeing(mine, theirs) == whole


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"timestamp": 1, "input": "x", "outp', ":2: no JSON, or cut short"),
        (json.dumps({"timestamp": -1, "input": "x"}), ":2: timestamp: expected float >= 0.0"),
        (json.dumps({"timestamp": None, "input": "x"}), ":2: timestamp: expected float, got null"),
        (json.dumps({"timestamp": 1, "input": None}), ":2: input: expected str, got null"),
        (json.dumps({"timestamp": 1}), ":2: key missing: input"),
        ('{"timestamp": NaN, "input": "x"}', ":2: no JSON"),
        ('{"timestamp": 1, "input": ' + "[" * 100_000, ":2: "),
    ],
)
def test_bad_rows_are_named_or_counted(tmp_path: Path, line: str, message: str) -> None:
    """The rows beside them are good."""
    path = write(tmp_path / "a.jsonl", row(5e6, "x"), line, row(3e6, "y"))
    with pytest.raises(WorkloadError) as raised:
        read(path)
    assert f"{path}{message}" in str(raised.value)
    trace = opened(path, skip_bad_rows=True)
    assert len(list(trace)) == 2
    assert trace.bad_rows == 1


def test_an_empty_prompt_is_one_token(tmp_path: Path) -> None:
    """A published trace has some: what was sent was no text."""
    trace = opened(write(tmp_path / "a.jsonl", row(1e6, ""), row(2e6, "x" * 8)))
    assert [one.prompt_tokens for one in trace] == [1, 2]
    assert any("empty prompts" in note for note in trace.notes)
