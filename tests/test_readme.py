"""The README keeps its promises: its commands run, its tables are what the tool says, its links lead somewhere."""

import json
import re
import shlex
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from sim.cli import main
from sim.sweep.address import parse_address

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
LINES = [line.strip() for language, block in BLOCKS if language == "sh" for line in block.splitlines()]
CALIBRATION = next(block for _, block in BLOCKS if "kvcliff calibrate" in block).splitlines()
COMMANDS = [line for line in LINES if line.startswith("kvcliff ") and line not in CALIBRATION]
MAKES = [line for line in LINES if line.startswith("make ")]
CHEAP = ("--points", "1", "--seeds", "1", "--quick", "--json")
OFF_FROM = 0.195  # errors that round to 20 % or more have to be named


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand where the README's paths begin."""
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    """Load the script that writes the tables."""
    spec = spec_from_file_location("readme_tables", ROOT / "notebooks" / "readme_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _invoke(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


def _cheap(arguments: list[str]) -> list[str]:
    """One session count, one seed, nothing written; `--check` cannot hold then."""
    for flag in {"--out", "--records"}.intersection(arguments):
        at = arguments.index(flag)
        arguments = arguments[:at] + arguments[at + 2 :]
    return [argument for argument in arguments if argument != "--check"] + list(CHEAP)


def _section(start: str) -> str:
    """Return the paragraph that begins so."""
    return TEXT[TEXT.index(start) :].split("\n\n", 1)[0]


def test_shell_blocks_hold_only_lines_that_are_tested() -> None:
    """A line of another kind would go unexecuted."""
    assert {language for language, _ in BLOCKS} == {"sh", "yaml"}
    rest = [line for line in LINES if line not in {*COMMANDS, *CALIBRATION, *MAKES}]
    assert rest == [". .venv/bin/activate"]


def test_the_calibration_block_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line uses what the lines above wrote; calibration is cut short, the simulation to one session count."""
    for name in ("scenarios", "calibrate"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    for line in CALIBRATION:
        arguments = shlex.split(line)[1:]
        if arguments[0] == "calibrate":
            arguments[arguments.index("--budget-minutes") + 1] = "0.3"
        assert _invoke(*(_cheap(arguments) if arguments[0] == "run" else arguments))
    assert {path.name for path in tmp_path.glob("*.yaml")} == {"mine.yaml", "transferred.yaml", "anchored.yaml"}


@pytest.mark.parametrize("line", COMMANDS)
def test_command_runs_as_written(line: str, tmp_path: Path) -> None:
    """Simulations at one session count, everything else unchanged."""
    arguments = shlex.split(line)[1:]
    if arguments[0] in {"run", "sweep"}:
        flags = {option for parameter in main.commands[arguments[0]].params for option in parameter.opts}
        assert {argument for argument in arguments if argument.startswith("--")} <= flags
        arguments = _cheap(arguments)
    for at, argument in enumerate(arguments[:-1]):
        if argument in {"-o", "--export"}:
            form, colon, file = arguments[at + 1].rpartition(":")
            arguments[at + 1] = f"{form}{colon}{tmp_path / file}"
    if "--cluster" in arguments:  # nobody runs one here
        at = arguments.index("--cluster")
        assert parse_address(arguments[at + 1]).port
        del arguments[at : at + 2]
    assert _invoke(*arguments, *(["--out", str(tmp_path)] if arguments[0] in {"sweep", "trace"} else []))


@pytest.mark.parametrize("line", MAKES)
def test_make_target_exists(line: str) -> None:
    """`make cliff` and `make test` are targets with a help text."""
    target = shlex.split(line, comments=True)[1]
    assert re.search(rf"^{target}:.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_scenario_by_example_runs(tmp_path: Path) -> None:
    """The YAML block is a whole scenario."""
    (block,) = [block for language, block in BLOCKS if language == "yaml" and "workload:" in block]
    path = tmp_path / "my-agent.yaml"
    path.write_text(block, encoding="utf-8")
    assert json.loads(_invoke("run", str(path), *CHEAP))["scenario"] == "my-agent"


def test_the_anchor_file_is_one(tmp_path: Path) -> None:
    """Its figures are within reach of the GPU, and the fit comes near them."""
    (block,) = [block for language, block in BLOCKS if language == "yaml" and "figures:" in block]
    path = tmp_path / "anchor.yaml"
    path.write_text(block, encoding="utf-8")
    printed = json.loads(_invoke("fit", "--anchor", str(path), "--json"))
    assert len(printed["anchors"]) == block.count("{kind:")
    assert printed["missed"] == []


def test_json_keys_are_there() -> None:
    """Every key that the README names is printed."""
    printed = json.loads(
        _invoke("run", "scenarios/l4-qwen3-4b-fp8.yaml", "--points", "1", "--seeds", "2", "--quick", "--json")
    )
    names = set(re.findall(r"`(\w+)`", _section("`--json` prints").replace("`--json`", "")))
    point = {name for name in names if name not in printed}
    assert len(names & set(printed)) >= 10
    assert point - {"_low", "_high"} <= set(printed["points"][0])
    assert "ttft_p99_s_low" in printed["points"][0]


def test_output_files_are_named(tmp_path: Path) -> None:
    """What `run` writes is what the README lists."""
    scenarios = ("scenarios/l4-qwen3-4b-fp8.yaml", "scenarios/l4-bound-best.yaml")
    _invoke("run", *scenarios, "--variants", "--points", "1", "--seeds", "1", "--quick", "--out", str(tmp_path))
    text = _section("`run` writes")
    written = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    stems = {Path(name).stem if name.endswith(".svg") else name for name in written}
    assert {stem for stem in stems if stem not in text} == set()
    named = set(re.findall(r"([a-z]+\.(?:png|csv|json))`", text))
    assert named <= written


def test_exit_codes() -> None:
    """1 for a failed check, 2 for bad input with the nearest name."""
    fp8 = "scenarios/l4-qwen3-4b-fp8.yaml"
    _invoke("run", fp8, *CHEAP, "--check", code=1)
    said = _invoke("run", fp8, *CHEAP, "--set", "engine.kv_cache_dtyp=fp8", code=2)
    assert "did you mean 'kv_cache_dtype'" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", TEXT))
def test_link_leads_somewhere(target: str) -> None:
    """All links are files of the repository."""
    assert (ROOT / target).exists()


def test_section_links_lead_to_sections() -> None:
    """Anchors are headings as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) <= anchors


