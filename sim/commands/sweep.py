"""`kvcliff sweep`: combinations of settings, each over all loads and seeds; resumed where it was interrupted."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM, default_int_handler, signal

import click

from sim.commands.files import check_writable
from sim.commands.levels import levels_of
from sim.commands.progress import progress_bar
from sim.report.sweep_rows import Swept, sweep_json
from sim.run import Exploration, run_all
from sim.strict_yaml import load_yaml
from sim.sweep.cluster import cluster_runner
from sim.sweep.combinations import Combination, combinations, parse_over
from sim.sweep.local import LocalRunner
from sim.sweep.lock import locked
from sim.sweep.runner import Runner
from sim.sweep.store import Store

STORE = "simulations.jsonl"
LONGEST_NAME = 200  # file systems take 255 bytes


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """The command's flags, checked."""

    scenarios: Sequence[Path]
    over: Sequence[str]
    out: Path | None = None  # None: a folder named after the scenarios
    overrides: Sequence[str] = ()
    levels: Sequence[int] | None = None
    seeds: int | None = None
    explain: bool = True
    jobs: int | None = None
    cluster: str | None = None
    as_json: bool = False


def sweep_command(options: SweepOptions) -> bool:
    """Simulate what is not in the store yet, print, write; return whether every simulation succeeded."""
    documents = [load_yaml(path) for path in options.scenarios]
    found = combinations(documents, parse_over(options.over), overrides=options.overrides, seeds=options.seeds)
    out = _default_out(found) if options.out is None else options.out
    check_writable("--out", out)
    deployments = [one.deployment for one in found if one.deployment is not None]
    asked = [
        Exploration(one, levels_of(one, options.levels), explain=options.explain, turns=False) for one in deployments
    ]
    with _runner(options) as runner, locked(out / STORE):
        store = Store(out / STORE)
        _tell_impossible(found)
        with _told_when_interrupted(store), progress_bar() as progress:
            results = iter(run_all(asked, store.through(runner), progress))
        swept = [Swept(one, None if one.deployment is None else next(results)) for one in found]
        written = _written(swept, out)  # before anything is printed: a closed pipe must not cost them
    _show(swept, written, as_json=options.as_json)
    click.echo(f"{store.reused:,} simulations reused, {store.computed:,} computed, in {store.path}", err=True)
    return all(one.result is None or not one.result.failed for one in swept)


def _default_out(found: Sequence[Combination]) -> Path:
    """Return a folder that sweeps of other scenarios do not write to."""
    names = "+".join(dict.fromkeys(one.scenario for one in found))
    return Path("out") / f"sweep-{names[:LONGEST_NAME]}"


@contextmanager
def _told_when_interrupted(store: Store) -> Iterator[None]:
    """Say what a Ctrl-C or a SIGTERM, which is taken as one, leaves behind."""
    terminated = signal(SIGTERM, default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        click.echo(
            f"kvcliff: interrupted; {store.reused + store.computed:,} of {store.asked:,} simulations kept in "
            f"{store.path.parent}; the same command goes on",
            err=True,
        )
        sys.exit(130)
    finally:
        signal(SIGTERM, terminated)


@contextmanager
def _runner(options: SweepOptions) -> Iterator[Runner]:
    if options.cluster is not None:
        with cluster_runner(options.cluster) as there:
            yield there
        return
    here = LocalRunner(options.jobs)
    try:
        yield here
    except BaseException:
        here.abandon()
        raise


def _tell_impossible(found: Sequence[Combination]) -> None:
    """Say before anything is simulated what will not be."""
    scenarios = len({one.scenario for one in found})
    for one in found:
        if one.impossible is not None:
            click.echo(f"skipped: {one.label(scenarios)}: {one.impossible}", err=True)


def _written(swept: Sequence[Swept], out: Path) -> list[Path]:
    from sim.report.sweep_files import write_sweep

    return write_sweep(swept, out)


def _show(swept: Sequence[Swept], written: Sequence[Path], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(sweep_json(swept), allow_nan=False))
        return
    from sim.report.sweep_table import print_sweep
    from sim.report.terminal import print_files

    print_sweep(swept)
    print_files(written)
