import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from workloads.sharing.path_collector import PathCollector
from workloads.sharing.retention import retention, sizes_for
from workloads.span import Span
from workloads.traces.arrivals_seen import arrivals_seen
from workloads.traces.format import Clock, Format
from workloads.traces.open import OpenTrace
from workloads.traces.quantiles import quantiles
from workloads.traces.reading import Reading, ReadOptions
from workloads.traces.request import HUMAN, TOOL, BlockIds, TraceRequest
from workloads.traces.statistics import TraceStatistics, trace_statistics


def _trace(requests: list[TraceRequest], clock: Clock = Clock.TRACE) -> OpenTrace:
    def read(_reading: Reading) -> Iterator[TraceRequest]:
        yield from requests

    return OpenTrace(
        Path("made-up"), Format("made-up", "made up", lambda _: True, read, clock), (Path("x"),), ReadOptions()
    )


def _statistics(requests: list[TraceRequest], clock: Clock = Clock.TRACE) -> TraceStatistics:
    return trace_statistics(_trace(requests, clock))


def test_sessions_turns_and_growth() -> None:
    """Counts by hand: two sessions, one of which starts a subagent."""
    found = _statistics(
        [
            TraceRequest(1, 100, 10, 0.0, "a", driver=HUMAN),
            TraceRequest(2, 150, 10, 0.0, "a/sub", parent="a", after=1),
            TraceRequest(3, 130, 20, 5.0, "a", gap_s=2.0, driver=TOOL),
            TraceRequest(4, 90, 20, 5.5, "a", gap_s=3.0, driver=HUMAN),  # compaction
            TraceRequest(5, 70, 5, 6.0, "b"),
        ]
    )
    assert (found.requests, found.sessions, found.subagents, found.subagent_requests) == (5, 2, 1, 1)
    assert (found.prompt_tokens, found.output_tokens) == (540, 65)
    spread = found.distributions
    assert (spread["turns"].most, spread["turns"].least) == (3, 1)
    assert (spread["grown_tokens"].count, spread["grown_tokens"].mean) == (1, 30)
    assert spread["fresh_tokens"].mean == 20
    assert sorted([spread["last_prompt_tokens"].least, spread["last_prompt_tokens"].most]) == [70, 90]
    assert (spread["gap_human_s"].mean, spread["gap_tool_s"].mean) == (3, 2)
    assert "as the trace tells" in found.gaps_are
    assert found.sharing is None


def test_gaps_from_times_begin_where_the_answer_ended() -> None:
    """The server's time is subtracted where it is told, and said to be in it where not."""
    for api_s, gap_s, said in ((2.0, 8.0, "recorded end"), (None, 10.0, "hold the server's time")):
        found = _statistics(
            [TraceRequest(1, 9, 1, 0.0, "a", api_s=api_s), TraceRequest(2, 9, 1, 10.0, "a", api_s=api_s)]
        )
        assert found.distributions["gap_s"].mean == gap_s
        assert said in found.gaps_are


def test_quantiles_are_numpys() -> None:
    """By linear interpolation, NaN left out."""
    one = quantiles(np.array([1.0, 2.0, 4.0, np.nan]))
    assert one is not None
    assert (one.count, one.p50, one.p75, one.most) == (3, 2.0, 3.0, 4.0)
    assert quantiles(np.array([np.nan])) is None


def test_arrivals_of_a_poisson_process_have_no_ticks() -> None:
    """CV near 1, rate as drawn; whole seconds are ticks of one second."""
    at_s = np.cumsum(np.random.default_rng(1).exponential(0.25, 20_000))
    seen, ticked = arrivals_seen(at_s), arrivals_seen(np.floor(at_s))
    assert seen is not None
    assert ticked is not None
    assert seen.per_s == pytest.approx(4, rel=0.03)
    assert seen.cv == pytest.approx(1, abs=0.03)
    assert seen.tick_s is None
    assert ticked.tick_s == 1
    assert arrivals_seen(np.array([1.0])) is None
    together = arrivals_seen(np.array([1.0, 1.0]))
    assert together is not None
    assert together.per_s is None


