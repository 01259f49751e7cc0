"""`kvcliff export --as vllm-bench`: a script that starts the server, and for each level the client that loads it."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from sim.commands.export_files import LINES, check_output, write_lines, write_text
from sim.commands.export_source import SIMULATED, ScenarioSource, Source, TraceSource
from sim.commands.progress import progress_bar
from sim.export.bench_flags import common, requests_at, single_turns, timed
from sim.export.serve_flags import remarks, serve_command
from workloads.export.blocks import BlockNames
from workloads.export.mooncake import mooncake_rows
from workloads.export.summary import Summary
from workloads.traces.request import TraceRequest

_VLLM_BLOCK_TOKENS = 16
_ANSWERS = (
    "the tool sends single requests: an answer that a later prompt holds is text of the file there, not what the "
    "server said, so it is computed again"
)


def write_bench(
    source: Source, output: Path, block_tokens: int | None, seed: int, summary: Summary
) -> tuple[list[Path], list[str]]:
    """Write the script, and the traces it replays beside it; return the files and the script's lines."""
    if isinstance(source, TraceSource):
        written, lines = _of_trace(source, output, block_tokens, seed, summary)
    else:
        written, lines = _of_scenario(source, output, block_tokens, seed, summary)
    write_text(output, "\n".join(["#!/bin/sh", *lines, ""]))
    return [output, *written], lines


def _of_trace(
    source: TraceSource, output: Path, block_tokens: int | None, seed: int, summary: Summary
) -> tuple[list[Path], list[str]]:
    path = _beside(output, "")
    check_output(path, folder=False)
    size = block_tokens or source.block_tokens() or _VLLM_BLOCK_TOKENS
    _write(path, source.timed(), size, summary)
    words = [*common("$MODEL", summary.requests, seed, f"{source.name}.results.jsonl"), *timed(Path(path.name), size)]
    lines = [
        'MODEL="${MODEL:?the name of the model that is served}"',
        'cd "$(dirname "$0")"',
        _joined(words),
    ]
    return [path], lines


def _of_scenario(
    source: ScenarioSource, output: Path, block_tokens: int | None, seed: int, summary: Summary
) -> tuple[list[Path], list[str]]:
    deployment = source.deployment
    if source.times is None and deployment.trace is None:
        source = ScenarioSource(deployment, source.levels, SIMULATED, seed, source.sessions, source.notes)
    lines = [
        f"# {source.name} as simulated by kvcliff: start the server in one terminal, then run this script in another",
        f"# {_joined(serve_command(deployment))}",
        *(f"# {remark}" for remark in remarks(deployment)),
        'cd "$(dirname "$0")"',
    ]
    written: list[Path] = []
    with progress_bar() as progress:
        for done, level in enumerate(source.levels):
            progress(done, len(source.levels))
            words = single_turns(deployment, level)
            count = requests_at(deployment.scenario, level)
            if words is None:
                path = _beside(output, f".{level}" if deployment.trace is None else "")
                check_output(path, folder=False)
                requests, size = source.timed(level), block_tokens or _VLLM_BLOCK_TOKENS
                _write(path, requests, size, summary)
                written.append(path)
                words, count = timed(Path(path.name), size), len(requests)
                summary.note("times are those at which the simulation sent each request")
                summary.note(_ANSWERS)
            # A seed of its own: prompts drawn alike would be in the server's cache since the level before.
            own = common(source.model, count, seed + level, f"{source.name}.results.jsonl")
            lines.append(_joined([*own, *words]))
    return written, lines


def _write(path: Path, requests: Iterable[TraceRequest], size: int, summary: Summary) -> None:
    write_lines(path, mooncake_rows(requests, BlockNames(size), summary, ids_needed=True))
    summary.note(f"ids are of {size}-token blocks, as --timed-trace-chunk-hash-size says")


def _beside(output: Path, part: str) -> Path:
    return output.with_name(f"{output.stem}{part}{LINES}")


def _joined(words: Sequence[str]) -> str:
    return " ".join('"$MODEL"' if word == "$MODEL" else shlex.quote(word) for word in words)
