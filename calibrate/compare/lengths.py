"""How long the requests of a load point are: as listed, or by their means; always bounded."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibrate.measured.run import MeasuredRequest, MeasuredRun
from calibrate.validation.e2e_lengths import answers, fixed
from sim.errors import MeasurementError

MOST_REQUESTS = 1_000_000
MOST_REQUEST_TOKENS = 10_000_000  # as engine.max_model_len
MOST_TOKENS = 10**10  # of a load point
SLOWEST_PER_S, FASTEST_PER_S = 1e-6, 1e6  # rates
_WIDER = 1.3  # how much wider than TPOT's spread that of E2E must be to speak of answers' lengths


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of each request, in the order sent."""

    prompt_tokens: Sequence[int]
    output_tokens: Sequence[int]


def place_of(run: MeasuredRun) -> str:
    """Return where a load point stands, for messages."""
    return f"{run.file}: {run.place}" if run.place else str(run.file)


def counted(run: MeasuredRun) -> list[MeasuredRequest]:
    """Return the listed requests that are sent again: those that did not fail."""
    return [request for request in run.requests if not request.failed]


def listed_lengths(run: MeasuredRun) -> Lengths | None:
    """Return the lengths of the requests that are sent, or None where the file does not list them."""
    sent = counted(run)
    if not sent or any(request.prompt_tokens < 1 for request in sent):
        return None
    lengths = Lengths([one.prompt_tokens for one in sent], [max(1, one.output_tokens) for one in sent])
    check_lengths(run, lengths)
    return lengths


def mean_lengths(run: MeasuredRun, count: int, shape: Mapping[str, float], seed: int) -> Lengths | None:
    """Return lengths by the stated means, or None without them; `shape` is that of `answer_shape`."""
    prompt, output = run.input_tokens_mean, run.output_tokens_mean
    if not prompt or not output:
        return None
    _check(run, "input tokens", prompt)
    _check(run, "output tokens", output)
    _check_total(run, (prompt + output) * count)
    rng = np.random.default_rng([seed, 2])
    return Lengths(fixed(prompt, count).tolist(), answers(output, count, shape, rng).tolist())


def answer_shape(runs: Sequence[MeasuredRun]) -> Mapping[str, float]:
    """Return the end-to-end times that say how answers' lengths spread, or nothing where they do not.

    They do at the lowest load, if they are much wider apart than the times per token there.
    """
    known = [run for run in runs if "e2e_p50_s" in run.metrics and "tpot_p50_s" in run.metrics]
    if not known:
        return {}
    lowest = min(known, key=lambda run: run.metrics["e2e_p50_s"]).metrics
    e2e, tpot = (lowest.get(f"{name}_p95_s", 0.0) / (lowest[f"{name}_p50_s"] or 1.0) for name in ("e2e", "tpot"))
    return lowest if e2e > _WIDER * tpot > 0 else {}


def check_lengths(run: MeasuredRun, lengths: Lengths) -> None:
    """Raise MeasurementError for lengths or totals that no run can have."""
    for name, tokens in (("prompt_tokens", lengths.prompt_tokens), ("output_tokens", lengths.output_tokens)):
        _check(run, name, max(tokens))
    _check_total(run, sum(lengths.prompt_tokens) + sum(lengths.output_tokens))


def check_count(run: MeasuredRun, count: int) -> None:
    """Raise MeasurementError for more requests than can be sent again."""
    if count > MOST_REQUESTS:
        raise MeasurementError(f"{place_of(run)}: {count:,} requests are more than the {MOST_REQUESTS:,} that are sent")


def check_client(run: MeasuredRun) -> None:
    """Raise MeasurementError for a client that nobody can be: a rate or a concurrency beyond all bounds."""
    if run.load.concurrency == 0:
        raise MeasurementError(f"{place_of(run)}: a concurrency of 0 sends nothing")
    check_count(run, run.load.concurrency or 0)
    rate = run.load.rate_per_s
    if rate and math.isfinite(rate) and not SLOWEST_PER_S <= rate <= FASTEST_PER_S:
        raise MeasurementError(
            f"{place_of(run)}: a rate of {rate:.4g} requests a second must lie between {SLOWEST_PER_S:g} and "
            f"{FASTEST_PER_S:g}"
        )


def _check(run: MeasuredRun, name: str, tokens: float) -> None:
    if not 0 < tokens <= MOST_REQUEST_TOKENS:
        raise MeasurementError(
            f"{place_of(run)}: {name} {tokens:.4g} of a request must lie above 0 and at most at {MOST_REQUEST_TOKENS:,}"
        )


def _check_total(run: MeasuredRun, tokens: float) -> None:
    if tokens > MOST_TOKENS:
        raise MeasurementError(
            f"{place_of(run)}: {tokens:.3g} tokens in all are more than the {MOST_TOKENS:.0e} that are sent; "
            "--limit-requests takes only the first requests"
        )
