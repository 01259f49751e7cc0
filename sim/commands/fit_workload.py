"""`kvcliff fit-workload`: a trace's sessions into a workload profile, and the profile beside the trace."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import click
import yaml

from sim.commands.files import check_writable
from sim.errors import ScenarioError
from sim.report.atomic import replacing
from sim.strict_yaml import decode, parse_yaml
from sim.workload_drawn import drawn_summary
from sim.workload_profiles import WorkloadProfile
from sim.workload_setup import workload
from workloads.drawn import DrawnSessions, drawn_sessions
from workloads.fit import Shape, fitted_workload
from workloads.traces.digest import trace_digest
from workloads.traces.open import open_trace
from workloads.traces.reading import ReadOptions
from workloads.traces.session_steps import SessionSteps, session_steps

_SOURCES = {
    "shared_prefix_tokens": "front that the sessions have in common",
    "turns": "requests of a session",
    "first_tokens": "first prompt of a session beyond the shared front",
    "resumed": "sessions that begin with far longer prompts than others, and their requests",
    "new_tokens": "growth of a prompt beyond the answer before it",
    "output_tokens": "answers",
    "think_s": "pauses, by who ends them where the trace tells people and tools apart",
    "stripped_share": "prompts that grow by less than the answer before them",
    "compaction": "prompts that shrink: to what share, and how much of that was there before",
    "rewrites": "prompts that keep only a front of the one before and shrink not, and how much they keep",
}


@dataclass(frozen=True, slots=True)
class FitOptions:
    """The command's flags."""

    trace: Path
    out: Path | None
    name: str | None
    format_name: str | None
    limit: int | None
    skip_bad_rows: bool
    shape: Shape
    as_json: bool


def fit_workload_command(options: FitOptions) -> None:
    """Read the trace once, fit, write, and show the profile beside the trace."""
    if options.as_json and options.out is None:
        raise ScenarioError("--json needs --out FILE.yaml: standard output is where the profile goes")
    if options.out is not None:
        if options.out.suffix not in {".yaml", ".yml"}:
            raise ScenarioError(f"--out {options.out} must end with .yaml")
        check_writable("--out", options.out.parent)
    trace = open_trace(
        options.trace,
        ReadOptions(format=options.format_name, limit=options.limit, skip_bad_rows=options.skip_bad_rows),
    )
    steps = session_steps(trace)
    if not steps.steps:
        raise ScenarioError(f"{options.trace}: all its requests are of subagents: there is no session to fit")
    assumed = [*trace.notes, *steps.assumed]
    if trace.bad_rows:
        assumed.append(f"{trace.bad_rows:,} bad rows are left out, the first: {trace.first_bad}")
    fitted = fitted_workload(steps, options.shape)
    name = options.name or _plain_name((options.out or options.trace).stem)
    told = {
        "name": name,
        "description": f"{len(steps.steps):,} sessions of {options.trace.name} as distributions.",
        "workload": fitted,
        "sources": {key: f"{options.trace.name}: {_SOURCES[key]}" for key in fitted},
        "fitted_from": {
            "file": options.trace.name,
            "format": trace.format.title,
            "sha256": trace_digest(trace.files),
            "sessions": len(steps.steps),
            "requests": steps.requests,
            "assumed": assumed,
        },
    }
    text = yaml.safe_dump(told, sort_keys=False, default_flow_style=None, width=116, allow_unicode=True)
    profile = decode(parse_yaml(text, str(options.out or name)), WorkloadProfile)
    if options.out is None:
        click.echo(text, nl=False)
    else:
        with replacing(options.out) as path:
            path.write_text(text, encoding="utf-8")
    _show(options, steps, profile, assumed)


def _show(options: FitOptions, steps: SessionSteps, profile: WorkloadProfile, assumed: list[str]) -> None:
    traced = DrawnSessions(counts_resumed=True)
    for session in steps.sessions():
        traced.add(session)
    drawn = drawn_sessions(workload(profile.workload), counts_resumed=True)
    both = {"trace": drawn_summary(traced), "profile": drawn_summary(drawn)}
    if options.as_json:
        click.echo(json.dumps({"out": str(options.out), "name": profile.name, "assumed": assumed, **both}))
        return
    from sim.report.workload_tables import print_fit

    print_fit(profile, both, assumed, options.out)


def _plain_name(stem: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.") or "fitted"
