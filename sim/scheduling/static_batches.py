"""Static batches: so many requests begin together, and nobody else begins before the longest of them is done.

Prompts are padded to the batch's longest, and whoever is done early stays a row that computes nothing of use: in a
batch of 30 answers of 20 tokens and one of 500, those 30 idle for 480 of 500 steps (founding document 004: 96 %). Each
row holds memory for the batch's longest prompt and longest answer, or for max_model_len, until the batch ends.

A batch begins with those who wait when the last one ends, up to `max_num_seqs`; it does not wait until it is full.
"""

from dataclasses import replace

from sim.kv.block_pool import BlockPool
from sim.kv.extent import Table
from sim.scheduling.batch import Admission, Batch
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.fixed_slots import NO_BUDGET
from sim.scheduling.request import Request, Status
from sim.scheduling.reserving import ReservingScheduler


class StaticBatches(ReservingScheduler):
    """Batches of up to `max_num_seqs`."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        super().__init__(replace(config, max_num_batched_tokens=NO_BUDGET, long_prefill_token_threshold=0), pool)
        self._row_blocks = 0  # that each row of the next batch holds
        self.done_tables: list[Table] = []  # of those in the batch who are done
        self._done_context = 0  # their contexts together
        self._answers: list[int] = []  # tokens of each

    def schedule(self) -> Batch:
        """Decide the next batch: newcomers' padded prompts, or a row of everybody the batch began with."""
        idle = len(self.done_tables)
        batch = super().schedule()
        if batch.admitted:
            longest = max(entry.tokens for entry in batch.scheduled)
            pad = [longest - entry.tokens for entry in batch.scheduled]
            batch.padding_tokens = sum(pad)
            batch.padding_pairs = sum(more * (2 * longest - more + 1) / 2 for more in pad)
            self._count_padding(batch.padding_tokens)
        elif not batch.is_empty:
            self._done_context += idle
            batch.rows += idle
            batch.kv_tokens += self._done_context
            self._count_padding(idle)
        return batch

    def process(self, batch: Batch) -> list[Request]:
        """Take in the tokens a batch sampled; memory is free when nobody of the batch is left."""
        finished = super().process(batch)
        self._answers += [request.generated_tokens for request in finished]
        if self._answers and not self.running:
            self._count_idle_steps(self._answers)
            self._answers = []
            for table in self.done_tables:
                self.pool.release(table)
            self.done_tables = []
            self._done_context = 0
        return finished

    def _count_idle_steps(self, answers: list[int]) -> None:
        longest = max(answers)
        early = [tokens for tokens in answers if tokens < longest]
        self.wasted.idle_steps += sum(longest - tokens for tokens in early)
        self.wasted.early_steps += longest * len(early)

    def _count_padding(self, rows: int) -> None:
        self.wasted.padding_rows += rows
        self.wasted.computed_rows += rows

    def _schedule_waiting(self, batch: Batch, tokens: dict[Request, int], cap: int, budget: int) -> None:
        if not self.running:
            self._row_blocks = self._blocks_of_next()
            super()._schedule_waiting(batch, tokens, cap, budget)

    def _blocks_of_next(self) -> int:
        """Return what each row holds, so that as many of those next in line as possible begin together."""
        prompt = output = blocks = 0
        for rows, request in enumerate(self.waiting[: self.config.max_num_seqs], 1):
            prompt, output = max(prompt, request.prompt_tokens), max(output, request.output_tokens)
            wanted = self._blocks_for(self._area_tokens(prompt + output))
            if rows * wanted > self.pool.usable_blocks:
                break
            blocks = wanted
        return blocks

    def _admissible(self, request: Request, cap: int, budget: int) -> tuple[int, int] | None:  # noqa: ARG002
        fits = self._blocks_for(request.prompt_tokens + request.output_tokens) <= self._row_blocks
        if not fits or self._row_blocks > self.pool.num_free:
            return None
        return request.known_tokens, 0

    def _enter(self, request: Request, count: int, hit: int) -> Admission:  # noqa: ARG002
        self.pool.take(request.table, self._row_blocks, request.number)
        return Admission(request, 0, request.status is Status.PREEMPTED, 0, -1)

    def _register(self, request: Request, tokens_with_kv: int) -> None:
        """Enter nothing: a padded batch shares no blocks."""

    def _release(self, request: Request) -> None:
        self.done_tables.append(request.table)
        self._done_context += request.computed_tokens
        request.table = Table()
