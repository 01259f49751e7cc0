"""`kvcliff export`: a scenario's load, or a trace, in the files that load generators send to a real server."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import click

from sim.commands.export_files import LINES, check_output, write_folder, write_lines, write_text
from sim.commands.export_source import ScenarioSource, Source, SourceOptions, TraceSource, source_of
from sim.errors import ScenarioError
from sim.scenario import load_unit
from workloads.agent import AgentWorkload
from workloads.errors import WorkloadError
from workloads.export.agentic_rows import agentic_rows
from workloads.export.blocks import BlockNames
from workloads.export.conversation import conversations
from workloads.export.conversation_replay import (
    Conversations,
    Stage,
    check_answers_return,
    fitted,
    of_workload,
    replay_document,
)
from workloads.export.mooncake import mooncake_rows
from workloads.export.summary import Summary
from workloads.export.weka import BLOCK_TOKENS as WEKA_BLOCK_TOKENS
from workloads.export.weka import tell_fronts, weka_sessions
from workloads.span import total_tokens
from workloads.traces.request import TraceRequest

_FITTED_SESSIONS = 400
MOONCAKE_BLOCK_TOKENS = 512  # what its readers assume
ANY_MODEL = "MODEL"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The command's flags, checked."""

    source: SourceOptions
    form: str
    output: Path
    block_tokens: int | None = None
    as_json: bool = False


def export_command(options: ExportOptions) -> None:
    """Read or simulate, write, and say what was written."""
    form = FORMS[options.form]
    check_output(options.output, folder=form is _weka and options.output.suffix != LINES)
    if options.output.exists() and options.source.path.exists() and options.output.samefile(options.source.path):
        raise ScenarioError(f"-o {options.output} is what is read")
    if options.source.sessions is not None and options.form == "mooncake" and options.source.times is None:
        raise ScenarioError("--sessions is for sessions; of a trace's requests take the first with --limit")
    source = source_of(options.source)
    summary = Summary()
    with _named(options.source.path):
        written = form(source, options, summary)
    for note in source.notes if isinstance(source, ScenarioSource) else source.trace.notes:
        summary.note(note)
    if isinstance(source, TraceSource) and source.trace.bad_rows:
        summary.note(f"{source.trace.bad_rows:,} bad rows were skipped, the first: {source.trace.first_bad}")
    if options.as_json:
        found = {"format": options.form, "files": [str(path) for path in written], **summary.as_dict()}
        click.echo(json.dumps(found, allow_nan=False))
    else:
        _print(summary, written)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say which file an error is of, where it does not itself."""
    try:
        yield
    except WorkloadError as error:
        if str(error).startswith(str(path)):
            raise
        raise WorkloadError(f"{path}: {error}") from None


def _mooncake(source: Source, options: ExportOptions, summary: Summary) -> list[Path]:
    requests = source.timed() if isinstance(source, TraceSource) else source.timed(_level(source))
    own = source.block_tokens() if isinstance(source, TraceSource) else None
    size = options.block_tokens or own or MOONCAKE_BLOCK_TOKENS
    write_lines(options.output, mooncake_rows(requests, BlockNames(size), summary))
    _say_blocks(summary, size)
    return [options.output]


def _agentic_rows(source: Source, options: ExportOptions, summary: Summary) -> list[Path]:
    if isinstance(source, ScenarioSource):
        for population in source.populations(_level(source)):
            check_answers_return(population.workload)
    sessions = conversations(_requests(source), options.source.sessions)
    size = options.block_tokens or MOONCAKE_BLOCK_TOKENS
    write_lines(options.output, agentic_rows(sessions, BlockNames(size), summary, clock=_has_clock(source)))
    summary.note(f"ids are of {size}-token blocks; rows after a session's first hold what is new alone")
    return [options.output]


def _weka(source: Source, options: ExportOptions, summary: Summary) -> list[Path]:
    sessions = conversations(_requests(source), options.source.sessions)
    shared = 0
    if isinstance(source, ScenarioSource):
        prefix = source.populations(source.levels[-1])[0].workload.prefix
        if source.deployment.replay is None:
            shared = total_tokens(prefix)
        else:
            tell_fronts(sessions, prefix)
    size = options.block_tokens or WEKA_BLOCK_TOKENS
    objects = weka_sessions(
        sessions,
        summary,
        model=_model(source),
        shared_tokens=shared,
        block_tokens=size,
        clock=_has_clock(source),
    )
    if shared:
        summary.note(f"ids mean something within a session alone; the {shared:,} tokens all share are system_tokens")
    if options.output.suffix == LINES:
        write_lines(options.output, objects)
        return [options.output]
    return write_folder(options.output, objects)


def _conversation_replay(source: Source, options: ExportOptions, summary: Summary) -> list[Path]:
    import yaml

    longest: int | None = None
    if isinstance(source, ScenarioSource):
        levels = source.levels
        drawn = _described(source, summary)
        stop = source.deployment.scenario.stop
        each = (stop.sessions_per_client if stop is not None else None) or 1
        count = options.source.sessions or max(levels) * each
        longest = source.deployment.scenario.engine.max_model_len
        if not source.populations(levels[0])[0].clients:
            summary.note("sessions that arrive at a rate become as many at once: set concurrency_level yourself")
    else:
        found = conversations(source.requests(), options.source.sessions)
        drawn = fitted(found, summary)
        levels, each, count = [options.source.level or len(found)], 1, len(found)
    stages = [Stage(level, max(round(level * each * drawn.mean_turns), 1)) for level in levels]
    document = replay_document(
        drawn, stages, model=_model(source), sessions=count, seed=options.source.seed, max_model_len=longest
    )
    header = "# inference-perf --config_file THIS; written by kvcliff export\n"
    write_text(options.output, header + yaml.safe_dump(document, sort_keys=False))
    summary.note("conversations are drawn from the distributions by the tool itself: alike, not the same")
    return [options.output]


def _described(source: ScenarioSource, summary: Summary) -> Conversations:
    """Return a scenario's distributions; fitted to drawn sessions where the tool has no names for them."""
    workload = source.populations(source.levels[0])[0].workload
    check_answers_return(workload)
    if isinstance(workload, AgentWorkload):
        with suppress(WorkloadError):
            return of_workload(workload)
    if source.deployment.replay is not None:
        found = fitted(conversations(source.requests(source.levels[-1])), summary)
        return found._replace(shared_tokens=total_tokens(workload.prefix))
    many = replace(source, sessions=_FITTED_SESSIONS, times=None)
    summary.note(f"lognormals fitted to {_FITTED_SESSIONS} sessions, for the tool has no such distributions")
    found = fitted(conversations(many.requests(source.levels[0])), Summary())
    return found._replace(shared_tokens=total_tokens(workload.prefix))


