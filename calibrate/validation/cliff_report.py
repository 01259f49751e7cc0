"""The validation of a cliff as tables for people and one JSON object for machines."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from calibrate.fitting.whole_steps import WholeStepsFit
from calibrate.validation.cliff_cases import Case, Limit
from calibrate.validation.cliff_knee import MOST_SESSIONS, Sweep
from calibrate.validation.cliff_prediction import mean_metrics
from sim.steptime.whole_steps import StepTerms

COLUMNS = {
    "turns_per_s": "turns/s",
    "hit_rate": "hit rate",
    "ttft_p50_s": "TTFT p50",
    "ttft_p90_s": "TTFT p90",
    "itl_mean_s": "ITL mean",
    "preemptions": "preempt.",
    "busy_s": "busy CPU",
}
NOISE = 1e-9  # below it a spread is rounding
UNITS = {
    "step": "step",
    "prefill_step": "step that prefills",
    "prefill_pair": "prefill pair (query, key)",
    "decode_kv_token": "decode KV token",
}


def unmet(cases: Sequence[Case], sweeps: Sequence[Sweep]) -> list[str]:
    """Return each limit that is not met, in a line; runs the fit has seen count too."""
    return [*_unmet_limits(cases), *(_knee_line(sweep) for sweep in sweeps if not sweep.within_one_session)]


def print_report(console: Console, fit: WholeStepsFit, cases: Sequence[Case], sweeps: Sequence[Sweep]) -> None:
    """Print the fit, the table and the knees."""
    quality = fit.quality
    console.print(
        f"Fitted on {quality.steps:,} steps; steps held out in turn are off by {quality.median_error:.1%} (median), "
        f"{quality.p90_error:.1%} (p90), {quality.total_bias:+.1%} in total"
    )
    console.print(_coefficient_table(fit))
    console.print(_case_table(cases))
    console.print(
        "Predicted: mean and standard deviation of the replicates. TTFT counts from when a turn fell due. "
        "Steps alone: the recorded batches, priced one by one."
    )
    for sweep in sweeps:
        console.print(escape(_knee_line(sweep)))


def report_json(fit: WholeStepsFit, cases: Sequence[Case], sweeps: Sequence[Sweep]) -> dict[str, Any]:
    """Return everything in plain types."""
    import msgspec

    failed = unmet(cases, sweeps)
    return {
        "fit": {"steps": msgspec.to_builtins(fit.steps), "quality": msgspec.to_builtins(fit.quality)},
        "runs": [_case_json(case) for case in cases],
        "knees": [_sweep_json(sweep) for sweep in sweeps],
        "unmet": failed,
        "passed": not failed,
    }


def _unmet_limits(cases: Sequence[Case]) -> Iterator[str]:
    for case in cases:
        for limit in case.limits():
            if not limit.met:
                allowed = f"{limit.low:.4g} to {limit.high:.4g}, {limit.rule}"
                yield f"{case.runs[0].name}: {limit.metric} is {limit.value:.4g}, allowed {allowed}"


def _coefficient_table(fit: WholeStepsFit) -> Table:
    table = Table("a step costs, per", "seconds", "95 % interval", box=None, header_style="dim")
    for name in StepTerms._fields:
        term = getattr(fit.steps, f"per_{name}_s")
        table.add_row(
            UNITS.get(name, name.replace("_", " ")), f"{term.value:.3g}", f"{term.low:.3g} to {term.high:.3g}"
        )
    return table


def _case_table(cases: Sequence[Case]) -> Table:
    table = Table(
        Column("run", no_wrap=True),
        "",
        "measured",
        "predicted",
        "allowed",
        "",
        box=None,
        pad_edge=False,
        header_style="dim",
    )
    for case in cases:
        limits = {limit.metric: limit for limit in case.limits()}
        labels = [escape(case.runs[0].name), "1 run" if len(case.runs) == 1 else f"{len(case.runs)} runs"]
        labels += ["fitted on"] if case.fitted_on else []
        for metric, title in COLUMNS.items():
            label = labels.pop(0) if labels else ""
            real, ours = ([getattr(run, metric) for run in runs] for runs in (case.measured, case.predicted))
            table.add_row(label, title, _range(metric, real), _mean(metric, ours), *_verdict(limits.get(metric)))
        open_loop = case.open_loop
        table.add_row("", "steps alone", "", f"{open_loop.busy_error:+.1%}; {open_loop.median_step_error:.1%} each")
        table.add_row()
    return table


def _range(metric: str, values: Sequence[float]) -> str:
    scale, unit = _unit(metric, max(values))
    low, high = (f"{value * scale:.3g}" for value in (min(values), max(values)))
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def _mean(metric: str, values: Sequence[float]) -> str:
    mean, deviation = float(np.mean(values)), float(np.std(values))
    scale, unit = _unit(metric, mean)
    return f"{mean * scale:.3g}{unit}" if deviation < NOISE else f"{mean * scale:.3g} ± {deviation * scale:.2g}{unit}"


def _unit(metric: str, value: float) -> tuple[float, str]:
    if metric == "turns_per_s" or not metric.endswith("_s"):
        return 1.0, ""
    return (1.0, " s") if value >= 1 else (1e3, " ms")


def _verdict(limit: Limit | None) -> tuple[str, str]:
    if limit is None:
        return "", ""
    allowed = _range(limit.metric, (limit.low, limit.high))
    return allowed, "[green]met[/green]" if limit.met else "[red]not met[/red]"


def _knee_line(sweep: Sweep) -> str:
    low, past = sweep.measured_between
    ours = "none" if sweep.knee.sessions is None else f"{sweep.knee.sessions:g}"
    over = "" if sweep.knee.low == sweep.knee.high else f" ({sweep.knee.low} to {sweep.knee.high} over replicates)"
    if past is None:
        real = f"none up to {max(sweep.measured_ratios)}"
    else:
        real = f"{past}" if low == past else f"{low} to {past}"
    verdict = "within one session" if sweep.within_one_session else "more than one session apart"
    ratios = ", ".join(f"{count}: {ratio:.1f}" for count, ratio in sorted(sweep.measured_ratios.items()))
    unlimited = "an unlimited cache" if sweep.measured_alone else "a predicted unlimited cache"
    return (
        f"{sweep.profile}, seed {sweep.seed}: knee predicted at {ours}{over}, measured {real}: {verdict}. "
        f"Measured p99 TTFT over that with {unlimited}, by sessions: {ratios}"
    )


def _case_json(case: Case) -> dict[str, Any]:
    return {
        "names": [run.name for run in case.runs],
        "profile": case.workload.profile,
        "seed": case.workload.seed,
        "sessions": case.workload.sessions,
        "num_gpu_blocks": case.engine.num_gpu_blocks,
        "fitted_on": case.fitted_on,
        "measured": [run._asdict() for run in case.measured],
        "predicted": mean_metrics(case.predicted)._asdict(),
        "replicates": [run._asdict() for run in case.predicted],
        "limits": [limit._asdict() | {"met": limit.met} for limit in case.limits()],
        "open_loop": case.open_loop._asdict(),
    }


def _sweep_json(sweep: Sweep) -> dict[str, Any]:
    return {
        "profile": sweep.profile,
        "seed": sweep.seed,
        "num_gpu_blocks": sweep.engine.num_gpu_blocks,
        "knee_sessions": sweep.knee.sessions,
        "knee_sessions_low": sweep.knee.low,
        "knee_sessions_high": sweep.knee.high,
        "tested_up_to": min(MOST_SESSIONS, max(sweep.predicted)),
        "measured_between": list(sweep.measured_between),
        "measured_ttft_p99_over_unlimited": {str(count): ratio for count, ratio in sweep.measured_ratios.items()},
        "measured_alone": sweep.measured_alone,
        "within_one_session": sweep.within_one_session,
        "points": [
            {"sessions": count} | mean_metrics(runs)._asdict() for count, runs in sorted(sweep.predicted.items())
        ],
    }
