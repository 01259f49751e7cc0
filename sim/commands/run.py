"""`kvcliff run`: scenarios simulated, printed, drawn and written; their variants too when asked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from sim.checks import failures
from sim.commands.breakdown import Row, breakdown_rows, summaries
from sim.commands.files import check_writable
from sim.commands.levels import levels_of
from sim.commands.progress import progress_bar
from sim.commands.records import check_records, record_files, record_paths
from sim.errors import KvcliffError, ProfileError, ScenarioError
from sim.json_output import result_json
from sim.load import decode_scenario
from sim.run import Exploration, Result, run_all
from sim.setup import Deployment, assemble, look_up
from sim.strict_yaml import YamlDocument, apply_overrides, load_yaml
from sim.sweep.combinations import profile_hint
from sim.sweep.local import LocalRunner

if TYPE_CHECKING:
    from sim.commands.exports import Export


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The command's flags, checked."""

    scenarios: Sequence[Path]
    overrides: Sequence[str] = ()
    levels: Sequence[int] | None = None
    seeds: int | None = None
    variants: bool = False
    explain: bool = True
    out: Path | None = None
    as_json: bool = False
    check: bool = False
    records: Path | None = None
    breakdown: bool = False
    exports: Sequence[str] = ()  # FORMAT:FILE
    jobs: int | None = None  # worker processes; None: one a core


@dataclass(frozen=True, slots=True)
class RunJob:
    """One scenario file and its variants, looked up before anything is simulated."""

    deployment: Deployment
    variants: Mapping[str, Deployment] = field(default_factory=dict)


def run_command(options: RunOptions) -> list[str]:
    """Run, print, write; return the checks that failed. All files are read and checked before the first run."""
    jobs = [job_of(path, options) for path in options.scenarios]
    names = [job.deployment.scenario.name for job in jobs]
    for name in names:
        if names.count(name) > 1:
            raise ScenarioError(f"two of the scenarios are named {name!r}: their files would overwrite each other")
    if options.out is not None:
        for name in names:
            check_writable("--out", options.out / name)
    if options.records is not None:
        check_writable("--records", options.records.parent)
        check_records(options.records, [levels_of(job.deployment, options.levels) for job in jobs])
    exports: tuple[Export, ...] = ()
    if options.exports:
        from sim.commands.exports import asked_exports, write_exports

        levels = [levels_of(job.deployment, options.levels) for job in jobs]
        exports = asked_exports(options.exports, levels, with_records=options.records is not None)
    finished = simulate_jobs(jobs, options, exports)
    apart = _broken_down([result for result, _ in finished]) if options.breakdown else []
    written = _write(finished, apart, options.out) if options.out is not None else []
    if exports:
        written += write_exports(exports, finished[0][0])
    if options.records is not None:
        written += record_paths(options.records)
    if options.as_json:
        printed = [_told(*one, apart[i] if apart else None) for i, one in enumerate(finished)]
        click.echo(json.dumps(printed[0] if len(printed) == 1 else {"scenarios": printed}, allow_nan=False))
    else:
        _show(finished, apart, written, check=options.check)
    several = len(finished) > 1
    return [
        f"{result.deployment.scenario.name}: {line}" if several else line
        for result, variants in finished
        for line in failures(result, variants)
    ]


def simulate_jobs(
    jobs: Sequence[RunJob], options: RunOptions, exports: "Sequence[Export]" = ()
) -> list[tuple[Result, dict[str, Result]]]:
    """Run scenarios and variants side by side; the knee of a variant is neither refined nor explained."""
    turns = options.out is not None and options.records is None
    asked: list[Exploration] = []
    with progress_bar() as progress, record_files(options.records) as records:
        for job in jobs:
            levels = levels_of(job.deployment, options.levels)
            asked.append(
                Exploration(
                    job.deployment,
                    levels,
                    explain=options.explain,
                    turns=turns,
                    records=records,
                    exports=tuple(dict.fromkeys(export.format for export in exports)),
                )
            )
            asked += [
                Exploration(one, levels_of(one, options.levels), explain=False, turns=False)
                for one in job.variants.values()
            ]
        results = iter(run_all(asked, LocalRunner(options.jobs), progress, keep_going=False))
    return [(next(results), {name: next(results) for name in job.variants}) for job in jobs]


def _told(result: Result, variants: Mapping[str, Result], rows: Sequence[Row] | None) -> dict[str, Any]:
    return result_json(result, variants) | ({} if rows is None else {"breakdown": summaries(rows)})


def _broken_down(results: Sequence[Result]) -> list[list[Row]]:
    asked = [(result, int(point["sessions"])) for result in results for point in result.points]
    rows: dict[str, list[Row]] = {result.deployment.scenario.name: [] for result in results}
    with progress_bar() as progress:
        for done, (result, level) in enumerate(asked):
            progress(done, len(asked))
            rows[result.deployment.scenario.name] += breakdown_rows(result.deployment, level)
    return list(rows.values())


def _write(
    finished: Sequence[tuple[Result, Mapping[str, Result]]], apart: Sequence[Sequence[Row]], out: Path
) -> list[Path]:
    """Write all files before anything is printed: a closed pipe must not cost them."""
    from sim.report.csv_files import write_csv
    from sim.report.files import write_comparison, write_files

    written = [path for result, variants in finished for path in write_files(result, variants, out)]
    for (result, _), rows in zip(finished, apart, strict=False):
        written.append(write_csv(out / result.deployment.scenario.name / "breakdown.csv", rows))
    if len(finished) > 1:
        written += write_comparison([result for result, _ in finished], out)
    return written


def _show(
    finished: Sequence[tuple[Result, Mapping[str, Result]]],
    apart: Sequence[Sequence[Row]],
    written: Sequence[Path],
    *,
    check: bool,
) -> None:
    from sim.report.terminal import print_breakdown, print_comparison, print_files, print_result

    for (result, variants), rows in zip_longest(finished, apart):
        print_result(result, variants, check=check)
        if rows:
            print_breakdown(summaries(rows))
    if len(finished) > 1:
        print_comparison([result for result, _ in finished])
    if written:
        print_files(written)


def job_of(path: Path, options: RunOptions) -> RunJob:
    """Read a scenario file and look up what it names; its variants too where they are asked for or checked."""
    document = apply_overrides(load_yaml(path), options.overrides)
    deployment = _deploy(document, options)
    named = {name for figure in deployment.scenario.checks.figures for name in (figure.variant, figure.over)}
    variants = [
        one for one in deployment.scenario.variants if options.variants or (options.check and one.name in named)
    ]
    return RunJob(deployment, {one.name: _variant(document, options, one.name, one.set) for one in variants})


def _deploy(document: YamlDocument, options: RunOptions) -> Deployment:
    scenario = decode_scenario(document)
    if options.seeds is not None:
        scenario = msgspec.structs.replace(scenario, seeds=options.seeds)
    parts = look_up(scenario, document.source)
    try:
        deployment = assemble(parts, document.source)
    except ProfileError as error:
        raise ProfileError(f"{error}{profile_hint(parts, error)}") from None
    return replace(deployment, overrides=tuple(options.overrides))


def _variant(document: YamlDocument, options: RunOptions, name: str, changes: dict[str, object]) -> Deployment:
    texts = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    try:
        return _deploy(apply_overrides(document, texts), options)
    except KvcliffError as error:
        place = document.place(("variants",))
        raise ScenarioError(f"{place}: variant {name!r}: {error}") from None
