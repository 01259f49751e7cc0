"""`kvcliff validate cliff`: a real engine's cliff, predicted from runs far below it."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from calibrate.fitting.whole_steps import WholeStepsFit
    from calibrate.validation.cliff_cases import Predict
    from calibrate.validation.cliff_knee import Sweep
    from calibrate.validation.cliff_prediction import CliffMetrics
    from calibrate.validation.cliff_runs import EngineSettings, RecordedRun
    from calibrate.validation.cliff_workload import Workload

DEFAULT_FOLDER = Path("../shared/data/cpu_cliff")
FIT_PROFILE, FIT_SESSIONS = "agent", (2, 4)
PAGE_WIDTH = 118
MOST_KNEE_REPLICATES = 12  # a knee takes two predictions at each number of sessions


@click.command("cliff")
@click.argument("folders", metavar="[DIR]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--fit-on",
    multiple=True,
    metavar="NAME",
    help="Run to fit on, a path below DIR without its endings; may hold * and ?. Repeatable.  [default: 2 and 4 "
    "sessions of the agent profile, lowest seed, smallest cache]",
)
@click.option("--replicates", type=click.IntRange(2, 1000), default=40, show_default=True, help="Predictions a run.")
@click.option("--check", is_flag=True, help="Exit with 1 if a limit is not met.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for a page and charts, one a sweep."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(
    folders: tuple[Path, ...], fit_on: tuple[str, ...], replicates: int, *, check: bool, out: Path | None, as_json: bool
) -> None:
    """Predict a recorded engine's cliff from its runs below it, and compare.

    DIR holds NAME.workload.json.gz, .summary.json, .requests.jsonl.gz and .steps.jsonl.gz, at any depth; runs of the
    same workload and settings are repeats. Step times are fitted on a few runs; every run is then predicted from its
    workload and engine settings alone. tests/real_engine/drive_vllm_cpu.py records such a folder.
    """
    import numpy as np
    from rich.console import Console

    from calibrate.fitting.whole_steps import fit_whole_steps
    from calibrate.validation.cliff_cases import make_case
    from calibrate.validation.cliff_knee import make_sweeps
    from calibrate.validation.cliff_report import print_report, report_json, unmet
    from calibrate.validation.cliff_runs import find_runs, repeats
    from calibrate.validation.page import write_page

    runs = find_runs(folders or (DEFAULT_FOLDER,))
    chosen = _chosen(runs, fit_on)
    batches = [batch for run in chosen for batch in run.batches()]
    fit = fit_whole_steps(batches, [step.cpu for run in chosen for step in run.steps], np.random.default_rng(0))
    with _status() as say:
        predict = _remembering(fit, replicates, say)
        cases = [make_case(group, fit, chosen, predict) for group in repeats(runs)]
        sweeps = make_sweeps(cases, _remembering(fit, min(replicates, MOST_KNEE_REPLICATES), say))
    if out is not None:
        _draw(sweeps, out)
        intro = (
            "# A real engine's cliff, predicted from its uncrowded runs\n\n"
            "Every number on this page comes from `kvcliff validate cliff`."
        )
        write_page(out / "cliff.md", intro, lambda console: print_report(console, fit, cases, sweeps), PAGE_WIDTH)
    if as_json:
        click.echo(json.dumps(report_json(fit, cases, sweeps), allow_nan=False))
    else:
        print_report(Console(highlight=False), fit, cases, sweeps)
    failed = unmet(cases, sweeps) if check else []
    for line in failed:
        click.echo(f"kvcliff: check failed: {line}", err=True)
    if failed:
        sys.exit(1)


def _chosen(runs: Sequence["RecordedRun"], fit_on: Sequence[str]) -> list["RecordedRun"]:
    """Return the runs to fit on.

    Raises MeasurementError if a name matches none, or nothing is there to fit on by default.
    """
    from fnmatch import fnmatchcase

    from sim.errors import MeasurementError, did_you_mean

    names = [run.name for run in runs]
    for name in fit_on:
        if not any(fnmatchcase(known, name) for known in names):
            raise MeasurementError(f"--fit-on {name!r} is none of {', '.join(names)}{did_you_mean(name, names)}")
    if fit_on:
        return [run for run in runs if any(fnmatchcase(run.name, name) for name in fit_on)]
    able = [run for run in runs if run.workload.profile == FIT_PROFILE and run.workload.sessions in FIT_SESSIONS]
    if not able:
        raise MeasurementError(
            f"no run of profile {FIT_PROFILE} with 2 or 4 sessions to fit on: --fit-on takes {', '.join(names)}"
        )
    seed = min(run.workload.seed for run in able)
    blocks = min(run.engine.num_gpu_blocks for run in able)
    return [run for run in able if run.workload.seed == seed and run.engine.num_gpu_blocks == blocks]


def _remembering(fit: "WholeStepsFit", replicates: int, say: Callable[[str], None]) -> "Predict":
    """Return what predicts a workload on an engine, each pair once."""
    import msgspec

    from calibrate.validation.cliff_prediction import predicted_metrics

    known: dict[tuple[bytes, EngineSettings], list[CliffMetrics]] = {}

    def predict(workload: "Workload", engine: "EngineSettings") -> "list[CliffMetrics]":
        key = (msgspec.json.encode(workload.slots), engine)
        if key not in known:
            say(f"predicting {workload.profile}, {workload.sessions} sessions, {engine.num_gpu_blocks:,} KV blocks")
            known[key] = [predicted_metrics(workload, engine, fit, seed) for seed in range(replicates)]
        return known[key]

    return predict


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    """Say on stderr what is being predicted, where that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("reading") as status:
        yield status.update


def _draw(sweeps: Sequence["Sweep"], out: Path) -> None:
    from calibrate.validation.cliff_chart import cliff_validation_chart
    from sim.report.figure_files import save_figure

    for sweep in sweeps:
        names = ", ".join(run.name for case in sweep.cases for run in case.runs if case.fitted_on) or "other runs"
        provenance = f"Step times fitted on {names}; predicted from workload and engine settings alone."
        save_figure(cliff_validation_chart(sweep, provenance=provenance), out / f"cliff_{sweep.profile}_s{sweep.seed}")
