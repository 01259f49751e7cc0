"""The queue of founding document 003, scaled down: run for real on the toy, and simulated from its step times alone.

Both follow the same schedulers of `sim.scheduling`; only where a step's seconds come from differs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from calibrate.timing.small_transformer_batch import Chunk
from calibrate.validation.toy_model import BLOCK_SIZE, LONGEST_TOKENS, Seat, Toy
from sim.engine.recorded import RecordedLoad, simulate_recorded
from sim.engine.simulation import EngineSetup
from sim.kv.block_pool import BlockPool
from sim.kv.content import ContentTree
from sim.scheduling.batch import Batch
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.policies import scheduler_named
from sim.scheduling.request import Request
from sim.steptime.ahead import StepPrices
from workloads.recorded import RecordedRequest
from workloads.span import Span

POLICIES = {  # as the document calls them
    "no_kv_cache": "one at a time, no KV cache",
    "one_at_a_time": "one at a time",
    "static_batches": "static batches of 16",
    "fixed_slots": "continuous batching, 16 slots",
}
SLOTS = 16
_BLOCKS = 100_000  # memory binds nobody, as in the document


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of the queue; all come at once."""

    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """What a policy gives: seconds, and tokens a second."""

    ttft_p50_s: float
    ttft_p95_s: float
    all_done_s: float
    output_tokens_per_s: float

    @classmethod
    def of(cls, first_token_s: Sequence[float], all_done_s: float, output_tokens: int) -> "QueueFigures":
        """Compute them from each request's first token."""
        p50_s, p95_s = np.percentile(first_token_s, (50, 95))
        return cls(float(p50_s), float(p95_s), all_done_s, output_tokens / all_done_s)


def draw_queue(count: int, seed: int) -> list[Asked]:
    """Return the document's lengths: prompts of 8 to 32 tokens, answers of 16 to 96."""
    rng = np.random.default_rng(seed)
    lengths = zip(rng.integers(8, 33, count), rng.integers(16, 97, count), strict=True)
    return [Asked(int(prompt), int(output)) for prompt, output in lengths]


def simulated(policy: str, queue: Sequence[Asked], prices: StepPrices) -> QueueFigures:
    """Simulate the queue with given step times."""
    setup = EngineSetup(_config(), _BLOCKS, prices, enable_prefix_caching=False, scheduler_name=policy)
    requests = [
        RecordedRequest.of(0.0, (Span(number, 0, one.prompt_tokens),), one.output_tokens, str(number))
        for number, one in enumerate(queue)
    ]
    (run,) = simulate_recorded(setup, [RecordedLoad(requests)])
    first = [record.first_token_s for record in run.records]
    return QueueFigures.of(first, max(record.last_token_s for record in run.records), _tokens(queue))


def run_for_real(policy: str, queue: Sequence[Asked], toy: Toy) -> Iterator[QueueFigures | None]:
    """Serve the queue with the toy; yields None after each step, and the figures at the end."""
    scheduler = scheduler_named(policy, _config(), BlockPool(_BLOCKS, enable_prefix_caching=False))
    tree = ContentTree(BLOCK_SIZE)
    for number, one in enumerate(queue):
        content = tree.content((Span(number, 0, one.prompt_tokens + one.output_tokens),))
        scheduler.add(Request(str(number), number, one.prompt_tokens, one.output_tokens, content))
    seats: dict[Request, Seat] = {}
    padding: list[Seat] = [toy.seat(1) for _ in range(SLOTS)]
    first_s: dict[int, float] = {}
    now_s = 0.0
    while scheduler.has_requests:
        batch = scheduler.schedule()
        for admission in batch.admitted:
            seats[admission.request] = toy.seat(admission.request.prompt_tokens)
        now_s += _step(toy, batch, seats, padding)
        for entry in batch.scheduled:
            first_s.setdefault(entry.request.number, now_s)
        for request in scheduler.process(batch):
            toy.leave(seats.pop(request))
        yield None
    for seat in padding:
        toy.leave(seat)
    yield QueueFigures.of(list(first_s.values()), now_s, _tokens(queue))


def _step(toy: Toy, batch: Batch, seats: dict[Request, Seat], padding: Sequence[Seat]) -> float:
    """Run a scheduler's batch; return its seconds. Prompts of a static batch are as long as its longest."""
    entries = sorted(batch.scheduled, key=lambda entry: entry.tokens == 1)
    longest = max(entry.tokens for entry in entries) if batch.padding_tokens else 0
    chunks = [
        (seats[entry.request], Chunk(max(entry.tokens, longest), entry.computed_before))
        for entry in entries
        if entry.tokens > 1
    ]
    rows = [(seats[entry.request], entry.computed_before) for entry in entries if entry.tokens == 1]
    past = batch.kv_tokens // batch.rows - 1 if batch.rows else 0
    rows += [(seat, min(past, LONGEST_TOKENS - 1)) for seat in padding[: batch.rows]]
    following, took_s = toy.step(chunks, rows)
    for entry, token in zip(entries, following, strict=False):
        if entry.samples:
            seats[entry.request].tokens.append(token)
    return took_s


def _config() -> SchedulerConfig:
    return SchedulerConfig(
        max_num_batched_tokens=1 << 20,
        max_num_seqs=SLOTS,
        max_model_len=LONGEST_TOKENS + 1,
        block_size=BLOCK_SIZE,
    )


def _tokens(queue: Sequence[Asked]) -> int:
    return sum(one.output_tokens for one in queue)
