"""Explorations side by side: the same results as one by one, in as few rounds as the longest needs, and failures."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from command_line import kvcliff
from small_scenario import SMALL

from sim.errors import ScenarioError
from sim.run import Exploration, run_all, run_scenario
from sim.scenario import Scenario
from sim.setup import Deployment, deploy
from sim.strict_yaml import apply_overrides, decode, parse_yaml
from sim.sweep import local
from sim.sweep.local import LocalRunner
from sim.sweep.runner import Finished, Job
from sim.sweep.task import Failure, Task, attempt


def deployed(*overrides: str) -> Deployment:
    """Return the small scenario with some keys changed."""
    return deploy(decode(apply_overrides(parse_yaml(SMALL, "small.yaml"), overrides), Scenario), "small.yaml")


CLIFF = ("engine.kv_cache_tokens=9000", "engine.max_model_len=8192", "workload.turns=6", "workload.new_tokens=650")


class Rounds:
    """Runs jobs here, last first, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Sequence[Job]] = []

    def __call__(self, jobs: Sequence[Job], /) -> Iterator[Finished]:
        """Run them."""
        self.asked.append(jobs)
        for place in reversed(range(len(jobs))):
            yield Finished(place, attempt(jobs[place].deployment, jobs[place].task))


def test_explorations_share_rounds_and_do_not_disturb_each_other() -> None:
    """One bisects and explains, one only has a grid; both find what they find alone."""
    cliff, plain = deployed(*CLIFF, "load.sessions=[1, 8]", "seeds=1"), deployed()
    rounds = Rounds()
    told: list[tuple[int, int]] = []
    both = run_all(
        [Exploration(cliff), Exploration(plain, explain=False)], rounds, lambda done, of: told.append((done, of))
    )
    assert both == [run_scenario(cliff), run_scenario(plain, explain=False)]
    assert both[0].knee.refined_sessions is not None
    assert both[0].cause is not None
    grid, *later = rounds.asked
    assert {id(job.deployment) for job in grid} == {id(cliff), id(plain)}
    assert {id(job.deployment) for asked in later for job in asked} == {id(cliff)}
    total = sum(map(len, rounds.asked))
    assert [done for done, _ in told] == list(range(1, total + 1))
    assert told[-1] == (total, total)
    assert all(done <= of for done, of in told)


def test_pairs_with_and_without_a_limit_share_their_seed() -> None:
    """Common random numbers: their ratio is of the same sessions."""
    rounds = Rounds()
    run_all([Exploration(deployed(), explain=False)], rounds)
    (jobs,) = rounds.asked
    assert [(job.task.level, job.task.seed, job.task.lifted) for job in jobs] == [
        (level, seed, lifted) for level in (1, 2) for seed in (0, 1) for lifted in (None, "KV cache")
    ]
    assert [job.task for job in jobs if job.task.turns] == [Task(level, 0, turns=True) for level in (1, 2)]


def failing_at(level: int, error: Failure) -> type[Rounds]:
    """Return a runner whose tasks at one level fail."""

    class Failing(Rounds):
        def __call__(self, jobs: Sequence[Job], /) -> Iterator[Finished]:
            for finished in super().__call__(jobs):
                failed = jobs[finished.place].task.level == level
                yield Finished(finished.place, error) if failed else finished

    return Failing


def test_a_level_that_fails_is_left_out_and_told() -> None:
    """The knee is that of the others."""
    cliff = deployed(*CLIFF, "load.sessions=[1, 6, 8]", "seeds=1")
    whole, lost = (
        run_all([Exploration(cliff, explain=False)], runner)[0]
        for runner in (LocalRunner(1), failing_at(6, Failure("E: no"))())
    )
    assert [point["sessions"] for point in lost.points] == [1, 8]
    assert lost.points == [whole.points[0], whole.points[2]]
    assert {task.level for task in lost.failed} == {6}
    assert set(lost.failed.values()) == {Failure("E: no")}
    assert lost.knee.sessions == 8


def test_a_probe_that_fails_ends_the_bisection() -> None:
    """What the grid says stands."""
    cliff = deployed(*CLIFF, "load.sessions=[1, 8]", "seeds=1")
    (lost,) = run_all([Exploration(cliff)], failing_at(4, Failure("E: no"))())
    assert (lost.knee.sessions, lost.knee.refined_sessions) == (8, 8)
    assert {task.level for task in lost.failed} == {4}
    assert lost.cause is not None


def test_a_run_stops_at_the_first_failure() -> None:
    """With the traceback where it is ours to mend, in one line where it is the user's."""
    with pytest.raises(RuntimeError, match=r"(?s)level=1.*ValueError: x.*Traceback of the worker"):
        run_scenario(deployed(), runner=failing_at(1, Failure("ValueError: x", "Traceback of the worker"))())
    with pytest.raises(ScenarioError, match=r"^a turn needs tokens$"):
        run_scenario(deployed(), runner=failing_at(1, Failure("a turn needs tokens"))())


def test_a_run_of_several_scenarios_and_variants_is_the_same_by_workers(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte, however many processes."""
    other = small.with_name("other.yaml")
    other.write_text(small.read_text(encoding="utf-8").replace("name: small", "name: other"), encoding="utf-8")
    arguments = ("run", small, other, "--variants", "--points", "1-3", "--json")
    here = kvcliff(*arguments, "--jobs", "1")
    assert here.exit_code == 0, here.output
    monkeypatch.setattr(local.LocalRunner, "_worth_workers", lambda *_: True)
    assert kvcliff(*arguments, "--jobs", "2").stdout == here.stdout
