"""Bailian's chats: sessions by their links, and links that cannot be."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.trace_files import SAMPLES, needs_samples, notes_of, refusal_of, requests_of, write_rows
from workloads.traces.request import BlockIds

SAMPLE = SAMPLES / "format_examples" / "bailian_readme_and_docs_records.jsonl"


def chat(number: int, parent: int | str | None = -1, tokens: int = 20, **more: Any) -> dict[str, Any]:
    """Return a row; chats come a second apart in the order of their numbers unless told otherwise."""
    ids = list(range(-(-tokens // 16)))
    row = {"chat_id": number, "parent_chat_id": parent, "timestamp": float(number), "input_length": tokens}
    return {**row, "output_length": 4, "type": "text", "turn": 1, "hash_ids": ids, **more}


@needs_samples
def test_the_documented_rows_are_read_with_their_shortened_ids() -> None:
    """One session of two chats; that ids are missing is said."""
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    requests = requests_of(SAMPLE)
    assert [one.session for one in requests] == ["159", "159"]
    assert [one.prompt_tokens for one in requests] == [one["input_length"] for one in rows] == [521, 400]
    assert [one.at_s for one in requests] == [61.114, 62.5]
    assert requests[0].content == BlockIds([1089, 1090, 1091], 16)
    assert "fewer hash_ids than blocks" in notes_of(SAMPLE)


def test_a_session_is_the_tree_below_a_root(tmp_path: Path) -> None:
    """Branches too; null, -1 and an empty id are no parents."""
    rows = [chat(1), chat(2, None), chat(3, 1), chat(4, 3), chat(5, 2), chat(6, 1), chat(7, "")]
    requests = requests_of(write_rows(tmp_path / "a", rows))
    assert [one.session for one in requests] == ["1", "2", "1", "1", "2", "1", "7"]
    assert "follow one that the file does not have" not in notes_of(tmp_path / "a")


def test_a_window_may_begin_in_the_middle(tmp_path: Path) -> None:
    """Chats whose parent lies before it are roots."""
    path = write_rows(tmp_path / "a", [chat(11, 5), chat(12, 11), chat(13, 6), chat(14, 13)])
    assert [one.session for one in requests_of(path)] == ["11", "11", "13", "13"]
    assert "follow one that the file does not have" in notes_of(path)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (chat(2), ":3: chat_id 2 is there twice"),
        (chat(3, 3), ":3: chat 3 is its own parent"),
        (chat(9, timestamp=2.0), ":3: chat 9 comes after 2 (row 2), whose parent it is"),
        (chat(9, 2, timestamp=2.0), ":3: chats 9 and 2 (row 2) are each other's ancestors: a cycle"),
        (chat(3, hash_ids=[1, 2, 3]), ":3: 3 hash_ids, where 20 tokens are 2 blocks of 16 tokens"),
        (chat(3, input_length=10**15, hash_ids=None), ":3: input_length: expected int <= 10000000"),
        (chat(3, timestamp=1.5), ":3: 1.5 s is before the 2 s above it: times must ascend"),
        (chat(3, timestamp=-1.0), ":3: timestamp: expected float >= 0.0"),
        (chat(3, [1]), ":3: parent_chat_id: expected int | str | null, got array"),  # type: ignore[arg-type]
    ],
)
def test_a_bad_row_is_named_or_skipped(tmp_path: Path, bad: dict[str, Any], message: str) -> None:
    """The second chat's parent, 9, is not in the file."""
    path = write_rows(tmp_path / "a", [chat(1), chat(2, 9), bad, chat(4, 2)])
    assert message in refusal_of(path)
    assert [(one.row, one.session) for one in requests_of(path, skip_bad_rows=True)] == [(1, "1"), (2, "2"), (4, "2")]


def test_a_cycle_of_three_is_one(tmp_path: Path) -> None:
    """1 follows 3, 2 follows 1, 3 follows 2."""
    assert "a cycle" in refusal_of(write_rows(tmp_path / "a", [chat(1, 3), chat(2, 1), chat(3, 2)]))


def test_without_ids_there_is_no_content(tmp_path: Path) -> None:
    """Lengths and links alone."""
    path = write_rows(tmp_path / "a", [chat(1, hash_ids=None, output_length=0)])
    assert [(one.content, one.output_tokens) for one in requests_of(path)] == [(None, 1)]
    assert "nothing of theirs can be hit" in notes_of(path)
