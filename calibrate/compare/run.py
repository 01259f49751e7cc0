"""What `kvcliff compare` does: read both sides, simulate, print, draw, write; return what `--check` finds."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from calibrate.compare.adjusted import check_refit_path, write_adjusted
from calibrate.compare.check import failed_checks
from calibrate.compare.errors import ErrorRow, error_rows, loss, median_error, misfits
from calibrate.compare.explain import Verdict, verdict_of, wants_a_second, with_second
from calibrate.compare.lengths import answer_shape
from calibrate.compare.load import SentLoad, sent_load
from calibrate.compare.points import Point, comparable, mismatches, not_sent, unique
from calibrate.compare.refit import Refitted, Told, refit, simulations_of
from calibrate.compare.regimes import regime_of
from calibrate.compare.search_load import matched, shortened
from calibrate.compare.simulate import Asked, Bench
from calibrate.compare.tables import point_rows, print_groups, print_notes, print_points, print_verdict
from calibrate.compare.terms import TERMS
from calibrate.measured.read import read_measured
from calibrate.measured.run import MeasuredRun
from sim.commands.files import check_writable
from sim.commands.progress import progress_bar
from sim.errors import MeasurementError, ProfileError
from sim.load import decode_scenario
from sim.report.atomic import replacing
from sim.setup import Deployment, deploy
from sim.strict_yaml import YamlDocument, apply_overrides, load_yaml

_FULL = 0.99  # of the KV blocks


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """The command's flags."""

    scenario: Path
    measured: Sequence[Path]
    overrides: Sequence[str] = ()
    seeds: int = 2
    jobs: int | None = None
    limit: int | None = None
    quick: bool = False
    out: Path | None = None
    refit: Path | None = None
    refit_term: str | None = None
    error_max: float = 0.2
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything a comparison found."""

    base: Deployment
    document: YamlDocument
    points: Sequence[Point]
    rows: Sequence[ErrorRow]
    misfits: Mapping[str, float]
    verdict: Verdict | None
    notes: Sequence[str]
    written: list[Path] = field(default_factory=list)

    @property
    def cannot_matter(self) -> list[str]:
        """Notes on terms that these loads say nothing of."""
        predicted = [point.predicted for point in self.points]
        if _kv_binds(predicted):
            return []
        peak = max(metrics.get("kv_usage_peak", 0.0) for metrics in predicted)
        return [f"more KV blocks cannot matter: nothing was evicted, at most {peak:.0%} of them were in use"]


def run_compare(options: CompareOptions) -> list[str]:
    """Compare, print and write; return what `--check` finds broken.

    Raises a KvcliffError for anything wrong with the scenario, the measured files or a place to write to.
    """
    if options.refit is not None:
        check_refit_path(options.refit)
    if options.out is not None:
        check_writable("--out", options.out)
    found = compare(options)
    used = _write_refit(found, options)
    if options.out is not None:
        _write(found, options.out)
    if options.as_json:
        click.echo(json.dumps(_json(found), allow_nan=False))
    else:
        _show(found, used)
    return failed_checks(found.rows, found.misfits, options.error_max)


def compare(options: CompareOptions) -> Comparison:
    """Return both sides of every load point, and what explains the gap."""
    document = apply_overrides(load_yaml(options.scenario), options.overrides)
    base = deploy(decode_scenario(document), document.source)
    given, twice = unique(read_measured(options.measured))
    runs, notes = comparable(given)
    notes += twice
    loads = _loads(runs, base, options)
    notes = [*mismatches(runs, base), *not_sent(base), *(note for run in runs for note in run.notes), *notes]
    notes += [note for seeds in loads for note in seeds[0].notes]
    measured = [run.metrics for run in runs]
    names = () if options.quick else tuple(TERMS)
    search = [[shortened(sent, len(loads)) for sent in seeds] for seeds in loads]
    simulations = sum(map(len, loads))
    with progress_bar() as progress:
        done, of = 0, simulations * (3 + simulations_of(names))

        def told(more: int) -> None:
            nonlocal done
            done += more
            progress(min(done, of), of)

        with Bench(base, document.source, loads, options.jobs) as bench:
            (predicted,) = bench.metrics([Asked()], told)
            if not any(metrics.get("requests") for metrics in predicted):
                raise MeasurementError(_nothing_answered(runs[0], base))
            (unlimited,) = bench.metrics([Asked(unlimited_kv=True)], told) if _kv_binds(predicted) else (predicted,)
        off = misfits(measured, predicted)
        verdict = None
        if names:
            with Bench(base, document.source, search, options.jobs) as bench:
                (short,) = bench.metrics([Asked()], told)
                verdict = _explained(bench, matched(measured, predicted, short), off, told)
    if names and search != loads:
        most = max(sent.requests for seeds in search for sent in seeds)
        notes.append(f"the search for a cause sends the first requests of each point, {most:,} at most")
    seats = base.engine.scheduler.max_num_seqs
    points = [
        Point(run, seeds[0], regime_of(run.metrics, ours, free, seeds[0], seats), run.metrics, ours)
        for run, seeds, ours, free in zip(runs, loads, predicted, unlimited, strict=True)
    ]
    return Comparison(
        base, document, points, error_rows(measured, predicted), off, verdict, tuple(dict.fromkeys(notes))
    )


def _explained(bench: Bench, measured: Sequence[Mapping[str, float]], off: Mapping[str, float], told: Told) -> Verdict:
    """Return which term explains the gap, and with which other, where one leaves much."""
    (base,) = bench.metrics([Asked()])
    verdict = verdict_of(loss(measured, base), off, refit(bench, measured, list(TERMS), told))
    if not wants_a_second(verdict):
        return verdict
    best = verdict.ranked[0]
    others = [one.term.name for one in verdict.ranked[1:] if not one.idle]
    return with_second(verdict, refit(bench, measured, others, told, (best.change,)))


def _loads(runs: Sequence[MeasuredRun], base: Deployment, options: CompareOptions) -> list[list[SentLoad]]:
    """Return what is sent for each run, one a seed where something is drawn."""
    shape = answer_shape(runs)
    loads = []
    for run in runs:
        first = sent_load(run, base.parts, 0, options.limit, shape)
        more = range(1, options.seeds if first.drawn else 1)
        loads.append([first, *(sent_load(run, base.parts, seed, options.limit, shape) for seed in more)])
    return loads


def _kv_binds(predicted: Sequence[Mapping[str, float]]) -> bool:
    """Whether the size of the KV cache shows anywhere."""
    return any(
        metrics.get("evicted_blocks") or metrics.get("preemptions") or metrics.get("kv_usage_peak", 0.0) >= _FULL
        for metrics in predicted
    )


def _nothing_answered(run: MeasuredRun, base: Deployment) -> str:
    longest = base.engine.scheduler.max_model_len
    mean = "" if run.input_tokens_mean is None else f" (mean prompt {run.input_tokens_mean:.4g} tokens)"
    return f"{run.file}: the simulated engine answers no request{mean}; its max_model_len is {longest:,}"


def _write_refit(found: Comparison, options: CompareOptions) -> str | None:
    if options.refit is None:
        return None
    assert found.verdict is not None
    named = found.verdict.named[:1]
    if options.refit_term is not None:
        named = [one for one in found.verdict.ranked if one.term.name == options.refit_term]
    if not named:
        raise ProfileError(f"--refit {options.refit}: {found.verdict.sentence}; --term forces one")
    files = [point.run.file for point in found.points]
    use = write_adjusted(options.refit, found.base, found.document, named[0], files)
    found.written.append(options.refit)
    return use


def _write(found: Comparison, out: Path) -> None:
    from calibrate.compare.chart import compare_figure
    from sim.report.figure_files import save_figure

    name = found.base.scenario.name
    subtitle = f"Cause of the gap: {found.verdict.sentence}" if found.verdict is not None else ""
    provenance = f"step times: {found.base.step_times.name}; measured: {_files(found)}"
    try:
        figure = compare_figure(found.points, f"{name}: predicted and measured", subtitle, provenance)
        found.written.extend(save_figure(figure, out / "compare"))
        rows = point_rows(found.points)
        with replacing(out / "compare.csv") as partial, partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]) if rows else ["load"], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        found.written.append(out / "compare.csv")
    except OSError as error:
        raise MeasurementError(f"--out {out}: {error.strerror or error}") from None


def _files(found: Comparison) -> str:
    names = list(dict.fromkeys(point.run.file.name for point in found.points))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _show(found: Comparison, used: str | None) -> None:
    base = found.base
    click.echo(f"{base.scenario.name}: {base.model.name} on {base.gpu.name}, step times {base.step_times.name}")
    print_notes(found.notes)
    print_points(found.points)
    print_groups(found.rows, found.misfits)
    if found.verdict is not None:
        print_verdict(found.verdict, found.cannot_matter)
    for path in found.written:
        click.echo(f"wrote {path}")
    if used is not None:
        click.echo(f"use it: {used}")


def _json(found: Comparison) -> dict[str, Any]:
    verdict = found.verdict
    return {
        "scenario": found.base.scenario.name,
        "gpu": found.base.gpu.name,
        "model": found.base.model.name,
        "profile": found.base.step_times.name,
        "notes": list(found.notes),
        "points": [
            {
                "file": str(point.run.file),
                "place": point.run.place,
                "format": point.run.format,
                "load": point.label,
                "level": point.sent.arrivals.level,
                "unit": point.sent.arrivals.unit,
                "requests": point.sent.requests,
                "regime": point.regime.name,
                "regime_why": point.regime.why,
                "measured": _finite(point.measured),
                "predicted": _finite(point.predicted),
                "notes": list(point.sent.notes),
            }
            for point in found.points
        ],
        "errors": point_rows(found.points),
        "median_abs_error": median_error(found.rows) if found.rows else None,
        "misfit_factors": dict(found.misfits),
        "cause": None if verdict is None else _verdict_json(verdict),
        "cannot_matter": found.cannot_matter,
        "written": [str(path) for path in found.written],
    }


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "sentence": verdict.sentence,
        "named": [one.term.name for one in verdict.named],
        "mean_log_error": verdict.loss,
        "second": None if verdict.second is None else _term_json(verdict, verdict.second),
        "terms": [_term_json(verdict, one) for one in verdict.ranked],
    }


def _term_json(verdict: Verdict, one: Refitted) -> dict[str, Any]:
    return {
        "term": one.term.name,
        "value": one.value,
        "unit": "s" if one.term.added else "x",
        "mean_log_error": one.loss,
        "removed": verdict.removed(one),
        "at_bound": one.bound,
        "changes_nothing": one.idle,
    }


def _finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