@pytest.mark.parametrize("picture", sorted((ROOT / "notebooks" / "pictures").iterdir()), ids=lambda path: path.stem)
def test_picture_is_small(picture: Path) -> None:
    """A repository is no place for megabytes."""
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000


def _told(tables: ModuleType) -> Mapping[str, str]:
    return dict(tables.tables_in(TEXT))


def test_tables_of_the_kv_dtypes(tables: ModuleType) -> None:
    """Predicted against published, and the knees, from fresh runs; large errors are named in the prose."""
    results = [tables.run(name, explain=True) for name in tables.KV_DTYPES]
    assert _told(tables)["fp8"] == tables.fp8_table(results[0])
    assert _told(tables)["kv-dtypes"] == tables.dtype_table(results)
    prose = _section("**Is off:**")
    named = sorted(int(text) for text in re.findall(r"(\d+) %", prose))
    cells = tables.cell_errors(results[0].points, tables.published(results[0]))
    assert named == sorted(round(abs(cell.error) * 100) for cell in cells if abs(cell.error) >= OFF_FROM)


def test_table_of_the_bounds(tables: ModuleType) -> None:
    """Best, realistic and worst case from fresh runs."""
    assert _told(tables)["bounds"] == tables.bounds_table(tables.bounds())


def test_table_of_sensitivities(tables: ModuleType) -> None:
    """The columns at the knee, from fresh runs; the others would take minutes, `make picture` makes them."""
    results = tables.variants([tables.KNEE])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in _told(tables)["sensitivity"].splitlines()]
    shown = {row[0]: row[2:4] for row in rows[2:]}
    assert shown == {name: tables.knee_columns(result) for name, result in results.items()}


def test_table_of_the_validation(tables: ModuleType) -> None:
    """It is the committed page's, column by column."""
    assert _told(tables)["validation"] == tables.validation_table()
    assert _told(tables)["memory"] == tables.memory_table()


def test_table_of_speed(tables: ModuleType) -> None:
    """It is the newest section of the committed page."""
    assert _told(tables)["speed"] == tables.speed_table()


def test_ledger_estimate_is_as_told() -> None:
    """The doubt about capacity is stated with the ledger's own figures."""
    scenario = "scenarios/l4-qwen3-4b-fp8.yaml"
    ledger: dict[str, Any] = json.loads(_invoke("memory", scenario, "--set", "engine.kv_cache_tokens=null", "--json"))
    low, high = (ledger[f"num_gpu_blocks_{end}"] * 16 for end in ("low", "high"))
    assert f"{ledger['kv_cache_tokens']:,} tokens for fp8 ({low:,} to {high:,})" in TEXT
