"""A toy that answers for real: the small transformer with tokens; requests keep their KV or compute it all again.

A step takes in whatever a scheduler put into its batch: prompts (or, without a cache, whole sequences), decode rows,
and rows that only pad. What it took is the processor time of its one thread, so that other programs do not count; on a
GPU it is the time until the device is done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, thread_time

import torch

from calibrate.timing.machine import Machine
from calibrate.timing.small_transformer_batch import Chunk, StepBatch
from calibrate.timing.small_transformer_steps import new_transformer
from sim.catalog import Model

MODEL = Model(
    name="toy",
    num_hidden_layers=4,
    hidden_size=256,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=64,
    intermediate_size=768,
    vocab_size=1000,
    tie_word_embeddings=False,
    max_position_embeddings=1024,
    source="calibrate/validation/toy_model.py",
)
BLOCK_SIZE = 16
LONGEST_TOKENS = 128  # prompt and answer of one request
_SEATS = 64  # requests that hold KV at once, rows that pad, and steps that are timed meanwhile


@dataclass(slots=True)
class Seat:
    """One request's tokens and the blocks its keys and values lie in."""

    blocks: torch.Tensor  # (blocks) int64
    tokens: list[int] = field(default_factory=list)


class Toy:
    """The transformer, and seats for requests."""

    def __init__(self, machine: Machine, dtype: str = "fp32", seed: int = 0) -> None:
        per_seat = LONGEST_TOKENS // BLOCK_SIZE
        torch.manual_seed(seed)
        self._transformer = new_transformer(MODEL, machine, dtype, blocks=_SEATS * per_seat, block_size=BLOCK_SIZE)
        self._free = [torch.arange(seat * per_seat, (seat + 1) * per_seat) for seat in range(_SEATS)]
        self._rng = torch.Generator().manual_seed(seed)
        self._now = _clock_of(machine)

    def seat(self, prompt_tokens: int) -> Seat:
        """Return a seat with a prompt of random tokens."""
        ids = torch.randint(0, MODEL.vocab_size, (prompt_tokens,), generator=self._rng)
        return Seat(self._free.pop(), ids.tolist())

    def leave(self, seat: Seat) -> None:
        """Free a seat."""
        self._free.append(seat.blocks)

    def step(self, chunks: Sequence[tuple[Seat, Chunk]], rows: Sequence[tuple[Seat, int]]) -> tuple[list[int], float]:
        """Run one step; return the next token of each chunk and row, and the seconds it took.

        A chunk's tokens are its seat's from `past_tokens` on; where it is longer than what the seat has, it is padded.
        A row has the tokens it finds in its cache beside it.
        """
        batch = StepBatch(tuple(chunk for _, chunk in chunks), tuple(past for _, past in rows))
        ids: list[int] = []
        for seat, (new, past) in chunks:
            own = seat.tokens[past : past + new]
            ids += own + [0] * (new - len(own))
        ids += [seat.tokens[past] if past < len(seat.tokens) else 0 for seat, past in rows]
        seats = [seat for seat, _ in (*chunks, *rows)]
        began_s = self._now()
        counts = batch.blocks(BLOCK_SIZE)
        blocks = [seat.blocks[:count] for seat, count in zip(seats, counts, strict=True)]
        inputs = self._transformer.prepare(batch, torch.tensor(ids), blocks)
        following = self._transformer.step(inputs).tolist()
        return following, self._now() - began_s

    def answer(self, prompt_tokens: int, output_tokens: int, *, cached: bool) -> tuple[list[int], float]:
        """Answer one prompt, the same for both ways; return the tokens and the seconds."""
        self._rng.manual_seed(prompt_tokens)
        seat = self.seat(prompt_tokens)
        total_s = 0.0
        for number in range(output_tokens):
            length = len(seat.tokens)
            if cached and number:
                (token,), took_s = self.step([], [(seat, length - 1)])
            else:
                (token,), took_s = self.step([(seat, Chunk(length, 0))], [])
            seat.tokens.append(token)
            total_s += took_s
        self.leave(seat)
        return seat.tokens[prompt_tokens:], total_s


def _clock_of(machine: Machine) -> Callable[[], float]:
    if machine.kind == "cpu":
        return thread_time

    def now_s() -> float:
        torch.cuda.synchronize()
        return perf_counter()

    return now_s
