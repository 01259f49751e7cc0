"""A session's prompts extend each other exactly, with and without its answers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import tokens_of

from workloads import AgentWorkload, Constant, Session, Span, Turn, Uniform, WorkloadError, total_tokens

turns = st.lists(st.builds(Turn, st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=8).map(tuple)
PREFIX = (Span("shared", 0, 20),)


@given(turns, st.booleans())
def test_each_prompt_extends_the_one_before(of: tuple[Turn, ...], keeps_output: bool) -> None:  # noqa: FBT001
    """By the answer if it is kept, and by exactly the turn's new tokens."""
    before: list[tuple[object, int]] = tokens_of(PREFIX)
    for turn, prompt in zip(of, Session("s", PREFIX, of, keeps_output).prompts(), strict=True):
        tokens = tokens_of(prompt.spans)
        assert tokens[: len(before)] == before
        assert len(tokens) == len(before) + turn.new_tokens
        assert prompt.output.length == turn.output_tokens
        before = tokens + (tokens_of((prompt.output,)) if keeps_output else [])


@given(turns, st.booleans())
def test_no_token_appears_twice(of: tuple[Turn, ...], keeps_output: bool) -> None:  # noqa: FBT001
    """Prompt and answers are distinct points, so that nothing is hit by accident."""
    prompts = list(Session("s", PREFIX, of, keeps_output).prompts())
    answers = [] if keeps_output else [prompt.output for prompt in prompts]
    everything = tokens_of(prompts[-1].spans) + tokens_of(tuple(answers))
    everything += tokens_of((prompts[-1].output,)) if keeps_output else []
    assert len(set(everything)) == len(everything)


def test_sessions_share_their_prefix_and_nothing_else() -> None:
    """Two names are two lines of content."""
    first, second = (next(Session(name, PREFIX, (Turn(5, 5),)).prompts()).spans for name in ("a", "b"))
    assert first[0] == second[0] == PREFIX[0]
    assert not set(tokens_of(first[1:])) & set(tokens_of(second[1:]))


def test_a_session_without_prefix_is_one_span_a_prompt() -> None:
    """Kept answers join the turns around them."""
    *_, last = Session("s", (), (Turn(5, 3), Turn(4, 2))).prompts()
    assert last.spans == (Span("s", 0, 12),)
    assert last.output == Span("s", 12, 2)


@pytest.mark.parametrize("turn", [(0, 1), (1, 0), (-1, 5), (1, 1, -0.1), (1, 1, float("inf")), (1, 1, float("nan"))])
def test_impossible_turns_are_refused(turn: tuple[int, int]) -> None:
    """A turn adds tokens, gets tokens, and thinks for a finite time."""
    with pytest.raises(WorkloadError):
        Turn(*turn)


def test_a_session_needs_turns() -> None:
    """And is named in the error."""
    with pytest.raises(WorkloadError, match="session 's' has no turns"):
        Session("s", PREFIX, ())


def test_agent_sessions_are_the_same_for_the_same_seed() -> None:
    """And others for another."""
    workload = AgentWorkload(100, Uniform(1, 9), Uniform(10, 500), Uniform(1, 50), Uniform(0, 3))
    sessions = [workload.session("s", np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert sessions[0] == sessions[1] != sessions[2]


@pytest.mark.parametrize(("keeps_output", "unique"), [(True, 5 * 40 + 5 * 7), (False, 5 * 40 + 7)])
def test_an_agents_mean_depth_is_that_of_its_last_prompt_and_answer(*, keeps_output: bool, unique: int) -> None:
    """Constants leave no doubt: turns times new tokens, the answers that come back, and the last answer."""
    workload = AgentWorkload(100, Constant(5), Constant(40), Constant(7), keeps_output=keeps_output)
    *_, last = workload.session("s", np.random.default_rng(0)).prompts()
    assert workload.mean_unique_tokens == unique == total_tokens(last.spans) - 100 + last.output.length


def test_an_agent_may_share_nothing_but_not_less() -> None:
    """An empty prefix is none; a negative one is refused."""
    assert AgentWorkload(0, Constant(1), Constant(1), Constant(1)).prefix == ()
    with pytest.raises(WorkloadError, match="shared_prefix_tokens -1"):
        AgentWorkload(-1, Constant(1), Constant(1), Constant(1))
