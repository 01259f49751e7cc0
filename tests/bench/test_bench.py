"""The benchmark suite runs, compares what it times, judges by its targets, and writes its history. Sizes are tiny."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from bench import child
from bench.__main__ import DATA, main, select
from bench.cases import CASES, COMMANDS, Case, Size
from bench.child import Order, Report
from bench.history import record
from bench.hot_spots import profile_tables
from bench.phases import LOOP, OURS, PHASES, PLAIN
from bench.plain_loop import generated_tokens
from bench.requests import drawn_rows, repeated
from bench.results import CaseResult, CommandResult, Outcome, Spread
from bench.suite import BenchError, measured, run_cases, run_commands
from bench.tables import notes, tables
from bench.targets import targets
from click.testing import CliRunner

TINY = Size(DATA, 0.01)


def once(cases: Iterable[Case]) -> list[Case]:
    """Return the cases with a single repetition each."""
    return [replace(case, rounds=1, repeats=1) for case in cases]


def silent(_: str) -> None:
    """Take no notice of progress."""


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """Measure every case once in this process, and the cheapest command in its own."""
    commands = [replace(COMMANDS["command/help"], rounds=1)]
    return measured(once(CASES.values()), commands, TINY, silent, child.measure)


def case_result(name: str, *, simulate_s: float = 1.0, tokens: int = 20_000_000, times: str = "") -> CaseResult:
    """Return a made-up result of one repetition."""
    same = Spread.of([simulate_s])
    return CaseResult(name, 20_000, tokens, 1, same, same, same, same, 10**9, None, None, times)


def test_every_case_has_its_row_and_simulated_something(outcome: Outcome) -> None:
    """Cases and commands come in the suite's order; that the plain engine agrees was checked on the way."""
    by_title = {table.title.partition(",")[0]: table for table in tables(outcome)}
    assert [row[0] for row in by_title["Cases"].rows] == list(CASES)
    assert [row[0] for row in by_title["Commands"].rows] == ["help"]
    assert len(by_title["Targets"].rows) == 14
    for case in outcome.cases:
        assert case.requests > 0
        assert case.output_tokens >= case.requests
        assert case.simulate_s.best > 0
        assert (case.plain_engine_s is not None) == CASES[case.name].against_plain_engine
        assert (case.plain_loop_s is not None) == (case.name in {"conv500", "conv2000", "conv20000"})


def test_small_sizes_judge_nothing(outcome: Outcome) -> None:
    """A target is a promise about full size."""
    assert {target.met for target in outcome.targets} == {None}
    assert any("0.01" in note for note in notes(outcome))


@pytest.mark.parametrize("state", ["below", "past"])
def test_prefix_lengths_are_compared_on_runs_with_the_same_times(outcome: Outcome, state: str) -> None:
    """Only the length of what is shared differs: every token comes at the same moment."""
    by_name = {case.name: case for case in outcome.cases}
    short, long = (by_name[f"closed48/{prefix}/{state}"] for prefix in (10_000, 100_000))
    assert short.times == long.times != ""


def test_another_result_of_the_plain_engine_is_an_error() -> None:
    """Speed against an engine that does something else would mean nothing."""

    def liar(order: Order) -> Report:
        report = child.measure(order)
        return msgspec.structs.replace(report, results="other") if order.engine == PLAIN else report

    with pytest.raises(BenchError, match="conv500: the plain engine gives other results"):
        run_cases(once([CASES["conv500"]]), TINY, silent, liar)


@pytest.mark.parametrize("name", ["conv500", "sess48/3500"])
def test_hashes_tell_runs_apart(name: str) -> None:
    """The same run gives the same hashes, one with more users others."""
    order = Order(name, OURS, 1, str(DATA), 0.02, compares=True)
    first, again = child.measure(order), child.measure(order)
    more = child.measure(msgspec.structs.replace(order, scale=0.05))
    assert (first.results, first.times) == (again.results, again.times)
    assert first.results != more.results
    assert first.times != more.times


def test_the_plain_loop_generates_what_was_asked() -> None:
    """Every request gets all its tokens, in a budget that splits prompts and a batch that is full."""
    rows = drawn_rows(60)
    assert generated_tokens(rows, max_num_batched_tokens=300, max_num_seqs=5) == sum(row.output_tokens for row in rows)


def test_rounds_of_a_trace_follow_each_other() -> None:
    """Arrivals ascend across rounds, and nothing else changes."""
    rows = drawn_rows(5)
    twice = list(repeated(rows, 2))
    arrivals = [row.arrival_s for row in twice]
    assert arrivals == sorted(set(arrivals))
    assert [row[1:] for row in twice] == 2 * [row[1:] for row in rows]


def test_without_shared_data_drawn_requests_stand_in(tmp_path: Path) -> None:
    """And whoever reads the results is told."""
    found = measured(once([CASES["conv500"]]), [], Size(tmp_path, 0.01), silent, child.measure)
    assert found.drawn_trace
    assert found.cases[0].requests == 5
    assert any("drawn requests" in note for note in notes(found))


