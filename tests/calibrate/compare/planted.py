"""Results of load tests that the simulator itself made, with one term changed: what is wrong is known."""

from collections.abc import Sequence
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
    return [
        run_of(base, change, cap, *drawn_lengths(prompt, output, max(requests, 2 * cap), cap)) for cap in concurrencies
    ]


def drawn_lengths(prompt: float, output: float, count: int, seed: int) -> tuple[list[int], list[int]]:
    """Return prompts and answers around these medians."""
    rng = np.random.default_rng([7, seed])
    prompts, outputs = (np.maximum(1, rng.lognormal(np.log(mean), 0.4, count)).astype(int) for mean in (prompt, output))
    return prompts.tolist(), outputs.tolist()


def run_of(
    base: Deployment, change: Change | None, cap: int, prompts: Sequence[int], outputs: Sequence[int]
) -> MeasuredRun:
    """Return one load point of a closed loop."""
    count = len(prompts)
    sent = tuple(
        RecordedRequest.of(0.0, [Span(("planted", number), 0, tokens)], answer, f"planted {number}")
        for number, (tokens, answer) in enumerate(zip(prompts, outputs, strict=True))
    )
    setup = assemble(changed(base, change), "planted").engine
    own = setup.frontend
    load = RecordedLoad(sent, cap, per_request_s=own.per_request_s, per_prompt_token_s=own.per_prompt_token_s)
    (run,) = simulate_recorded(setup, [load])
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


def as_vllm_bench(run: MeasuredRun, *, detailed: bool = False) -> dict[str, object]:
    """Return a run as `vllm bench serve --save-result` writes it."""
    written: dict[str, object] = {
        "date": "20260101-000000",
        "backend": "vllm",
        "model_id": run.model,
        "tokenizer_id": run.model,
        "num_prompts": run.load.requests,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": run.load.concurrency,
        "duration": run.duration_s,
        "completed": run.completed,
        "failed": 0,
        "total_input_tokens": sum(one.prompt_tokens for one in run.requests),
        "total_output_tokens": sum(one.output_tokens for one in run.requests),
        "request_throughput": run.metrics["requests_per_s"],
        "output_throughput": run.metrics["output_tokens_per_s"],
        "total_token_throughput": run.metrics["total_tokens_per_s"],
    }
    if detailed:
        written |= {
            "input_lens": [one.prompt_tokens for one in run.requests],
            "output_lens": [one.output_tokens for one in run.requests],
            "ttfts": [one.ttft_s for one in run.requests],
            "itls": [list(one.itls_s) for one in run.requests],
            "start_times": [one.sent_s for one in run.requests],
            "errors": ["" for _ in run.requests],
        }
    for ours, theirs in {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}.items():
        for statistic, name in {"mean": "mean", "p50": "median", "std": "std", "p99": "p99"}.items():
            written[f"{name}_{theirs}_ms"] = 1e3 * run.metrics[f"{ours}_{statistic}_s"]
    return written
