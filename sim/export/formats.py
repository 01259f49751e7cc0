"""The formats a run can be written in, by name."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from sim.engine.record import Run
from sim.export.aiperf import aiperf_lines
from sim.export.facts import Facts
from sim.export.prometheus import scrape
from sim.export.vllm_bench import bench_line


class ExportFormat(NamedTuple):
    """How a run is written, and whether one file may hold several."""

    write: Callable[[Run, Facts], str]
    several_levels: bool
    title: str


FORMATS = {
    "vllm-bench": ExportFormat(bench_line, True, "vllm bench serve, a line a load level"),
    "vllm-bench-detailed": ExportFormat(
        partial(bench_line, detailed=True), True, "the same with --save-detailed's arrays"
    ),
    "aiperf": ExportFormat(aiperf_lines, False, "AIPerf's profile_export.jsonl, a line a request"),
    "prometheus": ExportFormat(scrape, False, "vLLM's /metrics at the end of the run"),
}
