"""Sharing of the sample traces against counts made independently of this project (see their README files)."""

import json
from pathlib import Path

import numpy as np
import pytest

from workloads.sharing.block_paths import BlockPaths
from workloads.sharing.lru import lru_curve
from workloads.sharing.optimum import next_uses, optimum_hits
from workloads.sharing.path_collector import PathCollector
from workloads.sharing.retention import retention
from workloads.sharing.unlimited import UnlimitedCache
from workloads.traces.open import open_trace
from workloads.traces.statistics import TraceStatistics, trace_statistics

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
MOONCAKE = DATA / "traces" / "mooncake"
WEKA = DATA / "traces" / "weka_cc"
REFERENCE = DATA / "results" / "kvcache_simulator"
NAMES = ("conversation_lines_00001-02500", "synthetic_lines_00001-01500")
TABLE = {  # hit rates by blocks of LRU, and distinct blocks
    NAMES[0]: ({32768: 0.3021, 8192: 0.1827, 2048: 0.0490, 512: 0.0385}, 0.3061, 47_330),
    NAMES[1]: ({32768: 0.2448, 8192: 0.1187, 2048: 0.0300, 512: 0.0127}, 0.2448, 26_752),
}

pytestmark = pytest.mark.skipif(not MOONCAKE.is_dir(), reason="shared/data is not beside this checkout")


def _read(name: str) -> tuple[TraceStatistics, BlockPaths]:
    trace = open_trace(MOONCAKE / f"{name}.jsonl")
    collector = PathCollector(trace.format.clock)
    return trace_statistics(trace, take=collector.add), collector.paths()


@pytest.mark.parametrize("name", NAMES)
def test_hit_rates_of_mooncakes_windows(name: str) -> None:
    """Unlimited and with LRU at four sizes, all requests counted."""
    found, paths = _read(name)
    at_sizes, unlimited, blocks = TABLE[name]
    assert found.sharing is not None
    assert found.sharing.overall.rate == pytest.approx(unlimited, abs=5e-5)
    assert found.sharing.distinct_blocks == blocks == paths.count
    curve = lru_curve(paths)
    for size, rate in at_sizes.items():
        assert curve.at(size) / found.prompt_tokens == pytest.approx(rate, abs=5e-5)


@pytest.mark.parametrize("name", NAMES)
def test_another_simulator_finds_the_same_to_the_token(name: str) -> None:
    """LRU, optimum and ceiling of kvcache-simulator 0.1.3, over the last half of the requests."""
    reference = json.loads((REFERENCE / f"{name}.llama-3.1-8b.json").read_text(encoding="utf-8"))
    first = reference["metadata"]["warmupRequests"]
    _, paths = _read(name)
    curve, uses = lru_curve(paths, measured_from=first), next_uses(paths)
    assert curve.at(paths.count) == reference["ceiling"]["hitTokens"]
    assert len(reference["points"]) > 5
    for point in reference["points"]:
        size, results = point["cacheBlocks"], point["results"]
        assert curve.at(size) == results["lru"]["hitTokens"]
        assert optimum_hits(paths, uses, size, measured_from=first) == results["optimal"]["hitTokens"]


def test_three_second_ticks_of_mooncakes_conversations_are_seen() -> None:
    """Its stamps are multiples of 3 s, rounded to a millisecond; the synthetic trace has none."""
    ticks = [_read(name)[0].arrivals for name in NAMES]
    assert ticks[0] is not None
    assert ticks[1] is not None
    assert ticks[0].tick_s == pytest.approx(3, abs=1e-3)
    assert ticks[1].tick_s is None


def test_claude_code_sessions_alone() -> None:
    """0.9531 of the main agents' 80.6 M prompt tokens; subagents are counted apart, and sessions share their front."""
    found = trace_statistics(open_trace(WEKA))
    assert (found.sessions, found.subagents) == (27, 5)
    assert found.sharing is not None
    alone = found.sharing.of_session
    assert alone is not None
    assert alone.requests == 1_001
    assert alone.prompt_tokens == pytest.approx(80.6e6, rel=1e-3)
    assert alone.rate == pytest.approx(0.9531, abs=5e-5)
    assert found.sharing.of_subagent is not None
    assert found.sharing.of_subagent.requests == found.subagent_requests
    assert found.sharing.across_tokens is not None
    assert 0 < found.sharing.across_tokens < 27 * 30_000  # the front of each session but the first


def test_distinct_tokens_of_claude_codes_main_agents() -> None:
    """3.75 M: ids of their session, whatever their subagents had."""
    cache = UnlimitedCache()
    for request in open_trace(WEKA):
        if request.parent is None:
            cache.add(request)
    assert cache.distinct_tokens == pytest.approx(3.75e6, rel=2e-3)
    assert np.isclose(cache.distinct_blocks * 64, cache.distinct_tokens, rtol=1e-3)


def test_retention_of_claude_code_has_the_published_shape() -> None:
    """Five minutes keep most of what comes back and an hour all but all of it, as in recorded deployments."""
    trace = open_trace(WEKA)
    collector = PathCollector(trace.format.clock)
    trace_statistics(trace, take=collector.add)
    kept = retention(collector).kept
    assert kept is not None
    shares = [kept.at(time_s) / kept.tokens for time_s in (60, 300, 3600)]
    assert shares == pytest.approx([0.752, 0.935, 0.999], abs=0.005)  # measured here; TraceLab says 0.85, 0.94, 0.986
