"""The command line. Commands import what they need when they run, so `--help` is instant.

Exit codes: 0 fine, 1 an asked-for check failed, 2 bad input (one line on stderr, no traceback), 130 interrupted, 141
nobody reads the output.
"""

import os
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import click

from sim.cli_options import MOST_SESSIONS, overrides_option
from sim.cli_traces import TRACE_COMMANDS
from sim.command_group import CommandGroup
from sim.commands.memory_options import OPTIONS, PastedCommand, as_fields
from sim.errors import KvcliffError

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")  # 6, 1-48, 1-48:2


class _Group(CommandGroup):
    """Turns our errors, and wrong flags, into one line and exit code 2; finds the commands of calibration."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        from calibrate.cli import COMMANDS

        return [*self.commands, *COMMANDS]

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
        except click.NoSuchOption as error:
            owner = self._owner(error.option_name)
            _refuse(error.format_message() if owner is None else f"no option {error.option_name} here ({owner} has it)")
        except click.UsageError as error:
            _refuse(error.format_message())
        except (KeyboardInterrupt, click.Abort):
            _leave(130)
        except BrokenPipeError:
            _leave(141)
        except OSError as error:  # a full disk, say
            why = error.strerror or str(error)
            _refuse(why if error.filename is None else f"{error.filename}: {why}")

    def _owner(self, option: str) -> str | None:
        """Return `kvcliff sweep` for an option that one command alone has."""
        owners = [
            name for name, command in self.commands.items() if any(option in param.opts for param in command.params)
        ]
        return f"kvcliff {owners[0]}" if len(owners) == 1 else None


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


def _grid(function: Any) -> Any:
    for option in (
        click.option("--jobs", type=click.IntRange(1, 1024), help="Worker processes; 1: none.  [default: one a core]"),
        click.option("--seeds", type=click.IntRange(1, 1000), help="Replicates a point instead of the scenario's."),
        click.option(
            "--points",
            metavar="N,N-M,...",
            help="Session counts to simulate instead of the scenario's: 1,6,12 or 1-48 or 1-48:2.",
        ),
    ):
        function = option(function)
    return function


def _scenarios(function: Any) -> Any:
    path = click.Path(path_type=Path)
    return click.argument("scenarios", metavar="SCENARIO...", nargs=-1, required=True, type=path)(function)


@main.command()
@_scenarios
@overrides_option
@_grid
@click.option("--variants", is_flag=True, help="Also run the scenario's variants: what-ifs and open choices.")
@click.option("--quick", is_flag=True, help="Skip the bisection of the knee and the search for its cause.")
@click.option("--check", is_flag=True, help="Exit with 1 if the scenario's checks fail.")
@click.option(
    "--breakdown",
    is_flag=True,
    help="Also split each request's time (first seed): queue, prefill, re-prefill, interference, decode, link.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for charts and CSV files; a folder named after the scenario is made in it.  [default: out, "
    "none with --json]",
)
@click.option(
    "--records",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.parquet",
    help="Write every turn of one load level here as it ends, and not to turns.csv: memory stays small however long "
    "the run is. FILE.steps.parquet gets the steps.",
)
@click.option(
    "--export",
    "exports",
    multiple=True,
    metavar="FORMAT:FILE",
    help="Write the first seed of each load level as a real tool would have: vllm-bench (a JSON line a level), "
    "vllm-bench-detailed, aiperf (profile_export.jsonl) or prometheus (vLLM's /metrics); {level} in FILE gives each "
    "level its own. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def run(
    scenarios: tuple[Path, ...],
    overrides: tuple[str, ...],
    points: str | None,
    seeds: int | None,
    jobs: int | None,
    *,
    variants: bool,
    quick: bool,
    check: bool,
    breakdown: bool,
    out: Path | None,
    records: Path | None,
    exports: tuple[str, ...],
    as_json: bool,
) -> None:
    """Simulate scenarios: table, knee and its cause, SLO capacity.

    Each is drawn as a chart, too; several are compared.
    """
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
        records=records,
        breakdown=breakdown,
        exports=exports,
        jobs=jobs,
    )
    failed = run_command(options)
    if check and failed:
        for line in failed:
            click.echo(f"kvcliff: check failed: {line}", err=True)
        sys.exit(1)


def _levels(points: str | None) -> list[int] | None:
    if points is None:
        return None
    levels: set[int] = set()
    for part in points.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            _refuse(f"--points {points!r} must be whole numbers or ranges joined by commas, such as 1,6,12 or 1-48:2")
        first, last, step = (
            int(text or default) for text, default in zip(found.groups(), (0, found[1], 1), strict=True)
        )
        if not step:
            _refuse(f"--points {points!r}: {part.strip()}: the step must be at least 1")
        if last < first:
            _refuse(f"--points {points!r}: {part.strip()} must ascend, such as 1-48 or 1-48:2")
        if first < 1 or last > MOST_SESSIONS:
            _refuse(f"--points {points!r} must lie between 1 and {MOST_SESSIONS:,}")
        levels.update(range(first, last + 1, step))
    return sorted(levels)


@main.command()
@_scenarios
@click.option(
    "--over",
    multiple=True,
    metavar="KEY=VALUE,VALUE",
    help="Simulate each value of one key, e.g. engine.kv_cache_dtype=fp8,auto. Repeatable: all combinations.",
)
@overrides_option
@_grid
@click.option("--quick", is_flag=True, help="Skip the bisection of each knee and the search for its cause.")
@click.option("--cluster", metavar="URL", help="Simulate on a running cluster: dask://host:port or ray://host:port.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for table, chart and what is already simulated; the same folder again goes on where it stopped.  "
    "[default: out/sweep-NAME, of the scenario]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def sweep(*, points: str | None, quick: bool, **flags: Any) -> None:
    """Simulate every combination of settings; resumable.

    Tells knee and its cause, SLO capacity and TTFT of each, and draws one chart.

    Finished simulations are kept in the output folder at once. Run again after an interruption, or with more values,
    points or seeds, and only what is new is simulated. Exits with 1 if a simulation failed; the rest is kept.
    """
    from sim.commands.sweep import SweepOptions, sweep_command

    if flags["cluster"] is not None and flags["jobs"] is not None:
        _refuse("--jobs is for this machine, --cluster has its own workers: give one of them")
    options = SweepOptions(levels=_levels(points), explain=not quick, **flags)
    if not sweep_command(options):
        sys.exit(1)


@main.command()
@click.argument("recording", type=click.Path(path_type=Path))
def steps(recording: Path) -> None:
    """Print the scheduler's decisions for a recording.

    One JSON object a line. RECORDING is a .scenario.json in the format of the recorded vLLM decisions.
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


@main.command(cls=PastedCommand, params=list(OPTIONS))
def memory(**params: Any) -> None:
    """Say how many KV blocks fit, or why it would not start.

    Give a SCENARIO, a whole start COMMAND as you would run it (vllm serve ..., python -m sglang.launch_server ...,
    docker run ..., or a file that holds one, or - for standard input), or just --model and the engine's own FLAGS:

    \b
      kvcliff memory vllm serve Qwen/Qwen3-14B-AWQ --max-model-len 32k -tp 2 --gpu L4 --gpus 2
      kvcliff memory --gpu H100 --model google/gemma-4-26B-A4B-it --max-num-batched-tokens 2048
      kvcliff memory --log startup.log --gpu L4 --kv-cache-dtype fp8
      kvcliff memory --gpu L4 --model Qwen3-4B --compare "--kv-cache-dtype fp8" --out kv.png
    """  # noqa: D301 - click's mark for lines that stay as they are
    from sim.commands.memory import MemoryOptions, memory_command

    memory_command(MemoryOptions(**as_fields(params)))


for _command in TRACE_COMMANDS:
    main.add_command(_command)