def _turns(session: str, clock_s: list[float | None], gaps_s: list[float | None], api_s: float) -> list[TraceRequest]:
    return [
        TraceRequest(1, 64, 1, at_s, session, BlockIds([0, 1], 32, session), gap_s, api_s)
        for at_s, gap_s in zip(clock_s, gaps_s, strict=True)
    ]


@pytest.mark.parametrize("clock", [Clock.SESSION, Clock.TRACE])
def test_idle_time_is_the_gap_where_it_is_told(clock: Clock) -> None:
    """Sessions that tell pauses alone: content is idle from an answer to the next request."""
    collector = PathCollector(clock)
    for request in _turns("a", [0.0, None, None], [None, 10.0, 100.0], 3.0):
        collector.add(request)
    curves = retention(collector)
    assert curves.kept is not None
    assert [curves.kept.at(time_s) for time_s in (9.9, 10.1, 100.1)] == [0, 64, 128]


def test_sessions_with_clocks_of_their_own_lie_over_each_other() -> None:
    """A cache for one session holds nothing while two alternate; row order would have said otherwise."""
    collector = PathCollector(Clock.SESSION)
    for session in ("a", "b"):
        for request in _turns(session, [0.0, 5.0, 10.0], [None, 4.0, 4.0], 1.0):
            collector.add(request)
    curves = retention(collector)
    assert (curves.lru.at(2), curves.lru.at(4), curves.hit_tokens) == (0, 256, 256)


def test_a_front_all_sessions_share_is_held_once() -> None:
    """Two sessions of local ids, of which the first block is the same text."""
    collector = PathCollector(Clock.SESSION)
    for session in ("a", "b"):
        collector.add(TraceRequest(1, 64, 1, 0.0, session, BlockIds([0, 1], 32, session), shared_tokens=40))
    curves = retention(collector)
    assert (curves.distinct_blocks, curves.hit_tokens) == (3, 32)


def test_a_subagent_may_begin_with_its_parents_front() -> None:
    """Then it begins with the shared one, too: what follows the front is the same in both."""
    collector = PathCollector(Clock.SESSION)
    ids = BlockIds([0, 1, 2], 32, "a")
    collector.add(TraceRequest(1, 96, 1, 0.0, "a", ids, shared_tokens=64))
    collector.add(TraceRequest(2, 96, 1, 0.0, "a/sub", ids, parent="a"))
    collector.add(TraceRequest(3, 96, 1, 0.0, "b", BlockIds([0, 1, 2], 32, "b"), shared_tokens=64))
    curves = retention(collector)
    assert (curves.distinct_blocks, curves.hit_tokens, curves.optimum[-1]) == (4, 96 + 64, 96 + 64)


def test_spans_become_blocks_however_sessions_change_them() -> None:
    """A session grows, is cut back, and another one shares its front: full blocks alone are hit."""
    collector = PathCollector(Clock.NONE, span_block_tokens=16)
    prompts = [
        ("a", (Span("x", 0, 40),)),
        ("a", (Span("x", 0, 70),)),  # hits 32: 2 full blocks of the 40
        ("a", (Span("x", 0, 20), Span("y", 0, 30))),  # hits 16
        ("b", (Span("x", 0, 20), Span("y", 0, 30))),  # hits 48 of 50
    ]
    for session, spans in prompts:
        collector.add(TraceRequest(1, sum(span.length for span in spans), 1, None, session, spans))
    curves = retention(collector)
    assert curves.hit_tokens == 32 + 16 + 48
    assert curves.kept is None


def test_sizes_of_a_curve_end_at_all_blocks() -> None:
    """And begin where something small fits."""
    assert sizes_for(0) == (1,)
    assert sizes_for(5) == (1, 2, 3, 4, 5)
    assert sizes_for(100_000)[-1] == 100_000
    assert json.dumps(sizes_for(100_000))  # plain numbers
