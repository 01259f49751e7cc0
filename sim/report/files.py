"""Writes a result's files: the chart as PNG and SVG, points and turns as CSV, everything as JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from matplotlib.figure import Figure

from sim.check_spec import BASE_VARIANT
from sim.checks import published_rows
from sim.errors import ScenarioError
from sim.json_output import result_json
from sim.report.atomic import replacing
from sim.report.charts import cliff_chart, compare_chart, remedies_chart, remove_figure, save_figure, trace_chart
from sim.report.csv_files import write_csv
from sim.report.remedies import Finished, remedies_of
from sim.report.sentences import assumptions, description, step_times
from sim.run import Result, turn_rows


def write_files(result: Result, variants: Mapping[str, Result], out: Path) -> list[Path]:
    """Write into a folder named after the scenario below `out`; return what was written.

    Raises ScenarioError if the folder cannot be written; each file is whole or not there.
    """
    scenario = result.deployment.scenario
    folder = out / scenario.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        chart = _cliff(result) if result.deployment.trace is None else _trace(result)
        written: list[Path] = []
        if chart is None:
            remove_figure(folder / "cliff")  # of another run
        else:
            written += save_figure(chart, folder / "cliff")
        if variants:
            named = {BASE_VARIANT: result, **variants}
            figure = compare_chart(
                {name: one.points for name, one in named.items()},
                title=f"{scenario.name}: TTFT p99 of its variants",
                knees={name: one.knee.sessions for name, one in named.items()},
                unit=_unit(named.values()),
                provenance=f"As it is: {'; '.join(assumptions(result.deployment))}.",
            )
            written += save_figure(figure, folder / "variants")
        written.append(write_csv(folder / "points.csv", result.points))
        if result.turns:
            written.append(write_csv(folder / "turns.csv", turn_rows(result)))
        else:
            (folder / "turns.csv").unlink(missing_ok=True)  # of another run
        with replacing(folder / "result.json") as path:
            path.write_text(json.dumps(result_json(result, variants), indent=1) + "\n", encoding="utf-8")
        written.append(folder / "result.json")
    except OSError as error:
        raise ScenarioError(f"{folder}: cannot be written: {error.strerror}") from None
    return written


def write_comparison(results: Sequence[Result], out: Path) -> list[Path]:
    """Write the p99 curves of several scenarios on one chart; return its files.

    Raises ScenarioError if they cannot be written.
    """
    named = dict(zip(_short_names([result.deployment.scenario.name for result in results]), results, strict=True))
    figure = compare_chart(
        {name: result.points for name, result in named.items()},
        title="TTFT p99 and the KV knee",
        knees={name: result.knee.sessions for name, result in named.items()},
        published={name: published_rows(result.deployment.scenario) for name, result in named.items()},
        unit=_unit(results),
        provenance="; ".join(dict.fromkeys(step_times(result.deployment) for result in results)),
    )
    try:
        return save_figure(figure, out / "compared")
    except OSError as error:
        raise ScenarioError(f"{out}: cannot be written: {error.strerror}") from None


def write_remedies(finished: Finished, out: Path) -> list[Path]:
    """Draw variants that several scenarios share, under each one's traffic; return the chart's files, none if none do.

    Raises ScenarioError if they cannot be written.
    """
    remedies = remedies_of(finished)
    if remedies is None:
        return []
    figure = remedies_chart(
        remedies,
        title="Variants under each traffic: answers in time, and TTFT p99 beside them",
        provenance="; ".join(dict.fromkeys(step_times(result.deployment) for result, _ in finished)),
    )
    try:
        return save_figure(figure, out / "compared_variants")
    except OSError as error:
        raise ScenarioError(f"{out}: cannot be written: {error.strerror}") from None


def _short_names(names: Sequence[str]) -> list[str]:
    """Return the names without the words, joined by "-", that all begin with; a word of each is kept."""
    words = [name.split("-") for name in names]
    same = takewhile(lambda column: len(set(column)) == 1, zip(*(each[:-1] for each in words), strict=False))
    shared = len(list(same))
    return ["-".join(each[shared:]) for each in words]


def _unit(results: Iterable[Result]) -> str:
    """Return what session counts count in these results."""
    return " / ".join(dict.fromkeys(result.load_unit for result in results))


def _cliff(result: Result) -> Figure:
    scenario, knee = result.deployment.scenario, result.knee
    interval = (float(knee.low), float(knee.high)) if knee.low is not None and knee.high is not None else None
    return cliff_chart(
        result.points,
        title=scenario.name,
        subtitle=description(result.deployment),
        published=published_rows(scenario),
        knee_sessions=knee.sessions,
        knee_interval=interval if interval and interval[0] != interval[1] else None,
        slo_ttft_p99_s=result.deployment.slo.ttft_p99_s,
        unit=result.load_unit,
        provenance=_provenance(result),
    )


def _trace(result: Result) -> Figure | None:
    """Return a trace's single requests; None where they were not kept."""
    rows = list(turn_rows(result))
    if not rows:
        return None
    deployment = result.deployment
    return trace_chart(
        rows,
        result.points[0],
        title=deployment.scenario.name,
        subtitle=description(deployment),
        slo_ttft_p99_s=deployment.slo.ttft_p99_s,
        provenance=f"{'; '.join(assumptions(deployment))}.",
    )


def _provenance(result: Result) -> str:
    scenario = result.deployment.scenario
    source = f" Published: {scenario.published.source}." if scenario.published is not None else ""
    lines = "; ".join(assumptions(result.deployment))
    return f"{lines}. Bands: 95 % over {result.seeds} seeds.{source}"
