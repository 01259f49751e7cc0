"""What a benchmark's client sent: recorded requests where there are any, else the loop its row describes.

A session is a list of stages that one server saw one after another. Requests leave in order: at recorded times, at
Poisson times stretched to last exactly requests / rate (as vLLM's benchmark does), or whenever one of N returns.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calibrate.validation.e2e_experiments import Experiment, LoadPoint
from calibrate.validation.e2e_lengths import answers, chat_prompts, fixed
from calibrate.validation.e2e_metrics import latency_metrics
from calibrate.validation.e2e_prompts import (
    CYCLE,
    Spans,
    conversations,
    cycled,
    drawn,
    has_conversations,
    is_cycled,
    own_text,
)
from calibrate.validation.e2e_request_files import RequestTable, read_requests, request_file
from sim.engine.recorded import RecordedLoad
from sim.errors import MeasurementError
from workloads.recorded import RecordedRequest

INFERENCE_PERF_TIME_OUT_S = 300.0
_STAGE_S = 600.0  # a rate stage whose length is not stated
_ROUNDS = 10  # of a closed loop whose length is not stated
_UNITS = {
    "request_rate_rps": "req/s",
    "concurrency": "clients",
    "concurrency_cap": "clients",
    "requests_at_t0": "at once",
}
_UNSENDABLE = {
    "stage_index": "the rates of its stages are not stated",
    "injected_prefills": "a burst into running decoders is not an arrival process this replay knows",
    "resumed_prefix_tokens": "one resumed session on an idle engine is not an arrival process this replay knows",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """One load level: what is sent, what was measured, and how long an open loop offers its requests."""

    label: str
    value: float
    load: RecordedLoad
    measured: Mapping[str, float]
    requests: int | None  # None: as many as the duration allows
    span_s: float | None  # first to last arrival of an open loop; None = closed
    trimmed: float = 0.0  # share of the duration left out of the statistics at either end
    warm_up: int = 0  # first requests left out of both sides' statistics


Session = tuple[Stage, ...]


def sessions_of(experiment: Experiment, folder: Path, seed: int, limit: int | None, warm_up: int = 0) -> list[Session]:
    """Return what the client sent, at most `limit` requests a stage.

    The first `warm_up` recorded requests are sent, but count on neither side: a server that has not seen a batch
    shape before stops to compile it, which no step time tells.

    Raises MeasurementError if the row or its file does not say enough to send it again.
    """
    if not experiment.points:
        raise MeasurementError("it has no load points")
    path = request_file(experiment, folder)
    if path is not None:
        return [_recorded(experiment, read_requests(experiment, path), limit, warm_up)]
    stages = tuple(_described(experiment, point, seed, limit) for point in experiment.points)
    return [stages] if experiment.one_server or is_cycled(experiment) else [(stage,) for stage in stages]


def assumptions(experiment: Experiment, folder: Path) -> tuple[str, ...]:
    """Return what is sent without a source saying so."""
    if request_file(experiment, folder) is not None:
        return ()
    shaped = "e2e_p95_s" in experiment.points[0].measured
    return (
        *(("arrivals drawn, Poisson",) if is_random(experiment, folder) else ()),
        *(("answer lengths shaped like the end-to-end percentiles of the lowest load",) if shaped else ()),
        *(("overlap of conversations fitted",) if has_conversations(experiment) else ()),
    )


def is_random(experiment: Experiment, folder: Path) -> bool:
    """Whether arrivals or lengths are drawn, so that seeds matter."""
    open_loop = any(point.kind == "request_rate_rps" for point in experiment.points)
    return open_loop and request_file(experiment, folder) is None


def _recorded(experiment: Experiment, table: RequestTable, limit: int | None, warm_up: int) -> Session:
    return tuple(
        _recorded_stage(experiment, point, table.part(slice(*ends)), limit, 0 if ends[0] else warm_up)
        for point, ends in zip(experiment.points, _stage_ends(experiment, len(table.at_s)), strict=True)
    )


def _stage_ends(experiment: Experiment, rows: int) -> list[tuple[int, int]]:
    points = experiment.points
    if len(points) == 1:
        return [(0, rows)]
    ends = [0, *itertools.accumulate(point.requests or 0 for point in points)]
    if ends[-1] != rows:
        raise MeasurementError(f"its points count {ends[-1]} requests, its per-request file {rows}")
    return list(itertools.pairwise(ends))


def _recorded_stage(
    experiment: Experiment, point: LoadPoint, whole: RequestTable, limit: int | None, warm_up: int
) -> Stage:
    table = whole.part(slice(limit))
    counted = table.part(slice(warm_up, None))
    if not len(counted.at_s):
        raise MeasurementError(f"no request is left for the load of {point.value:g}")
    start_s = table.at_s[0]
    requests = tuple(
        RecordedRequest.of(
            float(at_s - start_s),
            own_text(number, tokens) if prompt < 0 else cycled(experiment, prompt, tokens),
            output,
            str(number),
        )
        for number, (at_s, tokens, output, prompt) in enumerate(
            zip(
                table.at_s,
                table.input_tokens.tolist(),
                table.output_tokens.tolist(),
                table.prompt.tolist(),
                strict=True,
            )
        )
    )
    measured = latency_metrics(counted.sent_s, counted.ttft_s, counted.e2e_s, counted.output_tokens, counted.ok)
    load = RecordedLoad(requests, _most_in_flight(experiment), _time_out_s(experiment))
    span_s = float(counted.at_s[-1] - counted.at_s[0])
    known = {**point.measured, **measured}
    return Stage(_label(point), point.value, load, known, len(counted.at_s), span_s, warm_up=warm_up)


def _described(experiment: Experiment, point: LoadPoint, seed: int, limit: int | None) -> Stage:
    count, cap, duration_s = _extent(experiment, point)
    inputs, outputs = point.input_tokens or experiment.input_tokens, point.output_tokens or experiment.output_tokens
    if not inputs or not outputs:
        missing = " or ".join(name for name, mean in (("prompts", inputs), ("answers", outputs)) if not mean)
        raise MeasurementError(f"how long the {missing} are is not stated")
    sent = min(count, limit) if limit is not None else count
    rng = np.random.default_rng([seed, 0])  # the same prompts at every rate, as one data set gives
    prompts = _prompts(experiment, inputs, count, rng)
    lengths = answers(outputs, count, experiment.points[0].measured, rng)
    rate = point.value if point.kind == "request_rate_rps" else math.inf
    times = _poisson_s(count, rate, np.random.default_rng([seed, 1]))
    requests = tuple(
        RecordedRequest.of(at_s, spans, int(output), f"{point.value:g} {number}")
        for number, (at_s, spans, output) in enumerate(itertools.islice(zip(times, prompts, lengths), sent))  # noqa: B905 - prompts are endless
    )
    whole = sent == count
    return Stage(
        label=_label(point),
        value=point.value,
        load=RecordedLoad(requests, cap, _time_out_s(experiment), duration_s),
        measured=point.measured,
        requests=None if duration_s is not None and whole else len(requests),
        span_s=None if math.isinf(rate) else times[sent - 1],
        trimmed=_trimmed(experiment) if duration_s is not None and whole else 0.0,
    )


def _extent(experiment: Experiment, point: LoadPoint) -> tuple[int, int | None, float | None]:
    """Return how many requests a stage has at most, its cap, and how long its client goes on."""
    if point.kind == "request_rate_rps":
        stated = re.search(rf"\b{point.value:g} req/s for (\d+) s", experiment.arrival)
        seconds = float(stated[1]) if stated else _STAGE_S
        return point.requests or max(1, round(point.value * seconds)), _most_in_flight(experiment), None
    if point.kind not in _UNITS:
        raise MeasurementError(_UNSENDABLE.get(point.kind, f"load kind {point.kind!r} is not one this replay can send"))
    clients = round(point.value)
    if clients < 1:
        raise MeasurementError(f"{point.kind} {point.value:g} must be at least 1")
    if point.kind == "requests_at_t0" or "at once" in experiment.arrival:
        return point.requests or clients, None, None
    if point.requests is not None:
        return max(point.requests, clients), clients, None
    if point.duration_s is None:
        return _ROUNDS * clients, clients, None
    per_client = max(1.0, point.duration_s / _shortest_answer_s(point))
    return math.ceil(per_client * clients) + clients, clients, point.duration_s


def _shortest_answer_s(point: LoadPoint) -> float:
    """Return a time no request can beat, to bound how many a client sends."""
    measured = point.measured
    return max(0.2 * min((measured[name] for name in ("e2e_p50_s", "e2e_mean_s") if name in measured), default=1), 0.05)


def _prompts(experiment: Experiment, mean: float, count: int, rng: np.random.Generator) -> Iterator[Spans]:
    talks = conversations(experiment, mean, rng)
    if talks is not None:
        return talks
    if is_cycled(experiment):
        return (cycled(experiment, number % CYCLE, round(mean)) for number in itertools.count())
    if "sharegpt" in f"{experiment.id} {experiment.prefix_sharing}".lower():
        return drawn(chat_prompts(mean, count, rng))
    return drawn(fixed(mean, count))


def _poisson_s(count: int, rate: float, rng: np.random.Generator) -> Sequence[float]:
    gaps = rng.exponential(size=count)
    times: list[float] = (np.cumsum(gaps) * (count / rate / gaps.sum())).tolist()
    return times


def _most_in_flight(experiment: Experiment) -> int | None:
    stated = re.search(r"cap (\d+) in flight", experiment.arrival)
    return int(stated[1]) if stated else None


def _time_out_s(experiment: Experiment) -> float | None:
    return INFERENCE_PERF_TIME_OUT_S if experiment.client == "inference-perf" else None


def _trimmed(experiment: Experiment) -> float:
    stated = re.search(r"warmup and cooldown (\d+) %", experiment.client)
    return int(stated[1]) / 100 if stated else 0.0


def _label(point: LoadPoint) -> str:
    return f"{point.value:g} {_UNITS.get(point.kind, point.kind)}"
