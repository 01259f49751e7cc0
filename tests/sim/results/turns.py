"""Records made by hand and at random, with step logs that say when their tokens came."""

import math

from hypothesis import strategies as st
from turn_records import turn_record

from sim.engine.record import Outcome, TurnRecord
from sim.engine.step_log import StepLog


def step_log(ends_s: list[float]) -> StepLog:
    """Return the log of steps that ended at these times."""
    log = StepLog()
    for end_s in ends_s:
        log.add(0.0, end_s, 1)
    return log


def turn(log: StepLog | None, token_steps: list[int], outcome: Outcome = Outcome.COMPLETED) -> TurnRecord:
    """Return a turn that arrived at 0 and got its tokens in these stretches of steps."""
    first_s = log.ends_s[token_steps[0] - 1] if log is not None and token_steps else math.nan
    last_s = log.ends_s[token_steps[-1] - 1] if log is not None and token_steps else math.nan
    record = turn_record("session", 0, "session 0.0", 0, 100, 10, 0.0, queued_s=0.0, scheduled_s=0.0, outcome=outcome)
    if outcome is Outcome.COMPLETED:
        record.first_token_s, record.last_token_s = first_s, last_s
    record.steps, record.token_steps = log, token_steps
    return record


@st.composite
def logs(draw: st.DrawFn) -> StepLog:
    """Draw steps of unequal lengths, some of them equal."""
    lengths = draw(st.lists(st.one_of(st.sampled_from([0.5, 1.0]), st.floats(1e-3, 10)), min_size=1, max_size=40))
    ends_s = [sum(lengths[: count + 1]) for count in range(len(lengths))]
    return step_log(ends_s)


@st.composite
def turns(draw: st.DrawFn, log: StepLog) -> TurnRecord:
    """Draw a completed turn of a log: one to three stretches, none of which touches another."""
    most = len(log.ends_s)
    chosen = sorted(draw(st.sets(st.integers(1, most), min_size=1, max_size=most)))
    stretches: list[int] = []
    for step in chosen:
        if stretches and stretches[-1] == step - 1:
            stretches[-1] = step
        else:
            stretches += (step, step)
    return turn(log, stretches)
