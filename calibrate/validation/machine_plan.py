"""What the proof on this machine runs: a small model, steps drawn at random, and the operations they consist of."""

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from calibrate.timing.grid import BLOCK_SIZE, Limits, Types, grid
from calibrate.timing.layer_shape import LayerShape
from calibrate.timing.points import Point
from calibrate.timing.small_transformer_batch import Chunk, StepBatch
from sim.catalog import Model

MODEL = Model(
    name="small-transformer",
    num_hidden_layers=6,
    hidden_size=1024,
    num_attention_heads=16,
    num_key_value_heads=4,
    head_dim=64,
    intermediate_size=2816,
    vocab_size=32_000,
    tie_word_embeddings=False,
    max_position_embeddings=8192,
    source="calibrate/validation/machine_plan.py",
)
LIMITS = Limits(max_num_batched_tokens=512, max_num_seqs=32, max_context_tokens=4096)
STEPS = 48
_FEWEST_NEW, _MOST_NEW = 16, 384
_FEWEST_PAST, _MOST_PAST = 64, 2048
_MOST_ROWS = 16
_OTHERS = {"layer", "peak_memory"}  # no operation of a step: nothing that holds several may inform its prediction


def step_plan(count: int, seed: int) -> tuple[StepBatch, ...]:
    """Return steps of the three kinds in turn: sizes are drawn evenly in their logarithms, contexts are ragged."""
    rng = np.random.default_rng(seed)
    draws = (_prefill, _mixed, _decode)
    return tuple(draws[place % len(draws)](rng) for place in range(count))


def operation_points(shape: LayerShape, dtype: str, device: str, limits: Limits = LIMITS) -> tuple[Point, ...]:
    """Return what `kvcliff calibrate` would time of this model, less what a step of it does not do."""
    levels = grid(shape, Types(dtype, (dtype,), (dtype,)), limits, device)
    of_grid = (point for level in levels for point in level if _in_a_step(point))
    return tuple(dict.fromkeys((*of_grid, *_short_contexts(dtype))))


def blocks_needed(steps: Sequence[StepBatch]) -> int:
    """Return the KV blocks that the largest step fills."""
    return max(sum(step.blocks(BLOCK_SIZE)) for step in steps)


def _short_contexts(dtype: str) -> Iterator[Point]:
    """Yield attention over contexts below the grid's, which spans those of served models."""
    for new, past in product((16, 64, 256), (0, 256, 1024)):
        yield Point("prefill_attention", kv_cache_dtype=dtype, sequences=1, new_tokens=new, past_tokens=past)
    for rows, past in product((1, 4, 16), (64, 256)):
        yield Point("decode_attention", kv_cache_dtype=dtype, sequences=rows, past_tokens=past, shared_tokens=0)


def _in_a_step(point: Point) -> bool:
    if point.operation in _OTHERS or point.shared_tokens:
        return False
    return (point.operation, point.part) not in {("elementwise", "quantise"), ("sampling", "random")}


def _prefill(rng: np.random.Generator) -> StepBatch:
    """One prompt's chunk, or two; half of them without a past."""
    return StepBatch(chunks=tuple(_chunk(rng) for _ in range(rng.integers(1, 3))))


def _mixed(rng: np.random.Generator) -> StepBatch:
    return StepBatch((_chunk(rng),), _rows(rng))


def _decode(rng: np.random.Generator) -> StepBatch:
    return StepBatch(decode_pasts=_rows(rng))


def _chunk(rng: np.random.Generator) -> Chunk:
    past = _between(rng, _FEWEST_PAST, _MOST_PAST) if rng.random() < 0.5 else 0
    return Chunk(_between(rng, _FEWEST_NEW, _MOST_NEW), past)


def _rows(rng: np.random.Generator) -> tuple[int, ...]:
    longest = _between(rng, _FEWEST_PAST, _MOST_PAST)
    return tuple(int(past) for past in rng.integers(longest // 2, longest + 1, _between(rng, 1, _MOST_ROWS)))


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))
