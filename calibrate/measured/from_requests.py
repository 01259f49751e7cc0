"""A load point from its requests alone: counts, means, rates, hit rate and the spreads of each metric."""

from collections.abc import Sequence
from dataclasses import replace

from calibrate.measured.run import MeasuredRequest, MeasuredRun
from calibrate.measured.statistics import metrics_of, rates_of


def run_from_requests(run: MeasuredRun, requests: Sequence[MeasuredRequest]) -> MeasuredRun:
    """Return `run` with what its requests say; its own duration and metrics stay where they say nothing."""
    done = [one for one in requests if not one.failed]
    inputs, outputs = sum(one.prompt_tokens for one in done), sum(one.output_tokens for one in done)
    duration_s = run.duration_s or span_s(done)
    rates = rates_of(duration_s, len(done), inputs, outputs)
    metrics = {**run.metrics, **rates, **metrics_of(requests), **hit_rate(done)}
    return replace(
        run,
        duration_s=duration_s,
        completed=len(done),
        failed=len(requests) - len(done),
        input_tokens_mean=inputs / len(done) if done else None,
        output_tokens_mean=outputs / len(done) if done else None,
        metrics=metrics,
        requests=tuple(requests),
    )


def span_s(requests: Sequence[MeasuredRequest]) -> float | None:
    """Return the time from the first send to the last answer, or None where the times are not known."""
    sent = [one.sent_s for one in requests if one.sent_s is not None]
    ends = [one.sent_s + one.e2e_s for one in requests if one.sent_s is not None and one.e2e_s is not None]
    return max(ends) - min(sent) if ends else None


def hit_rate(requests: Sequence[MeasuredRequest]) -> dict[str, float]:
    """Return the share of prompt tokens that hit, over the requests that say so."""
    told = [one for one in requests if one.hit_tokens is not None]
    prompt = sum(one.prompt_tokens for one in told)
    return {"prefix_hit_rate": sum(one.hit_tokens or 0 for one in told) / prompt} if prompt else {}
