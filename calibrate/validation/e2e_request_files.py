"""Per-request files of serving runs, in the three layouts there are, as one table.

    engine clock   queued_s, first_token_s, last_token_s, input_tokens, output_tokens
    capped client  arrival_s, send_s, server_input_tokens, output_tokens, ttft_ms, e2e_ms, experiment_id
    cycled prompts arrival_s, prompt_cycle_id, input_tokens, ttft_ms, e2e_ms, error (output length: the experiment's)

Latencies count from the send. A capped client's requests leave at `arrival_s` or when the cap lets them, which is
for whoever replays them to find out. Failed requests of a cycle have no length of their own: they get their prompt's.
"""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from calibrate.validation.e2e_experiments import Experiment
from sim.errors import MeasurementError, did_you_mean

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


class RequestTable(NamedTuple):
    """One entry a request, in order of arrival. `prompt` is -1 where no other request has the same text."""

    at_s: Floats
    sent_s: Floats
    input_tokens: Whole
    output_tokens: Whole
    prompt: Whole
    ttft_s: Floats
    e2e_s: Floats
    ok: NDArray[np.bool_]

    def part(self, rows: slice | Whole) -> "RequestTable":
        """Return some of the requests, or all in another order."""
        return RequestTable(
            at_s=self.at_s[rows],
            sent_s=self.sent_s[rows],
            input_tokens=self.input_tokens[rows],
            output_tokens=self.output_tokens[rows],
            prompt=self.prompt[rows],
            ttft_s=self.ttft_s[rows],
            e2e_s=self.e2e_s[rows],
            ok=self.ok[rows],
        )


def request_file(experiment: Experiment, folder: Path) -> Path | None:
    """Return the file the experiment's notes name, else one named after it, else None."""
    named = re.search(r"per-request file (\S+?\.csv)", experiment.notes)
    path = folder / (Path(named[1]).name if named else f"e2e_requests_{experiment.id}.csv")
    return path if named or path.is_file() else None


def read_requests(experiment: Experiment, path: Path) -> RequestTable:
    """Return an experiment's requests.

    Raises MeasurementError if the file is missing or of no known layout, or a number in it is none.
    """
    try:
        frame = pd.read_csv(path)
    except OSError as error:
        raise MeasurementError(f"{path}: {error.strerror}") from None
    except (ValueError, UnicodeDecodeError) as error:  # an empty or broken file; pandas' errors are ValueErrors
        raise MeasurementError(f"{path}: {error}") from None
    if "experiment_id" in frame:
        known = sorted(frame["experiment_id"].astype(str).unique())
        frame = frame[frame["experiment_id"] == experiment.id]
        if frame.empty:
            raise MeasurementError(
                f"{path}: no row has experiment_id {experiment.id!r}{did_you_mean(experiment.id, known)}"
            )
    if "queued_s" in frame:
        table = _engine_clock(frame, path)
    elif "send_s" in frame:
        table = _capped_client(frame, path)
    else:
        table = _cycled_prompts(experiment, frame, path)
    return table.part(np.argsort(table.at_s, kind="stable"))


def _engine_clock(frame: pd.DataFrame, path: Path) -> RequestTable:
    queued_s = _numbers(frame, "queued_s", path)
    return RequestTable(
        at_s=queued_s,
        sent_s=queued_s,
        input_tokens=_counts(frame, "input_tokens", path),
        output_tokens=_counts(frame, "output_tokens", path),
        prompt=np.full(len(frame), -1),
        ttft_s=_numbers(frame, "first_token_s", path) - queued_s,
        e2e_s=_numbers(frame, "last_token_s", path) - queued_s,
        ok=np.ones(len(frame), bool),
    )


def _capped_client(frame: pd.DataFrame, path: Path) -> RequestTable:
    return RequestTable(
        at_s=_numbers(frame, "arrival_s", path),
        sent_s=_numbers(frame, "send_s", path),
        input_tokens=_counts(frame, "server_input_tokens", path),
        output_tokens=_counts(frame, "output_tokens", path),
        prompt=np.full(len(frame), -1),
        ttft_s=_numbers(frame, "ttft_ms", path) / 1000,
        e2e_s=_numbers(frame, "e2e_ms", path) / 1000,
        ok=np.ones(len(frame), bool),
    )


def _cycled_prompts(experiment: Experiment, frame: pd.DataFrame, path: Path) -> RequestTable:
    if experiment.output_tokens is None:
        raise MeasurementError(f"neither {path.name} nor output_tokens_mean says how long answers are")
    ok = _numbers(frame, "error", path) == 0 if "error" in frame else np.ones(len(frame), bool)
    prompt = _numbers(frame, "prompt_cycle_id", path).astype(np.int64)
    at_s = _numbers(frame, "arrival_s", path)
    return RequestTable(
        at_s=at_s,
        sent_s=at_s,
        input_tokens=_filled(_numbers(frame, "input_tokens", path).astype(np.int64), prompt, path),
        output_tokens=np.full(len(frame), round(experiment.output_tokens)),
        prompt=prompt,
        ttft_s=_numbers(frame, "ttft_ms", path, where=ok) / 1000,
        e2e_s=_numbers(frame, "e2e_ms", path, where=ok) / 1000,
        ok=ok,
    )


def _filled(tokens: Whole, prompt: Whole, path: Path) -> Whole:
    """Give requests without a length the median of their prompt's other uses."""
    known = tokens > 0
    if not known.any():
        raise MeasurementError(f"{path}: input_tokens is 0 in every row")
    filled = tokens.copy()
    for row in np.flatnonzero(~known):
        alike = tokens[known & (prompt == prompt[row])]
        filled[row] = round(float(np.median(alike if len(alike) else tokens[known])))
    return filled


def _counts(frame: pd.DataFrame, column: str, path: Path) -> Whole:
    values = _numbers(frame, column, path)
    if (values < 1).any():
        raise MeasurementError(f"{path}:{_line(frame, values < 1)}: {column} must be at least 1")
    return values.round().astype(np.int64)


def _numbers(frame: pd.DataFrame, column: str, path: Path, where: NDArray[np.bool_] | None = None) -> Floats:
    """Return a column; every number must be finite, in the rows of `where` if given."""
    if column not in frame:
        raise MeasurementError(f"{path}: column {column!r} is missing{did_you_mean(column, frame.columns)}")
    values: Floats = pd.to_numeric(frame[column], errors="coerce").to_numpy(np.float64)
    wrong = ~np.isfinite(values) if where is None else ~np.isfinite(values) & where
    if wrong.any():
        cell = frame[column].to_numpy()[wrong.argmax()]
        raise MeasurementError(f"{path}:{_line(frame, wrong)}: {column} {str(cell)!r} must be a finite number")
    return values


def _line(frame: pd.DataFrame, wrong: NDArray[np.bool_]) -> int:
    return int(frame.index[int(wrong.argmax())]) + 2  # the header is line 1