def _vllm_bench(source: Source, options: ExportOptions, summary: Summary) -> list[Path]:
    from sim.commands.export_bench import write_bench

    written, lines = write_bench(source, options.output, options.block_tokens, options.source.seed, summary)
    for line in () if options.as_json else lines:
        click.echo(line)
    return written


FORMS: dict[str, Callable[[Source, ExportOptions, Summary], list[Path]]] = {
    "mooncake": _mooncake,
    "agentic-rows": _agentic_rows,
    "weka": _weka,
    "conversation-replay": _conversation_replay,
    "vllm-bench": _vllm_bench,
}


def _requests(source: Source) -> Sequence[TraceRequest]:
    """Return the requests of a session format; of a trace, those without a shared clock keep their own times."""
    return list(source.requests()) if isinstance(source, TraceSource) else source.requests(_level(source))


def _level(source: ScenarioSource) -> int:
    """Return the level: the only one there is, or the largest."""
    if len(source.levels) > 1:
        source.notes.append(
            f"{source.levels[-1]} {load_unit(source.deployment.scenario.load)}: the largest; --level N for another"
        )
    return source.levels[-1]


def _has_clock(source: Source) -> bool:
    return source.has_clock if isinstance(source, TraceSource) else True


def _model(source: Source) -> str:
    return source.model if isinstance(source, ScenarioSource) else ANY_MODEL


def _say_blocks(summary: Summary, size: int) -> None:
    summary.note(f"ids are of {size}-token blocks: readers must be told where they assume others")


def _print(summary: Summary, written: Sequence[Path]) -> None:
    found = summary.as_dict()
    if summary.requests:
        sessions = f" in {len(summary.sessions):,} sessions" if summary.sessions else ""
        click.echo(
            f"{summary.requests:,} requests{sessions}: {summary.prompt_tokens:,} prompt and "
            f"{summary.output_tokens:,} output tokens"
        )
        if found["infinite_cache_hit_rate"]:
            share = found["infinite_cache_hit_rate"]
            click.echo(f"{share:.1%} of the prompt tokens are in blocks sent before: the hits of a cache without limit")
    for note in found["notes"]:
        click.echo(f"note: {note}")
    many = f" … {written[-1].name}" if len(written) > 1 else ""
    click.echo(f"written: {written[0]}{many}")
