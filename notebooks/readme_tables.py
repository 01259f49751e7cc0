"""The README's tables and pictures, from fresh runs: `make picture`.

A table stands in README.md between `<!-- table: NAME -->` and `<!-- end -->`. tests/test_readme.py makes the
tables again and compares them letter by letter.
"""  # noqa: INP001 (a script, not a package)

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from PIL import Image

from calibrate.validation.e2e_errors import REQUIRED_SOURCES, TOGETHER
from sim.checks import published_rows
from sim.cli import main as kvcliff
from sim.load import load_deployment
from sim.report.files import write_files
from sim.report.terminal import comparison_rows
from sim.results.points import Row, humane
from sim.results.published_errors import CellError, cell_errors, median_error
from sim.run import Result, run_scenario
from sim.units import seconds

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = ROOT / "scenarios"
README, PICTURES = ROOT / "README.md", ROOT / "notebooks" / "pictures"

VALIDATION = ROOT / "notebooks" / "validation" / "e2e.md"
MEMORY = ROOT / "notebooks" / "validation" / "memory.md"
BENCHMARKS = ROOT / "notebooks" / "benchmarks.md"

BASE = "l4-qwen3-4b-fp8"
KV_DTYPES = (BASE, "l4-qwen3-4b-fp16", "l4-qwen3-4b-tq4")
BOUNDS = {"best": "l4-bound-best", "realistic": BASE, "worst": "l4-bound-worst"}
BOUND_SESSIONS = (1, 6, 12, 14, 48)
BELOW, KNEE, BEYOND = 12, 14, 48
METRICS = ("ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "requests_per_s")


def run(
    name: str,
    overrides: Sequence[str] = (),
    levels: Sequence[int] | None = None,
    seeds: int | None = None,
    *,
    explain: bool = False,
) -> Result:
    """Simulate a shipped scenario."""
    deployment = load_deployment(SCENARIOS / f"{name}.yaml", overrides)
    return run_scenario(deployment, levels=levels, seeds=seeds, explain=explain)


def fp8_table(result: Result) -> str:
    """Return predicted and published figures with their relative errors, a row a session count."""
    cells = {(cell.sessions, cell.metric): cell for cell in cell_errors(result.points, published(result))}
    rows = [
        [f"{point['sessions']:g}", *(_against(cells[point["sessions"], metric]) for metric in METRICS)]
        for point in result.points
    ]
    head = ["sessions", "TTFT p50", "TTFT p95", "TTFT p99", "requests/s"]
    below, knee = at(result, BELOW), at(result, KNEE)
    jump = knee["ttft_p99_s"] / below["ttft_p99_s"]
    drop = 1 - knee["requests_per_s"] / below["requests_per_s"]
    error = median_error(result.points, published(result))
    assert error is not None
    return (
        f"{markdown(head, rows)}\n\n"
        f"Median |error| over the {len(cells)} cells: {_share(error)}.\n"
        f"From {BELOW} to {KNEE} sessions p99 TTFT grows {jump:.0f}-fold (published: 15-fold) "
        f"and throughput falls by {drop * 100:.0f} % (published: 23 %)."
    )


def dtype_table(results: Sequence[Result]) -> str:
    """Return capacity, division by hand, knee and SLO capacity of the KV dtypes, with what was published."""
    rows = []
    for result, row in zip(results, comparison_rows(results), strict=True):
        knee = result.knee
        refined = f"{knee.sessions} (bisected: {knee.refined_sessions})"
        theirs = row["published_slo_sessions"]
        known = "predicted" if theirs is None else "measured"
        rows.append(
            [
                result.deployment.scenario.engine.kv_cache_dtype,
                f"{row['kv_cache_tokens']:,}",
                f"{row['by_hand']:.1f}",
                refined,
                f"{row['published_knee_sessions']} ({known})",
                str(result.slo_sessions),
                "-" if theirs is None else str(theirs),
            ]
        )
    head = ["KV dtype", "KV tokens", "by hand", "KV knee", "published knee", "SLO capacity", "published"]
    return markdown(head, rows)


def bounds_table(results: Mapping[str, Result]) -> str:
    """Return TTFT p50 of the best, realistic and worst case, with the published figures there are."""
    rows = []
    for sessions in BOUND_SESSIONS:
        worst = at(results["worst"], sessions)
        cells = [_with_published(result, sessions, "ttft_p50_s") for result in results.values()]
        rate = _with_published(results["worst"], sessions, "requests_per_s")
        rows.append([f"{worst['sessions']:g}", *cells, rate])
    first, last = at(results["worst"], BOUND_SESSIONS[0]), at(results["worst"], BOUND_SESSIONS[-1])
    slope_s = (last["ttft_p50_s"] - first["ttft_p50_s"]) / (last["sessions"] - first["sessions"])
    best_p99_s = at(results["best"], BEYOND)["ttft_p99_s"]
    return (
        f"{markdown(['sessions', *(f'{name}: p50' for name in results), 'worst: requests/s'], rows)}\n\n"
        f"In the worst case each session adds {seconds(slope_s)} (published: 2.1 s).\n"
        f"In the best case p99 is {seconds(best_p99_s)} at {BEYOND} sessions (published: within 2 s)."
    )


def sensitivity_table(results: Mapping[str, Result]) -> str:
    """Return what each open choice does, a row a variant."""
    head = ["setting", f"p50 at {BELOW}", *KNEE_COLUMNS, f"p50 at {BEYOND}", "KV knee", "SLO capacity", "median error"]
    rows = []
    for name, result in results.items():
        error = median_error(result.points, published(result))
        assert error is not None
        full = [
            seconds(at(result, BEYOND)["ttft_p50_s"]),
            str(result.knee.sessions),
            str(result.slo_sessions),
            _share(error),
        ]
        below = seconds(at(result, BELOW)["ttft_p50_s"])
        rows.append([name, below, *knee_columns(result), *full])
    return markdown(head, rows)


def validation_table() -> str:
    """Return the limits of the end-to-end page, a row a metric and a column a source, with counts of loads."""
    text = VALIDATION.read_text(encoding="utf-8").split("## Median errors and their limits", 1)[1].split("##", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")][2:]
    cells: dict[tuple[str, str], dict[str, str]] = {}
    limits: dict[tuple[str, str], str] = {}
    for line in lines:
        source, regime, metric, loads, median, _, limit, _ = (cell.strip() for cell in line.split("|")[1:-1])
        cells.setdefault((regime, metric), {})[source] = f"{median} ({loads})"
        limits[regime, metric] = limit
    rows = [
        [
            f"{metric}, {regime}",
            limits[regime, metric],
            *(row.get(source, "-") for source in (TOGETHER, *REQUIRED_SOURCES)),
        ]
        for (regime, metric), row in cells.items()
        if TOGETHER in row
    ]
    return markdown(["metric, regime", "limit", "together", *(f"`{source}`" for source in REQUIRED_SOURCES)], rows)


def memory_table() -> str:
    """Return what the page of posted start-ups holds the ledger against."""
    lines = [line for line in MEMORY.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return markdown(rows[0], rows[1:])


def speed_table() -> str:
    """Return the targets of the newest full benchmark of each build, and where it was measured."""
    sections = BENCHMARKS.read_text(encoding="utf-8").split("\n## ")[1:]
    columns: dict[str, dict[str, str]] = {}
    wanted: dict[str, str] = {}
    measured: list[str] = []
    for section in sections:
        heading, machine, _ = section.split("\n\n", 2)
        build = "Python" if "not compiled" in machine else "compiled"
        if build in columns:
            continue
        rows = section.split("### Targets\n\n", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
        cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
        columns[build] = {name: value if met != "no" else f"{value} (missed)" for name, value, _, met in cells}
        wanted |= {name: limit for name, _, limit, _ in cells}
        measured.append(f"{build}: {heading.partition(',')[0]}, {machine}")
    rows = [[name, limit, *(values.get(name, "-") for values in columns.values())] for name, limit in wanted.items()]
    return "\n\n".join([markdown(["target", "wanted", *columns], rows), "\n".join(measured)])


KNEE_COLUMNS = (f"p99 at {KNEE}", f"requests/s at {KNEE}")


def knee_columns(result: Result) -> list[str]:
    """Return the columns of the sensitivity table that need only one session count."""
    knee = at(result, KNEE)
    return [seconds(knee["ttft_p99_s"]), f"{knee['requests_per_s']:.2f}"]


def variants(levels: Sequence[int] | None = None) -> dict[str, Result]:
    """Run the base scenario and its variants."""
    specs = load_deployment(SCENARIOS / f"{BASE}.yaml").scenario.variants
    results = {"as it is": run(BASE, levels=levels)}
    for spec in specs:
        overrides = [f"{key}={msgspec.json.encode(value).decode()}" for key, value in spec.set.items()]
        results[spec.name] = run(BASE, overrides, levels)
    return results


def bounds() -> dict[str, Result]:
    """Run the three cases; best and worst draw next to nothing at random, so they take one seed."""
    return {
        name: run(scenario, levels=BOUND_SESSIONS, seeds=None if scenario == BASE else 1)
        for name, scenario in BOUNDS.items()
    }


def at(result: Result, sessions: float) -> dict[str, float]:
    """Return the point at a session count."""
    return next(point for point in result.points if point["sessions"] == sessions)


def published(result: Result) -> list[dict[str, float]]:
    """Return what was published about a scenario."""
    return published_rows(result.deployment.scenario)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, padded so that it reads well as text."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))} |"

    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return "\n".join([line(head), rule, *map(line, rows)])


def tables_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield each marked table's name and text."""
    for match in MARKED.finditer(text):
        yield match["name"], match["table"]


def with_tables(text: str, tables: Mapping[str, str]) -> str:
    """Return the text with the marked tables replaced; each must have its marker."""
    assert {name for name, _ in tables_in(text)} == set(tables)
    return MARKED.sub(lambda match: f"{match['head']}{tables[match['name']]}{match['foot']}", text)


MARKED = re.compile(
    r"(?P<head><!-- table: (?P<name>[a-z0-9-]+) -->\n\n)(?P<table>.*?)(?P<foot>\n\n<!-- end -->)", re.DOTALL
)


def draw_pictures(result: Result) -> None:
    """Save the tool's own charts: the cliff of a result, and the memory that README compares."""
    with TemporaryDirectory() as folder:
        _save(next(path for path in write_files(result, {}, Path(folder)) if path.name == "cliff.png"), f"{BASE}.png")
        line = next(line for line in README.read_text(encoding="utf-8").splitlines() if line.endswith("memory.png"))
        chart = Path(folder, "memory.png")
        kvcliff([*shlex.split(line)[1:-1], str(chart)], standalone_mode=False)
        _save(chart, "memory-qwen3-8b.png")


def _save(chart: Path, name: str) -> None:
    """With 128 colours: a fifth of the size, to the eye the same."""
    with Image.open(chart) as image:
        image.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(PICTURES / name, optimize=True)


def main() -> None:
    """Run everything, draw the picture, rewrite the tables; with the name of a page's table only that one."""
    text = README.read_text(encoding="utf-8")
    from_pages = {"validation": validation_table, "memory": memory_table, "speed": speed_table}
    if len(sys.argv) > 1:
        told = dict(tables_in(text)) | {name: from_pages[name]() for name in sys.argv[1:]}
        README.write_text(with_tables(text, told), encoding="utf-8")
        return
    by_dtype = [run(name, explain=True) for name in KV_DTYPES]
    draw_pictures(by_dtype[0])
    tables = {
        "fp8": fp8_table(by_dtype[0]),
        "kv-dtypes": dtype_table(by_dtype),
        "bounds": bounds_table(bounds()),
        "sensitivity": sensitivity_table(variants()),
        **{name: table() for name, table in from_pages.items()},
    }
    README.write_text(with_tables(text, tables), encoding="utf-8")
    for name, table in tables.items():
        sys.stdout.write(f"{name}\n\n{table}\n\n")


def _against(cell: CellError) -> str:
    ours, theirs = humane(cell.predicted, cell.metric), humane(cell.published, cell.metric)
    return f"{ours} / {theirs} ({_percent(cell.error)})"


def _percent(error: float) -> str:
    rounded = f"{error * 100:+.0f} %"
    return "0 %" if rounded in {"+0 %", "-0 %"} else rounded


def _share(value: float) -> str:
    return f"{value * 100:.1f} %"


def _with_published(result: Result, sessions: float, metric: str) -> str:
    shown = humane(at(result, sessions)[metric], metric)
    theirs: Row = next((row for row in published(result) if row["sessions"] == sessions), {})
    return f"{shown} / {humane(theirs[metric], metric)}" if metric in theirs else shown


if __name__ == "__main__":
    main()
