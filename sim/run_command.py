"""`kvcliff run`: a scenario simulated, printed, drawn and written; its variants too when asked."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from sim.checks import failures
from sim.errors import ScenarioError
from sim.json_output import result_json
from sim.results.cause import RELIEFS
from sim.run import Progress, Result, run_scenario
from sim.scenario import Scenario, load_levels
from sim.setup import Deployment, deploy
from sim.strict_yaml import YamlDocument, apply_overrides, decode, load_yaml


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The command's flags, checked."""

    scenario: Path
    overrides: Sequence[str] = ()
    levels: Sequence[int] | None = None
    seeds: int | None = None
    variants: bool = False
    explain: bool = True
    out: Path | None = None
    as_json: bool = False


def run_command(options: RunOptions) -> list[str]:
    """Run, print, write; return the checks that failed."""
    document = apply_overrides(load_yaml(options.scenario), options.overrides)
    deployment = _deploy(document, options)
    named = {"": deployment}
    if options.variants:
        named |= {variant.name: _variant(document, options, variant.set) for variant in deployment.scenario.variants}
    results: dict[str, Result] = {}
    with _progress(sum(_simulations(one, options) for one in named.values())) as advance:
        for name, one in named.items():
            explain = options.explain and not name
            results[name] = run_scenario(one, levels=options.levels, explain=explain, progress=advance)
    result = results.pop("")
    if options.as_json:
        printed = result_json(result)
        if results:
            printed["variants"] = {name: result_json(one) for name, one in results.items()}
        print(json.dumps(printed, allow_nan=False))
    else:
        from sim.report.terminal import print_result

        print_result(result, results)
    if options.out is not None:
        from sim.report.files import write_files

        written = write_files(result, results, options.out)
        if not options.as_json:
            from sim.report.terminal import print_files

            print_files(written)
    return failures(result)


def _deploy(document: YamlDocument, options: RunOptions) -> Deployment:
    deployment = deploy(decode(document, Scenario), document.source)
    if options.seeds is None:
        return deployment
    return replace(deployment, scenario=msgspec.structs.replace(deployment.scenario, seeds=options.seeds))


def _variant(document: YamlDocument, options: RunOptions, changes: dict[str, object]) -> Deployment:
    texts = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    try:
        return _deploy(apply_overrides(document, texts), options)
    except ScenarioError as error:
        raise ScenarioError(f"{document.source}: variants: {error}") from None


def _simulations(deployment: Deployment, options: RunOptions) -> int:
    levels = load_levels(deployment.scenario.load) if options.levels is None else options.levels
    extra = len(RELIEFS) - 1 if options.explain else 0
    return 2 * deployment.scenario.seeds * len(levels) + extra


@contextmanager
def _progress(total: int) -> Iterator[Progress]:
    """A progress bar on stderr where that is a terminal; silence elsewhere."""
    import sys

    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeRemainingColumn

    columns = (TextColumn("simulating"), BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda text: bar.update(task, advance=1, description=text)
