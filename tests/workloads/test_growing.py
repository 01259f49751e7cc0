"""Growing sessions: what prompts keep of those before, where sessions compact, and that none outgrows the model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import tokens_of

from workloads import (
    AgentWorkload,
    Compaction,
    Constant,
    GrowingWorkload,
    Lognormal,
    Resumed,
    Rewrites,
    Session,
    Span,
    Turn,
    Uniform,
    WorkloadError,
    total_tokens,
)

PREFIX = (Span("shared", 0, 20),)
turns = st.lists(
    st.builds(Turn, st.integers(1, 30), st.integers(1, 30), st.just(0.0), st.none() | st.integers(0, 200)),
    min_size=1,
    max_size=8,
).map(tuple)


def growing(**changes: object) -> GrowingWorkload:
    """Return a small workload of constants."""
    settings: dict[str, object] = {
        "shared_prefix_tokens": 100,
        "turns": Constant(5),
        "first_tokens": Constant(50),
        "new_tokens": Constant(10),
        "output_tokens": Constant(4),
    }
    return GrowingWorkload(**(settings | changes))  # type: ignore[arg-type]


def lengths(workload: GrowingWorkload, seed: int = 0) -> list[int]:
    """Return the own tokens of each prompt of a session."""
    session = workload.session("s", np.random.default_rng(seed))
    return [length.tokens - workload.shared_prefix_tokens for length in session.lengths()]


@given(turns, st.booleans())
def test_a_prompt_keeps_a_front_and_nothing_lost_comes_back(of: tuple[Turn, ...], keeps_output: bool) -> None:  # noqa: FBT001
    """Its own tokens are the first so many of what came before, then new ones; `lengths` says the same."""
    session = Session("s", PREFIX, of, keeps_output)
    before = tokens_of(PREFIX)
    ever = set(before)
    for turn, prompt, length in zip(of, session.prompts(), session.lengths(), strict=True):
        tokens = tokens_of(prompt.spans)
        kept = before if turn.kept_tokens is None else before[: 20 + turn.kept_tokens]
        assert tokens[: len(kept)] == kept
        new = tokens[len(kept) :]
        assert len(new) == turn.new_tokens
        assert not ever & set(new)
        assert (length.held_tokens, length.tokens) == (len(kept), len(tokens))
        answer = tokens_of((prompt.output,))
        ever |= {*new, *answer}
        before = tokens + (answer if keeps_output else [])


@given(turns, st.booleans())
def test_what_is_over_is_in_no_later_prompt(of: tuple[Turn, ...], keeps_output: bool) -> None:  # noqa: FBT001
    """`over_from` lets the engine forget; it must never forget what is asked for again."""
    prompts = list(Session("s", PREFIX, of, keeps_output).prompts())
    for number, prompt in enumerate(prompts):
        if prompt.over_from is None:
            continue
        over = {*tokens_of((*prompt.spans, prompt.output))[prompt.over_from :]} - {*tokens_of(PREFIX)}
        for later in prompts[number + 1 :]:
            assert not over & {*tokens_of(later.spans)}


def test_a_workload_that_changes_nothing_draws_what_an_agent_draws() -> None:
    """The same sessions from the same generator, to the token."""
    new, out, think, number = Uniform(10, 500), Uniform(1, 50), Uniform(0, 3), Uniform(1, 9)
    agent = AgentWorkload(100, number, new, out, think)
    grown = GrowingWorkload(100, number, new, new, out, think)
    assert grown.session("s", np.random.default_rng(5)) == agent.session("s", np.random.default_rng(5))


def test_prompts_grow_by_answer_and_new_tokens() -> None:
    """First prompts have their own length."""
    assert lengths(growing()) == [50, 64, 78, 92, 106]
    assert lengths(growing(keeps_output=False)) == [50, 60, 70, 80, 90]
    assert growing().mean_unique_tokens == 110


def test_stripped_answers_are_not_in_the_next_prompt() -> None:
    """It keeps the prompt before them."""
    workload = growing(stripped_share=1.0)
    assert lengths(workload) == [50, 60, 70, 80, 90]
    session = workload.session("s", np.random.default_rng(0))
    assert [length.held_tokens for length in session.lengths()] == [100, 150, 160, 170, 180]


def test_rewrites_keep_a_front_and_the_length() -> None:
    """What follows the front is sent anew."""
    workload = growing(rewrites=Rewrites(1.0, Constant(0.5)))
    assert lengths(workload) == [50, 64, 78, 92, 106]
    session = workload.session("s", np.random.default_rng(0))
    assert [length.held_tokens for length in session.lengths()] == [100, 125, 132, 139, 146]


def test_compaction_leaves_a_share_of_what_was() -> None:
    """Of prompt and answer; a part of it may be the old front."""
    workload = growing(compaction=Compaction(1.0, Constant(0.5), Constant(0.2)))
    assert lengths(workload)[:3] == [50, 27, 16]
    session = workload.session("s", np.random.default_rng(0))
    assert [length.held_tokens for length in session.lengths()][:3] == [100, 105, 103]


def test_an_agents_own_limit_compacts_unless_the_session_began_beyond_it() -> None:
    """At 180 tokens, of which 100 are shared."""
    compaction = Compaction(0.0, Constant(0.5), above_tokens=Constant(180))
    assert lengths(growing(compaction=compaction)) == [50, 64, 78, 41, 55]
    assert lengths(growing(compaction=compaction, first_tokens=Constant(90)))[1] == 104


def test_resumed_sessions_have_lengths_of_their_own() -> None:
    """And are marked."""
    workload = growing(resumed=Resumed(0.3, Constant(5000), Constant(2)))
    rng = np.random.default_rng(3)
    sessions = [workload.session(str(number), rng) for number in range(2000)]
    resumed = [session for session in sessions if session.resumed]
    assert len(resumed) / 2000 == pytest.approx(0.3, abs=0.03)
    assert {(session.turns[0].new_tokens, len(session.turns)) for session in resumed} == {(5000, 2)}


@settings(max_examples=60)
@given(st.integers(103, 3000), st.integers(0, 2**32), st.booleans(), st.floats(0, 3))
def test_no_prompt_outgrows_the_model(most: int, seed: int, compacts: bool, sigma: float) -> None:  # noqa: FBT001
    """With its answer, however long the drawn lengths are."""
    workload = growing(
        turns=Constant(20),
        first_tokens=Lognormal(200, sigma),
        new_tokens=Lognormal(50, sigma),
        output_tokens=Lognormal(30, sigma),
        compaction=Compaction(0.01, Uniform(0.1, 1), Uniform(0, 1)) if compacts else None,
        most_tokens=most,
    )
    session = workload.session("s", np.random.default_rng(seed))
    for prompt, turn in zip(session.prompts(), session.turns, strict=True):
        assert total_tokens(prompt.spans) + turn.output_tokens <= most


def test_a_prefix_that_fills_the_model_is_refused() -> None:
    """Before anything is drawn."""
    with pytest.raises(WorkloadError, match="shared_prefix_tokens 100 leave nothing of max_model_len 101"):
        growing(most_tokens=101)
    with pytest.raises(WorkloadError, match="shared_prefix_tokens -1"):
        growing(shared_prefix_tokens=-1)


def test_kept_tokens_are_not_negative() -> None:
    """Like every length."""
    with pytest.raises(WorkloadError, match="kept_tokens -1 must be at least 0"):
        Turn(1, 1, 0.0, -1)
