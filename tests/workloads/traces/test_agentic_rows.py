"""Multi-turn rows: what a later row holds, which of the two readings was taken, and what prompts share."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.trace_files import SAMPLES, by_session, needs_samples, notes_of, refusal_of, requests_of, write_rows
from workloads.errors import WorkloadError
from workloads.span import Span, total_tokens
from workloads.traces.open import open_trace

SAMPLE = SAMPLES / "aiperf_agentic_code" / "dataset_40_sessions_seed42.jsonl"


def row(session: str, tokens: int, ids: list[int] | None, output: int = 10, **more: Any) -> dict[str, Any]:
    """Return a row."""
    return {"session_id": session, "input_length": tokens, "output_length": output, "hash_ids": ids, **more}


@needs_samples
def test_the_sample_is_read_as_deltas() -> None:
    """Prompts are sums of what rows add and of answers, counted here row by row from the file itself."""
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    context: dict[str, int] = {}
    expected = []
    for one in rows:
        prompt = context.get(one["session_id"], 0) + one["input_length"]
        context[one["session_id"]] = prompt + one["output_length"]
        expected.append((one["session_id"], prompt, one["output_length"]))
    requests = requests_of(SAMPLE)
    assert [(one.session, one.prompt_tokens, one.output_tokens) for one in requests] == expected
    assert (len(requests), len(by_session(requests))) == (501, 41)
    assert all(total_tokens(one.content or ()) == one.prompt_tokens for one in requests)  # type: ignore[arg-type]
    assert "as what is new" in notes_of(SAMPLE)
    assert [one.gap_s for one in requests[:3]] == [None, pytest.approx(12.1901), pytest.approx(7.5448)]
    assert [one.at_s for one in requests[:2]] == [0.0, None]


@needs_samples
def test_the_sample_has_the_shape_it_was_made_with() -> None:
    """Medians as measured elsewhere: 12 turns, 46k tokens at first, 116k at last, 1.8 s between them."""
    sessions = list(by_session(requests_of(SAMPLE)).values())
    assert median(map(len, sessions)) == 12
    assert median(one[0].prompt_tokens for one in sessions) == pytest.approx(46e3, rel=0.02)
    assert median(one[-1].prompt_tokens for one in sessions) == pytest.approx(116e3, rel=0.01)
    gaps = [one.gap_s for requests in sessions for one in requests if one.gap_s is not None]
    assert median(gaps) == pytest.approx(1.8, rel=0.02)


@needs_samples
def test_sessions_of_the_sample_share_their_front() -> None:
    """All begin with blocks 0 to 62; sessions of one group with 20 more."""
    fronts = {one.content[0] for one in requests_of(SAMPLE) if one.at_s is not None and one.content}
    assert {(front.content, front.start) for front in fronts if isinstance(front, Span)} == {("blocks", 0)}
    assert {front.length for front in fronts if isinstance(front, Span)} == {63 * 512}


def test_a_delta_is_the_last_prompt_its_answer_and_new_blocks(tmp_path: Path) -> None:
    """Whatever other sessions do in between; the last block may be partial."""
    path = write_rows(
        tmp_path / "a.jsonl",
        [
            row("a", 1000, [0, 1], timestamp=0),
            row("b", 512, [0], timestamp=5, output=7),
            row("a", 600, [8, 9], delay=1500),
            row("b", 1, [20], delay=10),
            row("a", 1, [30], delay=0),
        ],
    )
    a, b = by_session(requests_of(path)).values()
    assert [one.prompt_tokens for one in a] == [1000, 1610, 1621]
    assert a[0].content == (Span("blocks", 0, 1000),)
    assert a[0].answer is not None
    assert a[1].content == (Span("blocks", 0, 1000), a[0].answer, Span("blocks", 8 * 512, 600))
    assert a[2].content is not None
    assert a[2].content[:3] == a[1].content
    assert [one.prompt_tokens for one in b] == [512, 520]
    assert [one.gap_s for one in a] == [None, 1.5, 0.0]


def test_rows_may_be_whole_prompts(tmp_path: Path) -> None:
    """Where they begin as the session did, or have times instead of delays, or the user says so."""
    repeating = [row("a", 1024, [0, 1], timestamp=0), row("a", 1536, [0, 1, 2], delay=100)]
    timed = [row("a", 1024, [0, 1], timestamp=0), row("a", 600, [5, 6], timestamp=100)]
    new = [row("a", 1024, [0, 1], timestamp=0), row("a", 600, [5, 6], delay=100)]
    for name, rows, options in (("r", repeating, {}), ("t", timed, {}), ("n", new, {"rows": "cumulative"})):
        path = write_rows(tmp_path / name, rows)
        assert [one.prompt_tokens for one in requests_of(path, **options)] == [1024, rows[1]["input_length"]]
        assert "as whole prompts (rows=delta" in notes_of(path, **options)
    requests = requests_of(tmp_path / "r")
    assert requests[1].content == (Span("blocks", 0, 1536),)
    assert [one.prompt_tokens for one in requests_of(tmp_path / "r", rows="delta")] == [1024, 2570]
    assert [one.prompt_tokens for one in requests_of(tmp_path / "n")] == [1024, 1634]


def test_a_session_may_begin_anew(tmp_path: Path) -> None:
    """A row that says so holds a whole prompt."""
    rows = [row("a", 100, [0]), row("a", 50, [1], delay=1), row("a", 70, [0], delay=1, is_restart=True)]
    path = write_rows(tmp_path / "a", [*rows, row("a", 5, [9], delay=1)])
    assert [one.prompt_tokens for one in requests_of(path)] == [100, 160, 70, 85]


def test_rows_without_ids_hold_tokens_of_their_own(tmp_path: Path) -> None:
    """The session keeps them."""
    path = write_rows(tmp_path / "a", [row("a", 100, None), row("a", 50, None, delay=1), row("b", 100, None)])
    first, second, other = requests_of(path)
    assert first.content is not None
    assert second.content is not None
    assert second.content[0] == first.content[0] != (other.content or ())[0]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row("a", 600, [1]), ":3: 1 hash_ids, where 600 tokens are 2 blocks of 512 tokens"),
        (row("a", 0, []), ":3: input_length: expected int >= 1"),
        (row("a", 10**15, None), ":3: input_length: expected int <= 10000000"),
        (row("a", 9_999_999, None, delay=1), ":3: the session's prompt grows to 10,000,109 tokens"),
        (row("a", 5, [9], delay=-1), ":3: delay: expected float >= 0.0"),
        (row("a", 5, [9], timestamp=1), ":3: 0.001 s is before the session's last 0.002 s"),
        (
            '{"session_id": "a", "input_length": 5, "output_length": 1, "delay": 1e999}',
            ":3: delay: number out of range",
        ),
        ('{"session_id": "a", "input_length": 5, "output_length": 1, "delay": 1e308}', ":3: delay: expected float <="),
        ('{"session_id": "a", "input_length": 5, "outp', ":3: no JSON, or cut short"),
        ({"session_id": "a", "output_length": 5}, ":3: key missing: input_length"),
    ],
)
def test_a_bad_row_is_named_or_skipped(tmp_path: Path, bad: object, message: str) -> None:
    """The session goes on without it."""
    good = [row("a", 100, [0], timestamp=2), row("b", 10, [1], timestamp=2)]
    path = write_rows(tmp_path / "a", [*good, bad, row("a", 1, [3], delay=1)])
    assert message in refusal_of(path)
    kept = requests_of(path, skip_bad_rows=True)
    assert [(one.row, one.prompt_tokens) for one in kept] == [(1, 100), (2, 10), (4, 111)]


def test_a_session_does_not_begin_twice(tmp_path: Path) -> None:
    """Rows in reverse, or a file behind itself, would be read as prompts nobody sent."""
    first, later, last = row("a", 600, [0, 1], timestamp=0), row("a", 9, [5], delay=500), row("a", 9, [6], delay=500)
    for rows in ([last, later, first], [first, later, first]):
        path = write_rows(tmp_path / "a.jsonl", rows)
        with pytest.raises(WorkloadError, match=":3: session 'a' begins here, but rows of it are above"):
            list(open_trace(path))
