"""Results of load tests that the simulator itself made, with one term changed: what is wrong with the prediction is known."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from calibrate.compare.terms import Change, changed
from calibrate.measured.run import MeasuredLoad, MeasuredRequest, MeasuredRun
from calibrate.measured.statistics import metrics_of, rates_of
from sim.engine.record import Outcome, TurnRecord
from sim.engine.recorded import RecordedLoad, simulate_recorded
from sim.setup import Deployment, assemble
from workloads.recorded import RecordedRequest
from workloads.span import Span

MODEL = "Qwen/Qwen3-4B"


def planted_runs(
    base: Deployment,
    change: Change | None,
    concurrencies: Sequence[int] = (1, 8, 24, 48),
    *,
    prompt: int = 2000,
    output: int = 150,
    requests: int = 100,
) -> list[MeasuredRun]:
    """Return a closed-loop sweep of requests that share nothing, as a detailed result lists it."""
    return [_run(base, change, cap, prompt, output, max(requests, 2 * cap)) for cap in concurrencies]


def _run(base: Deployment, change: Change | None, cap: int, prompt: int, output: int, count: int) -> MeasuredRun:
    rng = np.random.default_rng([7, cap])
    prompts, outputs = (np.maximum(1, rng.lognormal(np.log(mean), 0.4, count)).astype(int) for mean in (prompt, output))
    sent = tuple(
        RecordedRequest.of(0.0, [Span(("planted", number), 0, int(tokens))], int(answer), f"planted {number}")
        for number, (tokens, answer) in enumerate(zip(prompts, outputs, strict=True))
    )
    setup = assemble(changed(base, change), "planted").engine
    own = setup.frontend
    load = RecordedLoad(sent, cap, per_request_s=own.per_request_s, per_prompt_token_s=own.per_prompt_token_s)
    (run,) = simulate_recorded(replace(setup), [load])
    listed = tuple(_request(record) for record in run.records)
    duration_s = max(record.last_token_s for record in run.records)
    inputs, answers = (float(sum(tokens)) for tokens in (prompts, outputs))
    return MeasuredRun(
        file=Path("planted.json"),
        format="planted",
        place=f"line {cap}",
        model=MODEL,
        load=MeasuredLoad(concurrency=cap, requests=count),
        duration_s=duration_s,
        completed=count,
        failed=0,
        input_tokens_mean=inputs / count,
        output_tokens_mean=answers / count,
        metrics=metrics_of(listed) | rates_of(duration_s, count, inputs, answers),
        requests=listed,
    )


def _request(record: TurnRecord) -> MeasuredRequest:
    assert record.outcome is Outcome.COMPLETED
    times = record.token_times_s
    return MeasuredRequest(
        prompt_tokens=record.prompt_tokens,
        output_tokens=record.output_tokens,
        sent_s=record.arrival_s,
        ttft_s=record.ttft_s,
        e2e_s=record.e2e_s,
        itls_s=tuple(np.diff(times).tolist()),
    )