def test_targets_are_met_or_not_by_the_best_repetition() -> None:
    """Rates have a floor, costs a ceiling; what was not measured is neither."""
    cases = [
        case_result("conv2000"),
        case_result("conv20000", tokens=4_000_000),
        case_result("doubling/24", simulate_s=1.0),
        case_result("doubling/48", simulate_s=2.1),
        case_result("doubling/96", simulate_s=6.3),
        case_result("million"),
    ]
    commands = [CommandResult("command/help", Spread.of([0.2, 0.9]), Spread.of([9.0]))]
    found = {
        target.name.partition(":")[0]: target.met
        for target in targets({case.name: case for case in cases}, {command.name: command for command in commands})
        if target.met is not None
    }
    assert found == {
        "conv2000": True,
        "conv20000": False,
        "24 to 48 sessions": True,
        "48 to 96 sessions": False,
        "kvcliff --help, from start to end": True,
        "1,000,000 requests": True,
    }


@pytest.mark.parametrize(("times", "met"), [("same", True), ("other", None)])
def test_prefixes_with_different_times_are_not_judged(times: str, met: bool | None) -> None:  # noqa: FBT001
    """Then the simulated engine behaved otherwise, and seconds say nothing of the simulator."""
    cases = [case_result("closed48/10000/below", times="same"), case_result("closed48/100000/below", times=times)]
    found = targets({case.name: case for case in cases}, {})
    assert next(target.met for target in found if "below" in target.name) is met


def test_history_grows_at_the_top(outcome: Outcome, tmp_path: Path) -> None:
    """Newest section first, older ones untouched, the introduction once."""
    page = tmp_path / "benchmarks.md"
    record(outcome, page)
    first = page.read_text(encoding="utf-8")
    later = msgspec.structs.replace(outcome.machine, date="2999-01-01")
    record(msgspec.structs.replace(outcome, machine=later), page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Benchmarks\n")
    assert text.endswith(first[first.index("\n## ") :])
    assert text.count("# Benchmarks") == 1
    assert text.index("2999-01-01") < text.index(f"## {outcome.machine.date}")


def test_profiles_name_phases_and_our_modules() -> None:
    """Two tables a phase, sorted by time, whose modules are those that work."""
    found = profile_tables(CASES["conv500"], TINY)
    assert [table.title.partition(":")[0] for table in found[::2]] == [f"conv500, {phase}" for phase in PHASES]
    simulate = next(table for table in found if "simulate" in table.title)
    assert {"sim.engine.engine", "sim.scheduling.continuous"} <= {row[0] for row in simulate.rows}
    spent_ms = [float(row[1].replace(",", "")) for row in simulate.rows]
    assert spent_ms == sorted(spent_ms, reverse=True)


def test_from_the_command_line_in_fresh_processes(tmp_path: Path) -> None:
    """The named case alone, tables on stdout, and the same as JSON."""
    written = tmp_path / "results.json"
    result = CliRunner().invoke(main, ["l4/sweep", "--scale", "0.01", "--json", str(written)])
    assert result.exit_code == 0, result.output
    assert "l4/sweep" in result.stdout
    (case,) = msgspec.json.decode(written.read_bytes(), type=Outcome).cases
    assert case.requests > 3 * 5 * 12
    assert case.whole_s.best > case.simulate_s.best
    assert case.peak_bytes > 2**24


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["conv2001"], "bench: no case or group 'conv2001' is not one of"),
        (["--profile", "conv2001"], "bench: --profile 'conv2001' is not one of"),
        (["--record", "--scale", "0.5"], "bench: --record wants all cases at full size"),
        (["--record", "conv2000"], "bench: --record wants all cases at full size"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    """With the nearest name where there is one."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(said)
    assert result.stderr.count("\n") == 1
    assert "--record" in arguments or "did you mean 'conv2000'?" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("names", "cases", "commands"),
    [
        ([], len(CASES) - 1, len(COMMANDS)),
        (["all", "million"], len(CASES), len(COMMANDS)),
        (["conv2000"], 2, 0),
        (["conv2000/sync", "command/help"], 1, 1),
        (["million"], 1, 0),
    ],
)
def test_names_and_groups_select(names: list[str], cases: int, commands: int) -> None:
    """What takes long is measured only when named; a group is everything before the slash."""
    selected = select(names)
    assert tuple(map(len, selected)) == (cases, commands)


def test_a_command_that_fails_is_an_error() -> None:
    """Its time would be that of an error message."""
    broken = replace(COMMANDS["command/help"], arguments=lambda _: ["no-such-command"], rounds=1)
    with pytest.raises(BenchError, match="command/help failed: kvcliff: "):
        run_commands([broken], TINY, silent)


@pytest.mark.benchmark
def test_ours_is_at_least_twice_as_fast_as_the_plain_engine() -> None:
    """Loosely, and in CPU seconds of one process, so that a busy machine cannot fail it."""
    order = Order("sess48/3500", OURS, 3, str(DATA), 0.25, compares=False)
    ours, plain = (child.measure(msgspec.structs.replace(order, engine=engine)) for engine in (OURS, PLAIN))
    assert min(plain.simulate_s) > 2 * min(ours.simulate_s)


def test_the_plain_loop_is_measured_on_the_same_tokens() -> None:
    """Its rate is one of the same trace."""
    order = Order("conv500", OURS, 1, str(DATA), 0.05, compares=False)
    ours, loop = (child.measure(msgspec.structs.replace(order, engine=engine)) for engine in (OURS, LOOP))
    assert (ours.requests, ours.output_tokens) == (loop.requests, loop.output_tokens)
