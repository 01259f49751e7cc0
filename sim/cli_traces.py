"""The commands for traces, and for workloads made of them or handed on; `cli.py` adds them to its own."""

from pathlib import Path
from typing import Any

import click

from sim.cli_options import MOST_SESSIONS, overrides_option


@click.command()
@click.argument("path", metavar="FILE_OR_FOLDER", type=click.Path(path_type=Path))
@click.option("--format", "format_name", metavar="NAME", help="The file's format.  [default: recognised]")
@click.option(
    "--block-tokens",
    type=click.IntRange(1, 1_000_000),
    help="Tokens a block id stands for, where not the format's; of content without ids, an engine's block.",
)
@click.option(
    "--rows",
    type=click.Choice(["cumulative", "delta"]),
    help="Whether a session's later rows hold the whole prompt or what is new.  [default: as the rows look]",
)
@click.option("--skip-bad-rows", is_flag=True, help="Count bad rows and go on, instead of refusing the file.")
@click.option("--limit", type=click.IntRange(1), help="Read only so many requests.")
@click.option("--sessions", type=click.IntRange(1, 1_000_000), help="Sessions to draw from a described load.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, help="What a described load is drawn with.", show_default=True
)
@click.option(
    "--tokens-per-character",
    type=click.FloatRange(0.001, 10),
    default=0.25,
    show_default=True,
    help="Turns text into tokens where a trace holds text.",
)
@click.option("--retention", is_flag=True, help="Hits by cache size (LRU, optimum) and by how long content is kept.")
@click.option("--count-answers", is_flag=True, help="Count answers as cached, too, where later prompts may hold them.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for chart and JSON.  [default: out/trace-NAME, none with --json]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def trace(path: Path, *, out: Path | None, as_json: bool, retention: bool, count_answers: bool, **read: Any) -> None:
    """Say what a recorded trace holds and what comes back.

    The format is recognised: a file, or a folder of files of one format. Nothing is simulated.

    \b
      kvcliff trace scenarios/traces/made-up-chats.jsonl --retention
    """  # noqa: D301 - click's mark for lines that stay as they are
    from sim.commands.trace import TraceOptions, trace_command
    from workloads.traces.reading import ReadOptions

    if out is None and not as_json:
        out = Path("out") / f"trace-{path.resolve().name.split('.')[0] or 'file'}"
    options = ReadOptions(format=read.pop("format_name"), **read)
    trace_command(TraceOptions(path, options, retention, count_answers, out, as_json))


@click.command()
@click.argument("name", required=False)
@click.option(
    "--max-model-len", type=click.IntRange(2, 10_000_000), help="Draw sessions that a model of this can take."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def workloads(name: str | None, max_model_len: int | None, *, as_json: bool) -> None:
    """List workload profiles, or show the numbers of one.

    NAME is a built-in profile, or a file that `kvcliff fit-workload` wrote. Shows each number with its source, and what
    sessions drawn from it look like. A scenario uses one as `workload: {profile: NAME}`.
    """
    from sim.commands.workloads import workloads_command

    workloads_command(name, max_model_len, as_json=as_json)


@click.command("fit-workload")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.yaml",
    help="Write the profile here.  [default: standard output]",
)
@click.option("--name", help="Name of the profile.  [default: that of the file]")
@click.option("--format", "format_name", metavar="NAME", help="The trace's format.  [default: recognised]")
@click.option("--limit", type=click.IntRange(1), help="Only so many of its first requests.")
@click.option("--skip-bad-rows", is_flag=True, help="Count rows that are wrong instead of stopping at the first.")
@click.option(
    "--shape",
    type=click.Choice(["quantiles", "lognormal"]),
    default="quantiles",
    show_default=True,
    help="Distributions as quantiles of the trace, or as lognormals of its median and p95.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object about the profile; needs --out.")
def fit_workload(**params: Any) -> None:
    """Make a workload profile from the sessions of a trace.

    TRACE is a file, or a folder of files, of any format of sessions that is known here. The profile has the trace's
    distributions of turns, first prompts, new tokens, answers and pauses, its compactions and what its prompts keep of
    each other, and says where it is from. A scenario uses it as `workload: {profile: path/to/FILE.yaml}`.
    """
    from sim.commands.fit_workload import FitOptions, fit_workload_command

    fit_workload_command(FitOptions(**params))


@click.command()
@click.argument("source", metavar="SCENARIO|TRACE", type=click.Path(path_type=Path))
@click.option(
    "--as",
    "form",
    required=True,
    type=click.Choice(("mooncake", "agentic-rows", "weka", "conversation-replay", "vllm-bench")),
    help="mooncake: requests at their times. agentic-rows: AIPerf's sessions, new tokens and pauses. weka: sessions "
    "with subagents, a .jsonl or a folder. conversation-replay: inference-perf's YAML. vllm-bench: a script of "
    "commands, with the traces it replays beside it.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write.",
)
@click.option("--level", type=click.IntRange(1, MOST_SESSIONS), help="Load level.  [default: the largest; or all]")
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True, help="Of what is drawn.")
@click.option("--sessions", type=click.IntRange(1, MOST_SESSIONS), help="Only so many sessions, or that many drawn.")
@click.option(
    "--times",
    type=click.Choice(("recorded", "simulated")),
    help="Where times are from: of a trace its own; of a scenario only a simulation has them.",
)
@click.option(
    "--block-tokens", type=click.IntRange(1, 2**20), help="Of hash ids.  [default: the trace's, the format's]"
)
@click.option("--format", "trace_format", metavar="NAME", help="Of the trace.  [default: recognised]")
@click.option("--limit", type=click.IntRange(1), help="Only so many of a trace's first requests.")
@click.option("--skip-bad-rows", is_flag=True, help="Count a trace's bad rows instead of refusing the file.")
@overrides_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def export(
    source: Path,
    form: str,
    output: Path,
    block_tokens: int | None,
    *,
    as_json: bool,
    **flags: Any,
) -> None:
    """Write a load so that a real server can be sent the same.

    A scenario's sessions are drawn as a simulation draws them; a trace's are kept as they are.
    """
    from sim.commands.export import ExportOptions, export_command
    from sim.commands.export_source import SourceOptions

    export_command(ExportOptions(SourceOptions(source, **flags), form, output, block_tokens, as_json))


TRACE_COMMANDS = (trace, workloads, fit_workload, export)
