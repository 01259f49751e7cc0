"""Sessions as rows and objects: pauses, deltas, subagents, and what a format cannot say."""

from typing import Any

import pytest

from workloads.errors import WorkloadError
from workloads.export.agentic_rows import agentic_rows
from workloads.export.blocks import BlockNames
from workloads.export.conversation import conversations
from workloads.export.mooncake import milliseconds, mooncake_rows
from workloads.export.summary import Summary
from workloads.export.weka import weka_sessions
from workloads.traces.request import TraceRequest


def turn(row: int, tokens: int, session: str = "s", **more: Any) -> TraceRequest:
    """Return a request with an answer of 10 tokens."""
    return TraceRequest(row, tokens, 10, session=session, **more)


def rows_of(requests: list[TraceRequest], *, clock: bool = True) -> tuple[list[dict[str, Any]], str]:
    """Return agentic rows and what was noted."""
    summary = Summary()
    rows = list(agentic_rows(conversations(requests), BlockNames(16), summary, clock=clock))
    return rows, "; ".join(summary.notes)


def weka_of(requests: list[TraceRequest], *, clock: bool = False) -> list[dict[str, Any]]:
    """Return WEKA objects."""
    kwargs = {"model": "m", "shared_tokens": 0, "block_tokens": 64, "clock": clock}
    return list(weka_sessions(conversations(requests), Summary(), **kwargs))


def test_rows_hold_what_a_turn_adds() -> None:
    """Beyond the prompt and the answer before it; the pause is in ms."""
    rows, notes = rows_of([turn(1, 100, at_s=3.0), turn(2, 130, gap_s=1.5), turn(3, 141, gap_s=0.0)])
    assert [row["input_length"] for row in rows] == [100, 20, 1]
    assert [row.get("delay") for row in rows] == [None, 1500, 0]
    assert [row.get("timestamp") for row in rows] == [3000, None, None]
    assert len({one for row in rows for one in row["hash_ids"]}) == 7 + 2 + 1
    assert notes == ""


def test_turns_that_drop_an_answer_are_counted() -> None:
    """The prompt catches up as soon as it can."""
    rows, notes = rows_of([turn(1, 100), turn(2, 105, gap_s=1.0), turn(3, 200, gap_s=1.0)])
    assert [row["input_length"] for row in rows] == [100, 1, 200 - 121]
    assert "1 of 2 turns add less than the answer before them" in notes


def test_a_pause_follows_from_times_where_the_server_time_is_known() -> None:
    """Else nobody can tell; one unknown pause among known ones is 0, none known at all refused."""
    (one,) = conversations([turn(1, 50, at_s=1.0, api_s=2.0), turn(2, 90, at_s=7.0), turn(3, 150, at_s=9.0)])
    assert [one.think_s(number) for number in range(3)] == [0.0, 4.0, None]
    rows, notes = rows_of(one.turns)
    assert [row.get("delay") for row in rows] == [None, 4000, 0]
    assert "1 of 2 pauses are not told: they are 0" in notes
    with pytest.raises(WorkloadError, match="how long clients waited"):
        rows_of([turn(1, 50, at_s=1.0), turn(2, 90, at_s=7.0)])


def test_times_of_sessions_without_a_common_clock_stay_out() -> None:
    """They would all begin at 0."""
    rows, _ = rows_of([turn(1, 50, at_s=0.0), turn(2, 90, "t", at_s=0.0)], clock=False)
    assert all("timestamp" not in row for row in rows)


def test_subagents_lie_where_their_parent_waits() -> None:
    """Nested, with times from the session's start, between the turns they came between."""
    requests = [
        turn(1, 100, at_s=0.0, api_s=2.0),
        turn(2, 64, "s/x", parent="s", after=1, at_s=0.0, api_s=1.0),
        turn(3, 128, "s/x", parent="s", after=1, at_s=4.0, gap_s=3.0),
        turn(4, 200, at_s=20.0, gap_s=18.0),
    ]
    (session,) = weka_of(requests)
    assert [one["type"] for one in session["requests"]] == ["s", "subagent", "s"]
    assert [one["t"] for one in session["requests"]] == [0.0, 2.0, 20.0]
    child = session["requests"][1]
    assert (child["agent_id"], [one["t"] for one in child["requests"]]) == ("x", [2.0, 6.0])
    assert (child["total_tokens"], child["duration_ms"]) == (64 + 128 + 20, 4000)
    assert [one.get("think_time") for one in child["requests"]] == [0.0, 3.0]
    assert "api_time" not in session["requests"][2]  # not known
    assert [one["hash_ids"] for one in child["requests"]] == [[2], [3, 4]]  # of one scope with the parent's


def test_sessions_on_one_clock_begin_at_0_each() -> None:
    """Their subagents with them."""
    requests = [
        turn(1, 100, at_s=50.0),
        turn(2, 100, "c", parent="s", after=1, at_s=60.0),
        turn(3, 100, "t", at_s=70.0),
        turn(4, 120, at_s=80.0),
    ]
    first, second = weka_of(requests, clock=True)
    assert [one["t"] for one in first["requests"]] == [0.0, 10.0, 30.0]
    assert [one["t"] for one in second["requests"]] == [0.0]


def test_only_so_many_sessions_are_taken_with_all_of_their_turns() -> None:
    """Subagents do not count."""
    requests = [turn(1, 50), turn(2, 50, "t"), turn(3, 9, "c", parent="s", after=1), turn(4, 80), turn(5, 80, "t")]
    (one,) = conversations(requests, 1)
    assert ([request.row for request in one.turns], [child.name for child in one.children]) == ([1, 4], ["c"])


def test_requests_without_sessions_are_no_conversation() -> None:
    """A parent must be there too."""
    with pytest.raises(WorkloadError, match="request 7 is of no session"):
        conversations([TraceRequest(7, 5, 5)])
    with pytest.raises(WorkloadError, match="its parent session 'gone' is not there"):
        conversations([turn(1, 5, parent="gone")])


def test_a_mooncake_row_needs_a_time() -> None:
    """And has ids only where content is known, unless they are needed."""
    with pytest.raises(WorkloadError, match="request 3 has no time"):
        list(mooncake_rows([TraceRequest(3, 5, 5)], BlockNames(16), Summary()))
    timed = [TraceRequest(1, 5, 5, 0.0015)]
    assert list(mooncake_rows(timed, BlockNames(4), Summary())) == [
        {"timestamp": 1.5, "input_length": 5, "output_length": 5}
    ]
    (row,) = mooncake_rows(timed, BlockNames(4), Summary(), ids_needed=True)
    assert row["hash_ids"] == [0, 1]


@pytest.mark.parametrize(("seconds", "shown"), [(1.0, 1000), (0.0000004, 0), (1.2345678, 1234.568)])
def test_times_are_whole_where_they_are(seconds: float, shown: float) -> None:
    """Mooncake's own are; a microsecond is kept."""
    assert milliseconds(seconds) == shown
    assert isinstance(milliseconds(seconds), type(shown))
