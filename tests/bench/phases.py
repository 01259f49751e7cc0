"""One repetition of a case, in phases that somebody else times or profiles."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Self

from bench.cases import Draw
from bench.engines import Digest, TokenTimes, own_token_times_s, plain_engines
from bench.plain_loop import generated_tokens
from bench.requests import Row

from sim.engine.record import Run
from sim.results.metrics import table_metrics
from sim.results.turn_table import TurnTable, table_of

PHASES = BUILD, SIMULATE, METRICS = "build", "simulate", "metrics"
OURS, PLAIN, LOOP = "ours", "plain engine", "plain loop"

Phase = Callable[[str], AbstractContextManager[None]]


class Counts(NamedTuple):
    """How much a repetition simulated."""

    requests: int = 0
    output_tokens: int = 0
    steps: int = 0

    def with_run(self, run: Run, kept: TurnTable | None) -> Self:
        """Return these and a run's; `kept` are its turns where the run itself has none."""
        if kept is None:
            requests, tokens = len(run.records), sum(record.output_tokens for record in run.records)
        else:
            requests, tokens = len(kept.turns), int(kept.turns["output_tokens"].sum())
        return self._replace(
            requests=self.requests + requests,
            output_tokens=self.output_tokens + tokens,
            steps=self.steps + run.log.steps,
        )


def simulate_case(draw: Draw, engine: str, phase: Phase, digest: Digest | None = None) -> Counts:
    """Draw, simulate, evaluate; `digest` takes in the results outside all phases."""
    with plain_engines() if engine == PLAIN else nullcontext(own_token_times_s) as token_times_s:
        return _simulate(draw, phase, digest, token_times_s, evaluates=engine == OURS)


def _simulate(draw: Draw, phase: Phase, digest: Digest | None, token_times_s: TokenTimes, *, evaluates: bool) -> Counts:
    total = Counts()
    with phase(BUILD):
        jobs = iter(draw())
        job = next(jobs, None)
    while job is not None:
        with phase(SIMULATE):
            run = job.run()
            kept = None if job.keeper is None else job.keeper.table()
        if evaluates:  # the plain engine leaves no token times where metrics look for them
            with phase(METRICS):
                table = table_of(run.records) if kept is None else kept
                table_metrics(table, run, job.population, job.slo)
        if digest is not None:
            digest.add(run, token_times_s)
        total = total.with_run(run, kept)
        with phase(BUILD):
            job = next(jobs, None)
    return total


def loop_over(rows: list[Row], phase: Phase) -> Counts:
    """Replay a trace with the plain loop."""
    with phase(SIMULATE):
        tokens = generated_tokens(rows)
    return Counts(len(rows), tokens)
