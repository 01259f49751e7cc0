"""A load as a `vllm bench serve` command (0.33): one of its own data sets where that is the same load, else a file.

Single turns of fixed lengths are `random` or `prefix_repetition`. Conversations are not: the tool sends no second turn,
so they are replayed as single requests at the times at which the simulation sent them (`timed_trace`).
"""

from collections.abc import Iterator
from pathlib import Path

from sim.scenario import ClosedLoopSpec, ConstantRateSpec, PoissonSpec, Scenario
from sim.setup import Deployment
from workloads.agent import AgentWorkload
from workloads.distributions import Constant

SHARES = "50,90,95,99"
Rated = ClosedLoopSpec | PoissonSpec | ConstantRateSpec
_REQUESTS_A_CLIENT = 20  # where nothing but time ends the scenario


def common(model: str, prompts: int, seed: int, results: str) -> list[str]:
    """Return the words that every level's command begins with."""
    return [
        *("vllm", "bench", "serve", "--backend", "openai", "--endpoint", "/v1/completions", "--model", model),
        *("--ignore-eos", "--seed", str(seed), "--num-prompts", str(prompts)),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", SHARES),
        *("--save-result", "--append-result", "--result-filename", results),
    ]


def timed(path: Path, block_tokens: int) -> list[str]:
    """Return the words of a replay of a Mooncake file."""
    return [
        *("--dataset-name", "timed_trace", "--dataset-path", str(path), "--self-timed"),
        *("--timed-trace-chunk-hash-size", str(block_tokens), "--timed-trace-sec-multiplier", "0.001"),
    ]


def single_turns(deployment: Deployment, level: int) -> list[str] | None:
    """Return the words of a data set that is this load, or None where there is none."""
    population = deployment.load_at(level).populations
    load = deployment.scenario.load
    if len(population) != 1 or not isinstance(load, Rated):
        return None
    workload = population[0].workload
    if not isinstance(workload, AgentWorkload) or not _fixed_single(workload):
        return None
    return [*_lengths(workload), *_rate(load, level)]


def requests_at(scenario: Scenario, level: int) -> int:
    """Return how many single-turn requests end the scenario at a level."""
    stop = scenario.stop
    if stop is not None and stop.requests is not None:
        return stop.requests
    each = stop.sessions_per_client if stop is not None else None
    return level * (each or _REQUESTS_A_CLIENT)


def _fixed_single(workload: AgentWorkload) -> bool:
    drawn = (workload.turns, workload.new_tokens, workload.output_tokens, workload.think_s)
    return all(isinstance(one, Constant) for one in drawn) and workload.turns.mean == 1 and not workload.think_s.mean


def _lengths(workload: AgentWorkload) -> Iterator[str]:
    prefix, new, output = workload.shared_prefix_tokens, workload.new_tokens.mean, workload.output_tokens.mean
    if prefix:
        yield from ("--dataset-name", "prefix_repetition", "--prefix-repetition-num-prefixes", "1")
        yield from ("--prefix-repetition-prefix-len", str(prefix), "--prefix-repetition-suffix-len", f"{new:.0f}")
        yield from ("--prefix-repetition-output-len", f"{output:.0f}")
    else:
        yield from ("--dataset-name", "random", "--random-input-len", f"{new:.0f}")
        yield from ("--random-output-len", f"{output:.0f}", "--random-range-ratio", "0")


def _rate(load: Rated, level: int) -> Iterator[str]:
    if isinstance(load, ClosedLoopSpec):
        yield from ("--request-rate", "inf", "--max-concurrency", str(level))
    else:
        yield from (
            "--request-rate",
            f"{level / 60:g}",
            "--burstiness",
            "1" if isinstance(load, PoissonSpec) else "inf",
        )
