"""What a profile is fitted from: a trace's sessions step by step, and distributions that draw them again."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import Session, Span, Turn
from workloads.fit import fitted_workload
from workloads.traces.common_front import common_tokens
from workloads.traces.request import HUMAN, TOOL, BlockIds, Content, TraceRequest
from workloads.traces.session_steps import ALL, SessionSteps, session_steps

BLOCK = 16


def blocks(*ids: int) -> BlockIds:
    """Return blocks of 16 tokens."""
    return BlockIds(ids, BLOCK)


def asked(prompt: int, output: int, content: Content | None = None, **told: Any) -> TraceRequest:
    """Return a request of session `s`."""
    return TraceRequest(1, prompt, output, session="s", content=content)._replace(**told)


def steps_of(*requests: TraceRequest) -> list[tuple[int, int]]:
    """Return prompt and held tokens of each request of session `s`."""
    return [(step.prompt_tokens, step.held_tokens) for step in session_steps(requests).steps["s"]]


def requests_of(sessions: Sequence[Session], block: int | None) -> Iterator[TraceRequest]:
    """Yield drawn sessions as a trace would have them: whole blocks by id, or spans."""
    ids: dict[object, int] = {}
    row = 0
    for session in sessions:
        pause_s: float | None = None
        for turn, prompt in zip(session.turns, session.prompts(), strict=True):
            row += 1
            tokens = sum(span.length for span in prompt.spans)
            content: Content = prompt.spans
            if block is not None:
                points = [(span.content, span.start + at) for span in prompt.spans for at in range(span.length)]
                parent, named = 0, []
                for end in range(block, tokens + 1, block):
                    parent = ids.setdefault((parent, tuple(points[end - block : end])), len(ids) + 1)
                    named.append(parent)
                content = BlockIds(named, block)
            yield TraceRequest(row, tokens, turn.output_tokens, None, session.name, content, pause_s)
            pause_s = turn.think_s


turns = st.lists(
    st.builds(Turn, st.integers(1, 90), st.integers(1, 60), st.floats(0, 9), st.none() | st.integers(0, 150)),
    min_size=1,
    max_size=6,
).map(tuple)


@given(st.lists(st.tuples(turns, st.booleans()), min_size=2, max_size=4))
def test_sessions_of_spans_are_found_as_they_were_sent(made: list[tuple[tuple[Turn, ...], bool]]) -> None:
    """Prompts as long, pauses as long, and as much held, whatever their answers became."""
    prefix = (Span("shared", 0, 64),)
    sent = [Session(str(number), prefix, of, keeps) for number, (of, keeps) in enumerate(made)]
    found = session_steps(requests_of(sent, None))
    assert found.shared_tokens >= 64
    again = [replace(one, name=one.name) for one in found.sessions()]
    for before, after in zip(sent, again, strict=True):
        lengths = [length.tokens for length in before.lengths()]
        assert [step.prompt_tokens for step in found.steps[before.name]] == lengths
        assert [turn.output_tokens for turn in after.turns] == [turn.output_tokens for turn in before.turns]
        assert [turn.think_s for turn in after.turns[:-1]] == [turn.think_s for turn in before.turns[:-1]]


def test_a_prompt_that_holds_the_answer_holds_everything() -> None:
    """By block ids, of which the last partial one is followed by more."""
    assert steps_of(asked(40, 8, blocks(1, 2)), asked(60, 8, blocks(1, 2, 3))) == [(40, 0), (60, ALL)]
    ceiled = steps_of(asked(40, 8, blocks(1, 2, 9)), asked(60, 8, blocks(1, 2, 3, 4)))
    assert ceiled == [(40, 0), (60, ALL)]


def test_an_answer_that_does_not_fit_into_the_growth_was_left_out() -> None:
    """Growth of 5 cannot hold 8."""
    assert steps_of(asked(40, 8, blocks(1, 2)), asked(45, 8, blocks(1, 2))) == [(40, 0), (45, 40)]


def test_a_front_that_differs_is_held_no_further() -> None:
    """One block is the same."""
    assert steps_of(asked(40, 8, blocks(1, 2)), asked(60, 8, blocks(1, 5, 6))) == [(40, 0), (60, 16)]
    assert steps_of(asked(40, 8, blocks(1, 2)), asked(20, 8, blocks(1))) == [(40, 0), (20, 16)]


def test_ids_of_two_scopes_or_sizes_have_nothing_in_common() -> None:
    """Equal numbers or not."""
    assert common_tokens(BlockIds([1, 2], 16, "a"), BlockIds([1, 2], 16, "b")) == 0
    assert common_tokens(BlockIds([1, 2], 16), BlockIds([1, 2], 32)) == 0
    assert common_tokens(BlockIds([1, 2], 16), (Span("x", 0, 5),)) == 0
    assert common_tokens(BlockIds([1, 2, 3], 16), BlockIds([1, 2, 4], 16)) == 32


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(1, 4)), max_size=5),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(1, 4)), max_size=5),
)
def test_spans_have_in_common_what_their_tokens_have(first: list[Any], second: list[Any]) -> None:
    """Token by token, however they are cut into spans."""
    spans = [tuple(Span(*one) for one in of) for of in (first, second)]
    points = [[(span.content, span.start + at) for span in of for at in range(span.length)] for of in spans]
    expected = 0
    for one, other in zip(*points, strict=False):
        if one != other:
            break
        expected += 1
    assert common_tokens(spans[0], spans[1]) == expected


def test_known_answers_say_themselves_whether_they_are_held() -> None:
    """By their content, not by their length."""
    first = asked(20, 10, (Span("s", 0, 20),), answer=Span("s", 20, 10))
    held = asked(40, 1, (Span("s", 0, 40),))
    left = asked(40, 1, (Span("s", 0, 20), Span("t", 0, 20)))
    part = asked(40, 1, (Span("s", 0, 25), Span("t", 0, 15)))
    assert steps_of(first, held) == [(20, 0), (40, ALL)]
    assert steps_of(first, part) == [(20, 0), (40, 25)]
    assert steps_of(first, left)[1] == (40, 20)


def test_without_content_prompts_that_shrink_keep_nothing_and_it_is_said() -> None:
    """Others extend the last one."""
    found = session_steps([asked(40, 8), asked(60, 8), asked(10, 8)])
    assert [step.held_tokens for step in found.steps["s"]] == [0, ALL, 0]
    assert any("without content" in line for line in found.assumed)


def test_pauses_are_told_or_follow_from_times() -> None:
    """From the end of the answer where that is known; what had to be assumed is said."""
    told = session_steps([asked(9, 1), asked(12, 1, gap_s=7.0)])
    timed = session_steps([asked(9, 1, at_s=100.0, api_s=3.0), asked(12, 1, at_s=110.0)])
    loose = session_steps([asked(9, 1, at_s=100.0), asked(12, 1, at_s=110.0)])
    none = session_steps([asked(9, 1), asked(12, 1)])
    assert [one.steps["s"][1].gap_s for one in (told, timed, loose, none)] == [7.0, 7.0, 10.0, None]
    assert any("contain its answer" in line for line in loose.assumed)
    assert any("no pauses" in line for line in none.assumed)


def test_subagents_are_left_out_and_counted() -> None:
    """They have sessions of their own."""
    found = session_steps([asked(9, 1), asked(9, 1, parent="s")._replace(session="t")])
    assert (found.requests, list(found.steps)) == (1, ["s"])
    assert "1 requests of subagents are left out" in found.assumed


def test_requests_without_sessions_are_sessions_of_one_turn() -> None:
    """And it is said what that leaves out."""
    rows = [TraceRequest(row, 40, 5, content=blocks(1, row + 5)) for row in range(4)]
    found = session_steps(rows)
    assert (len(found.steps), found.shared_tokens) == (4, 16)
    assert any("sessions of one turn" in line for line in found.assumed)


def test_the_shared_front_is_what_half_of_the_sessions_begin_with() -> None:
    """One odd session does not undo it."""
    fronts = [blocks(1, 2, 30), blocks(1, 2, 31), blocks(1, 2, 32), blocks(7, 8)]
    rows = [TraceRequest(row, 48, 5, session=str(row), content=front) for row, front in enumerate(fronts)]
    assert session_steps(rows).shared_tokens == 32


def test_told_fronts_may_differ_and_count_as_their_median() -> None:
    """What a session has beyond its own front is its own."""
    rows = [TraceRequest(row, 100 + row, 5, session=str(row), shared_tokens=40 + row) for row in range(3)]
    found = session_steps(rows)
    assert found.shared_tokens == 41
    assert [session.turns[0].new_tokens for session in found.sessions()] == [60, 60, 60]
    assert any("the median of 40 to 42" in line for line in found.assumed)


def steps_from(*sessions: list[tuple[int, int]]) -> SessionSteps:
    """Return sessions of growing prompts without content, each (prompt, output)."""
    rows = [
        TraceRequest(row, prompt, output, session=str(number), gap_s=float(row) if row else None)
        for number, session in enumerate(sessions)
        for row, (prompt, output) in enumerate(session)
    ]
    return session_steps(rows)


def test_equal_sessions_fit_to_numbers() -> None:
    """No distribution where nothing varies."""
    fitted = fitted_workload(steps_from(*[[(100, 10), (150, 10)]] * 3))
    assert fitted == {
        "shared_prefix_tokens": 0,
        "turns": 2,
        "first_tokens": 100,
        "new_tokens": 40,
        "output_tokens": 10,
        "think_s": 1,
    }


def test_far_longer_first_prompts_are_those_of_resumed_sessions() -> None:
    """With turns of their own; a difference of less than four times is none."""
    fresh = [[(1000 + number, 1)] * 1 + [(2000, 1)] * 5 for number in range(6)]
    resumed = [[(90_000 + number, 1), (91_000, 1)] for number in range(4)]
    fitted = fitted_workload(steps_from(*fresh, *resumed))
    assert fitted["resumed"]["share"] == 0.4
    assert (fitted["turns"], fitted["resumed"]["turns"]) == (6, 2)
    assert "resumed" not in fitted_workload(steps_from(*fresh, *[[(3500, 1)]] * 4))


def test_pauses_are_split_by_who_ends_them() -> None:
    """Where the trace tells."""
    rows = [asked(100, 5)]
    rows += [asked(200 + number, 5, gap_s=2.0, driver=TOOL) for number in range(3)]
    rows += [asked(300, 5, gap_s=60.0, driver=HUMAN)]
    assert fitted_workload(session_steps(rows))["think_s"] == {
        "kind": "mixture",
        "parts": [{"weight": 0.75, "of": 2}, {"weight": 0.25, "of": 60}],
    }


@pytest.mark.parametrize("shape", ["quantiles", "lognormal"])
def test_fitted_distributions_have_the_medians_of_the_trace(shape: Any) -> None:
    """And bounds within its lowest and highest."""
    rng = np.random.default_rng(2)
    sessions = [[(round(value), 7)] for value in rng.lognormal(7, 1, 400)]
    fitted = fitted_workload(steps_from(*sessions), shape)["first_tokens"]
    prompts = [session[0][0] for session in sessions]
    if shape == "lognormal":
        assert fitted["median"] == pytest.approx(np.median(prompts), rel=1e-3)
        assert (fitted["min"], fitted["max"]) == pytest.approx((min(prompts), max(prompts)), rel=1e-3)
    else:
        assert fitted["values"][fitted["shares"].index(0.5)] == pytest.approx(np.median(prompts), rel=1e-3)
        assert fitted["values"][0] == pytest.approx(min(prompts), rel=1e-3)
