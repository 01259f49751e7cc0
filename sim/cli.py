"""The command line. Commands import what they need when they run, so `--help` is instant.

Exit codes: 0 fine, 1 an asked-for check failed, 2 bad input (one line on stderr, no traceback), 130 interrupted, 141
nobody reads the output.
"""

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import click

from sim.command_group import CommandGroup
from sim.errors import KvcliffError


class _Group(CommandGroup):
    """Turns our errors, and wrong flags, into one line and exit code 2; finds the commands of calibration."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from calibrate.cli import COMMANDS

        return [*super().list_commands(ctx), *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        from calibrate.cli import COMMANDS, load

        return load(cmd_name) if cmd_name in COMMANDS else None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except _ours() as error:
            _refuse(str(error))
        except click.exceptions.NoArgsIsHelpError:  # `kvcliff validate` alone shows its help, as `kvcliff` does
            raise
        except click.UsageError as error:
            _refuse(error.format_message())
        except (KeyboardInterrupt, click.Abort):
            _leave(130)
        except BrokenPipeError:
            _leave(141)
        except OSError as error:  # a full disk, say
            _refuse(error.strerror or str(error))


def _ours() -> tuple[type[Exception], ...]:
    """Return our errors; that of `workloads` only if it was imported, for numpy comes with it."""
    workloads = sys.modules.get("workloads.errors")
    return (KvcliffError,) if workloads is None else (KvcliffError, workloads.WorkloadError)


def _leave(code: int) -> NoReturn:
    """Go at once, as a shell expects after a signal: whoever read our output may be gone."""
    os._exit(code)


def _refuse(message: str) -> NoReturn:
    click.echo(f"kvcliff: {' '.join(message.split())}", err=True)
    sys.exit(2)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version("kvcliff"), prog_name="kvcliff")
def main() -> None:
    """Predict where an LLM deployment falls off the KV-cache cliff.

    How many concurrent sessions it holds until the KV cache fills, what TTFT p50 and p99 do on either side, and
    why. Start with:  kvcliff run scenarios/l4-qwen3-4b-fp8.yaml
    """


def _overrides(function: Any) -> Any:
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override one key of the scenario, e.g. engine.kv_cache_dtype=fp8. Repeatable.",
    )(function)


@main.command()
@click.argument("scenarios", metavar="SCENARIO...", nargs=-1, required=True, type=click.Path(path_type=Path))
@_overrides
@click.option("--points", metavar="N,N,...", help="Session counts to simulate instead of the scenario's.")
@click.option("--seeds", type=click.IntRange(1, 1000), help="Replicates a point instead of the scenario's.")
@click.option("--variants", is_flag=True, help="Also run the scenario's variants: what-ifs and open choices.")
@click.option("--quick", is_flag=True, help="Skip the bisection of the knee and the search for its cause.")
@click.option("--check", is_flag=True, help="Exit with 1 if the scenario's checks fail.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for charts and CSV files; a folder named after the scenario is made in it.  [default: out, "
    "none with --json]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def run(
    scenarios: tuple[Path, ...],
    overrides: tuple[str, ...],
    points: str | None,
    seeds: int | None,
    *,
    variants: bool,
    quick: bool,
    check: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Simulate scenarios: table, knee and its cause, SLO capacity, chart; several are compared."""
    from sim.commands.run import RunOptions, run_command

    options = RunOptions(
        scenarios=scenarios,
        overrides=overrides,
        levels=_levels(points),
        seeds=seeds,
        variants=variants,
        explain=not quick,
        out=out if out is not None or as_json else Path("out"),
        as_json=as_json,
        check=check,
    )
    failed = run_command(options)
    if check and failed:
        for line in failed:
            click.echo(f"kvcliff: check failed: {line}", err=True)
        sys.exit(1)


def _levels(points: str | None) -> list[int] | None:
    if points is None:
        return None
    try:
        levels = [int(part) for part in points.split(",")]
    except ValueError:
        _refuse(f"--points {points!r} must be whole numbers joined by commas, such as 1,6,12")
    if min(levels) < 1 or max(levels) > 100_000:
        _refuse(f"--points {points!r} must lie between 1 and 100,000")
    return sorted(set(levels))


@main.command()
@click.argument("recording", type=click.Path(path_type=Path))
def steps(recording: Path) -> None:
    """Print the scheduler's decisions for a recorded scenario, one JSON object a line.

    RECORDING is a .scenario.json in the format of the recorded vLLM decisions.
    """
    import msgspec

    from sim.errors import RecordingError
    from sim.scheduling.replay import decode_scenario, replay

    try:
        text = recording.read_bytes()
    except OSError as error:
        raise RecordingError(f"{recording}: {error.strerror}") from None
    encode = msgspec.json.Encoder().encode
    for record in replay(decode_scenario(text, str(recording)), str(recording)):
        click.echo(encode(record))


@main.command()
@click.argument("scenario", type=click.Path(path_type=Path), required=False)
@_overrides
@click.option("--gpu", help="GPU of the catalog, e.g. L4.")
@click.option("--model", help="Model of the catalog, or a Hugging Face config.json or its folder.")
@click.option("--weight-dtype", default=None, help="fp8, bf16, int4, ...; auto is the checkpoint's own.")
@click.option("--kv-cache-dtype", default=None, help="auto, bf16, fp8, tq4, ...")
@click.option("--gpu-memory-utilization", type=float, default=None)
@click.option("--max-model-len", type=int, default=None)
@click.option("--max-num-batched-tokens", type=int, default=None)
@click.option("--max-num-seqs", type=int, default=None)
@click.option("--block-size", type=int, default=None)
@click.option("--tensor-parallel-size", type=int, default=None)
@click.option("--kv-cache-tokens", type=int, default=None, help="What the engine's own log says.")
@click.option("--num-gpu-blocks-override", type=int, default=None)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def memory(scenario: Path | None, overrides: tuple[str, ...], *, as_json: bool, **flags: Any) -> None:
    """Say how many KV blocks fit, or why the engine would refuse to start.

    Give a SCENARIO, or --gpu and --model with vLLM's own flags.
    """
    from sim.commands.memory import memory_command

    memory_command(
        scenario, overrides, {key: value for key, value in flags.items() if value is not None}, as_json=as_json
    )
