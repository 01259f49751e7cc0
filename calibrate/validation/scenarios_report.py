"""Scenarios' published figures beside simulated ones: simulated all together, as a table, a page and JSON."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from sim.commands.run import RunOptions, job_of, simulate_jobs
from sim.errors import ScenarioError
from sim.figures import Figure, figures_of
from sim.json_output import figure_json
from sim.report.figures_table import figures_table

Found = Mapping[str, Sequence[Figure]]  # by scenario


def simulated_figures(places: Sequence[Path], jobs: int | None = None) -> Found:
    """Simulate all scenarios in files and folders that list figures; return those by scenario.

    Raises ScenarioError if there is none, or two have one name.
    """
    files = [path for place in places for path in _files(place)]
    options = RunOptions(files, explain=False, check=True, jobs=jobs)
    known = {path: job_of(path, options) for path in files}
    chosen = [job for job in known.values() if job.deployment.scenario.checks.figures]
    if not chosen:
        raise ScenarioError(f"{', '.join(map(str, places))}: no scenario lists checks.figures")
    names = [job.deployment.scenario.name for job in chosen]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ScenarioError(f"two of the scenarios are named {twice!r}")
    finished = simulate_jobs(chosen, options)
    return {result.deployment.scenario.name: figures_of(result, variants) for result, variants in finished}


def summary(found: Found) -> str:
    """Return how many figures there are, how many are met, and how far off they are."""
    figures = [figure for listed in found.values() for figure in listed]
    met = sum(figure.met for figure in figures)
    text = f"{len(figures)} figures of {len(found)} scenario{'s' * (len(found) > 1)}, {met} as asked"
    errors = list(_errors(found))
    if errors:
        worst, where = max(errors)
        text += f"; median error {median(error for error, _ in errors):.1%}, largest {worst:.0%} ({where})"
    return text


def print_figures(console: Console, found: Found) -> None:
    """Print a table a scenario, and the summary."""
    for name, figures in found.items():
        console.print(name, style="bold", markup=False)
        console.print(figures_table(figures))
    console.print(summary(found), markup=False)


def figures_json(found: Found) -> dict[str, Any]:
    """Return everything in plain types."""
    figures = [{"scenario": name} | figure_json(one) for name, listed in found.items() for one in listed]
    return {"summary": summary(found), "met": all(figure["met"] for figure in figures), "figures": figures}


def page_of(found: Found, places: Sequence[Path]) -> str:
    """Return a Markdown page."""
    where = " ".join(place.as_posix() for place in places)
    lines = [
        f"# Published figures of `{where}`",
        "",
        f"Every number on this page comes from `kvcliff validate scenarios {where}`.",
        "",
        summary(found) + ".",
        "",
        "| scenario | figure | simulated | asked | error | |",
        "|---|---|---|---|---|---|",
    ]
    for name, figures in found.items():
        for one in figures:
            error = "" if one.error is None else f"{one.error:+.1%}"
            cells = (name, one.name, one.shown(one.simulated), one.demanded, error, "ok" if one.met else "off")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _errors(found: Found) -> Iterator[tuple[float, str]]:
    for name, listed in found.items():
        yield from ((abs(one.error), f"{name}, {one.name}") for one in listed if one.error is not None)


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    files = sorted(place.glob("*.yaml"))
    if not files:
        raise ScenarioError(f"{place}: holds no .yaml file")
    return files
