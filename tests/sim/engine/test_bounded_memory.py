"""A run whose records leave memory, and whose engine forgets, tells the same as one that keeps everything."""

import pytest
import simpy
from engine_strategies import agent, closed, engine_setup, engines, everything, loads, step_times
from hypothesis import given
from hypothesis import strategies as st

from sim.engine import intake as intake_file
from sim.engine.clients import StopRule
from sim.engine.engine import Engine
from sim.engine.given import GivenRequests
from sim.engine.record import Run, TurnRecord
from sim.engine.simulation import EngineSetup, LoadSetup, engine_of, simulate
from sim.results import table_keeper
from sim.results.measure import measure
from sim.results.metrics import Slo, run_metrics
from sim.results.table_keeper import TableKeeper
from sim.results.turn_table import TURN, TurnTable, table_of
from workloads.recorded import RecordedRequest
from workloads.session import Prompt
from workloads.span import Span

SLO = Slo(ttft_p99_s=0.5, tpot_p99_s=0.05)
STEPS = step_times(overhead_s=0.1)


class Everything:
    """Keeps all records, of an engine that is told to forget."""

    def __init__(self) -> None:
        self.records: list[TurnRecord] = []
        self.ended: list[TurnRecord] = []
        self.append = self.records.append
        self.over = self.ended.append


@given(engines(), loads(), st.integers(0, 2**32 - 1), st.sampled_from([1, 7, 10_000]))
def test_an_engine_that_forgets_decides_the_same(setup: EngineSetup, load: LoadSetup, seed: int, asked: int) -> None:
    """Every field of every record, who evicted whose blocks included, however early names of askers are dropped."""
    expected = simulate(setup, load, seed)
    keeper = Everything()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intake_file, "_ASKED_AT_FIRST", asked)
        run = simulate(setup, load, seed, keeper)
    assert everything(Run(keeper.records, run.log, run.duration_s, 0)) == everything(expected)
    over = [record for record in keeper.records if record.outcome.value != "unfinished"]
    assert sorted(map(id, keeper.ended)) == sorted(map(id, over))


@given(engines(), loads(), st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 1000]))
def test_metrics_are_the_same_to_the_bit(setup: EngineSetup, load: LoadSetup, seed: int, at_once: int) -> None:
    """Whatever was evicted, preempted, refused or cut off, and however many turns are let go of at a time."""
    run = simulate(setup, load, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_keeper, "AT_ONCE", at_once)
        for population in ("session", "background"):
            expected = {key: repr(float(value)) for key, value in run_metrics(run, population, SLO).items()}
            found = measure(setup, load, seed, population=population, slo=SLO)
            assert {key: repr(float(value)) for key, value in found.items()} == expected


@given(engines(), loads(), st.integers(0, 99))
def test_every_turn_is_in_the_table_once(setup: EngineSetup, load: LoadSetup, seed: int) -> None:
    """In the order in which turns were over; the rows are those of the records."""
    keeper = TableKeeper()
    assert simulate(setup, load, seed, keeper).records == []
    found, kept = keeper.table(), table_of(simulate(setup, load, seed).records)
    names = [*TURN.names]
    names.remove("population")  # numbered as they come
    assert len(found.turns) == len(kept.turns)
    for population in kept.populations:
        ours, theirs = (sorted(map(repr, table.of(population).turns[names].tolist())) for table in (found, kept))
        assert ours == theirs


def test_records_go_to_the_file_so_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, with its numbers; those that were under way when the run stopped come last."""
    monkeypatch.setattr(table_keeper, "AT_ONCE", 5)
    written: list[list[str]] = []

    class File:
        def write(self, records: list[TurnRecord], table: TurnTable) -> None:
            written.append([record.outcome.value for record in records])
            assert len(table.turns) == len(records)

    keeper = TableKeeper(File())
    simulate(engine_setup(STEPS), closed(agent(turns=3), 2, requests=21), 0, keeper)
    assert len(keeper.table().turns) == sum(map(len, written))
    assert list(map(len, written[:-1])) == [5] * 4
    assert written[-1][-1] == "unfinished"


def contents(keeper: Everything | None, load: LoadSetup, setup: EngineSetup, patch: pytest.MonkeyPatch) -> int:
    """Return how many chains of content an engine still knows after a run."""
    engines_made: list[Engine] = []

    def remembered(env: simpy.Environment, deployment: EngineSetup) -> Engine:
        engines_made.append(engine_of(env, deployment))
        return engines_made[-1]

    patch.setattr("sim.engine.simulation.engine_of", remembered)
    simulate(setup, load, 0, keeper)
    return len(engines_made[0]._content._chains)


@pytest.mark.parametrize("keeps_output", [True, False])
def test_content_is_known_as_long_as_its_session_lasts(*, keeps_output: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shared prefix for ever, and else only what sessions under way may send again; refusals end sessions, too."""
    workload = agent(prefix=40, turns=4, new=30, output=20, keeps_output=keeps_output)
    for limit in (1000, 150):  # the second refuses the last turns
        setup = engine_setup(STEPS, max_model_len=limit)
        counts = [
            contents(keeper, closed(workload, 3, sessions_per_client=many), setup, monkeypatch)
            for keeper, many in ((Everything(), 2), (Everything(), 20), (None, 20))
        ]
        assert counts[0] == counts[1] <= 2
        assert counts[2] > 100


def test_given_requests_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """They say that nobody sends their tokens again."""
    sent = [RecordedRequest(float(n), Prompt((Span(n, 0, 40),), Span(n, 40, 9), 0)) for n in range(50)]
    load = LoadSetup((), StopRule(), given=GivenRequests("session", sent))
    assert contents(Everything(), load, engine_setup(STEPS), monkeypatch) == 0
    assert contents(None, load, engine_setup(STEPS), monkeypatch) == 50
