"""`kvcliff run`: scenarios simulated, printed, drawn and written; their variants too when asked."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import msgspec

from sim.checks import failures
from sim.errors import KvcliffError, ScenarioError
from sim.json_output import result_json
from sim.results.cause import RELIEFS
from sim.run import Progress, Result, run_scenario
from sim.scenario import Scenario, load_levels
from sim.setup import Deployment, deploy
from sim.strict_yaml import YamlDocument, apply_overrides, decode, load_yaml


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


@dataclass(frozen=True, slots=True)
class _Job:
    """One scenario file and its variants, looked up before anything is simulated."""

    deployment: Deployment
    variants: Mapping[str, Deployment] = field(default_factory=dict)


def run_command(options: RunOptions) -> list[str]:
    """Run, print, write; return the checks that failed. All files are read and checked before the first run."""
    jobs = [_job(path, options) for path in options.scenarios]
    names = [job.deployment.scenario.name for job in jobs]
    for name in names:
        if names.count(name) > 1:
            raise ScenarioError(f"two of the scenarios are named {name!r}: their files would overwrite each other")
    if options.out is not None:
        for name in names:
            _check_writable(options.out / name)
    finished: list[tuple[Result, dict[str, Result]]] = []
    with _progress(sum(_simulations(job, options) for job in jobs)) as advance:
        for job in jobs:
            result = run_scenario(job.deployment, levels=options.levels, explain=options.explain, progress=advance)
            variants = {
                name: run_scenario(one, levels=options.levels, explain=False, progress=advance)
                for name, one in job.variants.items()
            }
            finished.append((result, variants))
    written = _write(finished, options.out) if options.out is not None else []
    if options.as_json:
        printed = [result_json(result, variants) for result, variants in finished]
        click.echo(json.dumps(printed[0] if len(printed) == 1 else {"scenarios": printed}, allow_nan=False))
    else:
        _show(finished, written, check=options.check)
    several = len(finished) > 1
    return [
        f"{result.deployment.scenario.name}: {line}" if several else line
        for result, _ in finished
        for line in failures(result)
    ]


def _check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written before anything is simulated for it."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ScenarioError(f"--out: {folder} cannot be written: {nearest} is a file")
    if not os.access(nearest, os.W_OK):
        raise ScenarioError(f"--out: {folder} cannot be written: no permission for {nearest}")


def _write(finished: Sequence[tuple[Result, Mapping[str, Result]]], out: Path) -> list[Path]:
    """Write all files before anything is printed: a closed pipe must not cost them."""
    from sim.report.files import write_comparison, write_files

    written = [path for result, variants in finished for path in write_files(result, variants, out)]
    if len(finished) > 1:
        written += write_comparison([result for result, _ in finished], out)
    return written


def _show(finished: Sequence[tuple[Result, Mapping[str, Result]]], written: Sequence[Path], *, check: bool) -> None:
    from sim.report.terminal import print_comparison, print_files, print_result

    for result, variants in finished:
        print_result(result, variants, check=check)
    if len(finished) > 1:
        print_comparison([result for result, _ in finished])
    if written:
        print_files(written)


def _job(path: Path, options: RunOptions) -> _Job:
    document = apply_overrides(load_yaml(path), options.overrides)
    deployment = _deploy(document, options)
    if not options.variants:
        return _Job(deployment)
    variants = deployment.scenario.variants
    return _Job(deployment, {one.name: _variant(document, options, one.name, one.set) for one in variants})


def _deploy(document: YamlDocument, options: RunOptions) -> Deployment:
    deployment = replace(deploy(decode(document, Scenario), document.source), overrides=tuple(options.overrides))
    if options.seeds is None:
        return deployment
    return replace(deployment, scenario=msgspec.structs.replace(deployment.scenario, seeds=options.seeds))


def _variant(document: YamlDocument, options: RunOptions, name: str, changes: dict[str, object]) -> Deployment:
    texts = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    try:
        return _deploy(apply_overrides(document, texts), options)
    except KvcliffError as error:
        place = document.place(("variants",))
        raise ScenarioError(f"{place}: variant {name!r}: {error}") from None


def _simulations(job: _Job, options: RunOptions) -> int:
    total = 0
    for deployment in (job.deployment, *job.variants.values()):
        levels = load_levels(deployment.scenario.load) if options.levels is None else options.levels
        total += 2 * deployment.scenario.seeds * len(levels)
    return total + ((len(RELIEFS) - 1) * job.deployment.scenario.seeds if options.explain else 0)


@contextmanager
def _progress(total: int) -> Iterator[Progress]:
    """Show a progress bar on stderr where that is a terminal; elsewhere be silent."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("simulating"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda text: bar.update(task, advance=1, description=text)
