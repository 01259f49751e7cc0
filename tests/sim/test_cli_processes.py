"""The command line as a process: the same bytes every time, instant help, nothing imported in vain."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import python

L4 = Path(__file__).parents[2] / "scenarios" / "l4-qwen3-4b-fp8.yaml"
HELP_CPU_S = 0.4
RUN_TWICE = ("run", str(L4), "--points", "6,14", "--seeds", "2", "--quick")


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """Return the files and the JSON of two equal runs, from two folders and with two hash seeds."""
    outcomes: list[dict[str, bytes]] = []
    for seed in ("1", "4242"):
        folder = tmp_path_factory.mktemp(f"hash-seed-{seed}")
        code = "import os, sys; os.chdir(sys.argv.pop(1)); from sim.cli import main; main()"
        files = python("-c", code, str(folder), *RUN_TWICE, "--out", "here", PYTHONHASHSEED=seed)
        printed = python("-c", code, str(folder), *RUN_TWICE, "--json", PYTHONHASHSEED=seed)
        assert (files.returncode, printed.returncode) == (0, 0), files.stderr + printed.stderr
        outcome = {path.name: path.read_bytes() for path in (folder / "here").rglob("*.*")}
        outcomes.append(outcome | {"stdout": files.stdout.encode(), "--json": printed.stdout.encode()})
    return outcomes


@pytest.mark.parametrize(
    "what", ["cliff.png", "cliff.svg", "points.csv", "turns.csv", "result.json", "--json", "stdout"]
)
def test_the_same_input_gives_the_same_bytes(twice: list[dict[str, bytes]], what: str) -> None:
    """In another working directory, another process, another order of sets."""
    first, second = twice
    assert len(first[what]) > 100
    assert first[what] == second[what]
    assert first.keys() == second.keys()


def imported(modules: str, *arguments: str) -> list[str]:
    """Return which of the modules a command imports, in a process of its own."""
    code = (
        "import json, sys\n"
        "from sim.cli import main\n"
        "modules = sys.argv.pop(1).split()\n"
        "main(standalone_mode=False)\n"
        "sys.stderr.write(json.dumps([name for name in modules if name in sys.modules]))"
    )
    done = python("-c", code, modules, *arguments)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stderr)
    return found


def test_help_imports_neither_numpy_nor_matplotlib() -> None:
    """Nor anything else that takes time."""
    heavy = "numpy scipy matplotlib pandas simpy msgspec yaml rich torch"
    assert imported(heavy, "--help") == []
    assert imported(heavy, "run", "--help") == []


def test_a_json_run_never_imports_charts_tables_or_torch(small: Path) -> None:
    """What it needs it imports, so the check can fail."""
    found = imported("numpy simpy matplotlib pandas rich torch calibrate", "run", str(small), "--json")
    assert found == ["numpy", "simpy"]


def test_help_is_instant() -> None:
    """CPU seconds of a whole process, the best of three on a noisy machine."""

    def cpu_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = python("-c", "from sim.cli import main; main()", "--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert "KV-cache cliff" in done.stdout
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu_s() for _ in range(3)) < HELP_CPU_S


def test_the_installed_command_answers() -> None:
    """`kvcliff --version`, from the entry point beside this interpreter."""
    command = Path(sys.executable).with_name("kvcliff")
    if not command.exists():
        pytest.skip("kvcliff is not installed beside this interpreter")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.startswith("kvcliff, version ")
