"""Loads of clients that talk or pause: which sessions are one client's, what they share, how long clients pause."""

from dataclasses import replace
from pathlib import Path

import pytest

from calibrate.compare.clients import ListedSession, by_client, most_open
from calibrate.compare.load import sent_load
from calibrate.compare.pauses import mean_pause_s, pausing_clients
from calibrate.compare.regimes import regime_of
from calibrate.compare.talks import listed_sessions
from calibrate.measured.run import MeasuredLoad, MeasuredRequest, MeasuredRun
from sim.load import load_deployment
from workloads.recorded import RecordedRequest, RecordedSession, RecordedTurn
from workloads.session import Prompt
from workloads.span import Span

ROOT = Path(__file__).parents[3]
L4 = load_deployment(ROOT / "scenarios" / "l4-qwen3-4b-fp8.yaml")
RUN = MeasuredRun(Path("bench.json"), "vllm-bench", input_tokens_mean=2000, output_tokens_mean=100)


def session(begin_s: float, end_s: float, depth: int = 0) -> ListedSession:
    """Return a session of one turn."""
    prompt = Prompt((Span(begin_s, 0, 100),), Span(("answer", begin_s), 0, 10))
    return ListedSession(RecordedSession(begin_s, (RecordedTurn(0.0, prompt),)), end_s, depth)


def test_sessions_that_begin_as_others_end_are_one_clients() -> None:
    """Two clients, five sessions; a subagent is none of them."""
    listed = [
        session(0, 10),
        session(1, 21),
        session(10, 15),
        session(12, 13, depth=1),
        session(15.01, 40),
        session(21, 30),
    ]
    assert [len(one.turns) for one in by_client(listed)] == [3, 2, 1]
    assert most_open(listed) == 2


def test_sessions_at_their_own_times_keep_them() -> None:
    """An open loop, though one begins by chance as another ends."""
    listed = [session(0, 10), session(3, 9), session(10.02, 12), session(17, 19), session(25, 30)]
    assert [one.at_s for one in by_client(listed)] == [0, 3, 10.02, 17, 25]
    assert most_open(listed) == 2


def test_sessions_share_what_their_first_turns_found_cached() -> None:
    """Where the scenario has no prefix; the first one of a cold cache found nothing."""
    sent = [
        MeasuredRequest(5000, 100, 0.0, 0.5, 1.0, session="a", turn=0, hit_tokens=0),
        MeasuredRequest(6000, 100, 2.0, 0.5, 1.0, session="b", turn=0, hit_tokens=4000),
    ]
    fronts = [one.session.turns[0].prompt.spans for one in listed_sessions(RUN, sent, 0)]
    assert [len(spans) for spans in fronts] == [1, 2]
    assert fronts[1][0].length == 4000


def test_a_shorter_prompt_is_another_text() -> None:
    """As after a compaction; what the cache held of it all the same says otherwise."""
    turns = [
        MeasuredRequest(9000, 100, 0.0, 0.5, 1.0, session="a", turn=0, hit_tokens=1000),
        MeasuredRequest(3000, 100, 2.0, 0.5, 1.0, session="a", turn=1, hit_tokens=1008),
        MeasuredRequest(2500, 100, 4.0, 0.5, 1.0, session="a", turn=2, hit_tokens=2496),
    ]
    (talk,) = listed_sessions(RUN, turns, 1000)
    first, second, third = (turn.prompt.spans[1].content for turn in talk.session.turns)
    assert first != second == third


def test_clients_that_pause_show_by_littles_law() -> None:
    """Eight clients with 2 s answers at 0.25 requests a second: 0.5 in flight, so 30 s between requests."""
    slow = replace(
        RUN, load=MeasuredLoad(concurrency=8, requests=80), metrics={"requests_per_s": 0.25, "e2e_mean_s": 2.0}
    )
    assert mean_pause_s(slow, 80) == pytest.approx(30)
    load = sent_load(slow, L4.parts, 0)
    assert load.arrivals.label == "8 clients"
    assert load.drawn
    assert any("each pauses 30 s" in note for note in load.notes)
    busy = replace(slow, metrics={"requests_per_s": 3.5, "e2e_mean_s": 2.0})
    assert mean_pause_s(busy, 80) is None
    assert mean_pause_s(slow, 16) is None  # too few to tell a pause from the run's ends
    assert mean_pause_s(replace(slow, failed=3), 80) is None  # whoever failed was in flight, too


def test_pausing_clients_send_every_request_once() -> None:
    """And end at about the same time."""
    requests = [RecordedRequest.of(0.0, [Span(number, 0, 10)], 5, str(number)) for number in range(400)]
    sessions = pausing_clients(requests, 8, 30.0, 2.0, seed=1)
    sent = sorted(turn.prompt.spans[0].content for one in sessions for turn in one.turns)  # type: ignore[type-var]
    assert sent == list(range(400))
    took_s = [sum(turn.pause_s + 2.0 for turn in one.turns) for one in sessions]
    assert max(took_s) < 1.25 * min(took_s)


def test_a_rate_of_requests_is_no_rate_of_sessions() -> None:
    """Twelve turns a session: 2.4 requests a second are 0.2 sessions."""
    run = MeasuredRun(RUN.file, RUN.format, load=MeasuredLoad(rate_per_s=2.4, requests=120, sessions=True))
    load = sent_load(run, L4.parts, 0)
    assert load.arrivals.level == pytest.approx(0.2)
    assert load.arrivals.unit == "sessions/s"


def test_a_run_that_was_cut_short_is_cut_short() -> None:
    """48 sessions of 12 turns answered 267 requests when the client stopped."""
    run = replace(RUN, duration_s=300.0, load=MeasuredLoad(concurrency=48, requests=267, sessions=True))
    assert sent_load(run, L4.parts, 0).load.duration_s == 300.0
    whole = replace(RUN, duration_s=300.0, load=MeasuredLoad(concurrency=48, requests=576, sessions=True))
    assert sent_load(whole, L4.parts, 0).load.duration_s is None


def test_more_at_once_than_seats_is_beyond_the_knee() -> None:
    """Listed requests that all leave at the same time are no rate."""
    requests = tuple(MeasuredRequest(100, 10, 0.0, 0.1, 1.0) for _ in range(300))
    load = sent_load(replace(RUN, requests=requests), L4.parts, 0)
    assert load.arrivals.label == "300 at once"
    assert regime_of({}, {"running_peak": 256.0}, {}, load, 256).why == "300 at once for 256 seats"
