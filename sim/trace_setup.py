"""From a scenario's recorded trace to what is sent; readers are imported only where there is one."""

from pathlib import Path
from typing import TYPE_CHECKING

from sim.errors import ScenarioError, one_of
from sim.trace_spec import ReplaySpec, TraceSpec

if TYPE_CHECKING:
    from workloads.traces.open_loop import Trace
    from workloads.traces.reading import ReadOptions
    from workloads.traces.replay import Replay


def find_trace(load: TraceSpec, place: str) -> "Trace":
    """Return a load's trace, read through once so that what is wrong with it is said now.

    Raises WorkloadError, with file and row, for a file that is none, and ScenarioError for an unknown format.
    """
    from workloads.traces.open_loop import SendRules, read_trace

    rules = SendRules(
        load.repeat, load.rate_scale, load.start_s, load.stop_s, load.share, load.limit, load.jitter_s, load.seed
    )
    return read_trace(found_path(load.path, place), _options(load, "load"), rules)


def find_replay(spec: ReplaySpec, max_model_len: int, place: str) -> "Replay":
    """Return the recorded sessions of a scenario.

    Raises WorkloadError, with file and row, for a trace without any, and ScenarioError for an unknown format.
    """
    from workloads.traces.replay import read_replay
    from workloads.traces.sessions import ReplayRules

    rules = ReplayRules(
        times=spec.times,
        gap_cap_s=spec.gap_cap_s,
        ids=spec.ids,
        shared_prefix_share=spec.shared_prefix_share,
        outputs_reusable=spec.outputs_reusable,
        max_context_tokens=spec.max_context_tokens or max_model_len,
        too_long=spec.too_long,
        share=spec.share,
        sessions=spec.sessions,
        seed=spec.seed,
    )
    return read_replay(found_path(spec.path, place), _options(spec, "replay"), rules)


def found_path(path: str, place: str) -> Path:
    """Return a path that counts from the scenario's folder, or, if nothing is there, from where the command runs."""
    beside, here = Path(place).parent / path, Path(path)
    return here if here.exists() and not beside.exists() else beside


def _options(spec: TraceSpec | ReplaySpec, key: str) -> "ReadOptions":
    from workloads.traces.formats import FORMATS
    from workloads.traces.reading import ReadOptions

    if spec.format is not None and spec.format not in FORMATS:
        raise ScenarioError(f"{key}.format {one_of(spec.format, FORMATS)}")
    sessions = spec.sessions if isinstance(spec, ReplaySpec) else None
    return ReadOptions(spec.format, spec.block_tokens, spec.rows, spec.skip_bad_rows, seed=spec.seed, sessions=sessions)
