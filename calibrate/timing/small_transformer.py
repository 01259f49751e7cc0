"""A small decoder that runs whole steps: any mix of prefill chunks and decode rows over paged KV caches.

Random weights, but every computation of a real one: embedding, norms with residuals, rotary, grouped-query attention,
gated MLP, head, greedy sampling. It is made of the functions that are timed one by one, so that a step differs from
their sum only by what happens between them. All inputs of a step are laid out before it runs, as engines do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding

from calibrate.timing.attention_cases import paged_decode_on
from calibrate.timing.elementwise_cases import gated, norm_with_residual, rotate
from calibrate.timing.layer_shape import LayerShape, layer_shape
from calibrate.timing.linear import make_linear
from calibrate.timing.machine import Machine
from calibrate.timing.paged_attention_torch import gather
from calibrate.timing.paged_cache import PagedCache, pool, store
from calibrate.timing.prefill_attention import prefill
from calibrate.timing.small_transformer_batch import StepBatch
from calibrate.timing.tensors import TORCH_DTYPES, noise
from sim.catalog import Model

_ROTARY_BASE = 10_000.0


@dataclass(frozen=True, slots=True)
class StepInputs:
    """One step, ready to run. Rows are tokens of the batch: those of each chunk side by side, then the decode rows."""

    token_ids: Tensor  # (rows)
    angles: tuple[Tensor, Tensor]  # cosine and sine, each (rows, 1, head_dim / 2)
    slots: Tensor  # (rows): where each row's key and value go, block * block_size + place
    last_rows: Tensor  # (requests): the row each request samples from
    chunks: tuple["PagedChunk", ...]
    decode_tables: Tensor  # (decode rows, blocks) int32
    decode_lengths: Tensor  # (decode rows) int32: the tokens attended to, a row's own among them
    longest: int  # the largest of those lengths; 0 without decode rows


@dataclass(frozen=True, slots=True)
class PagedChunk:
    """One prefilling request: its rows, the blocks of its past and new tokens, and how many tokens those hold."""

    rows: slice
    table: Tensor  # (1, blocks) int32
    past_tokens: int
    tokens: int


class SmallTransformer:
    """Weights and KV pools on one device, of a dense `model` in one type."""

    def __init__(self, model: Model, machine: Machine, dtype: str, *, blocks: int, block_size: int) -> None:
        shape, self.dtype, device = layer_shape(model), TORCH_DTYPES[dtype], machine.kind
        self.shape, self.machine, self.layers = shape, machine, model.num_hidden_layers
        self.blocks, self.block_size = blocks, block_size
        self.linear = {
            part: make_linear(sizes, dtype, machine, self.dtype, self.layers)
            for part, sizes in shape.linear_parts.items()
        }
        ends = (shape.vocab_size, shape.hidden_size)
        self.head = make_linear(ends, dtype, machine, self.dtype, 1)
        self.embedding = noise(ends, self.dtype, device).flip(0)  # drawn like the head's, which it must not equal
        self.norm = torch.ones(shape.hidden_size, dtype=self.dtype, device=device)
        kv_shape = (blocks, block_size, shape.num_kv_heads, shape.head_dim)
        self.caches = [pool(kv_shape, dtype, device) for _ in range(self.layers)]
        self._paged_decode = paged_decode_on(machine)

    def prepare(self, batch: StepBatch, token_ids: Tensor, block_ids: Sequence[Tensor]) -> StepInputs:
        """Lay out a step: `token_ids` (rows), `block_ids` one (blocks) of integers for each request."""
        device = self.machine.kind
        starts = _starts(request.new_tokens for request in batch.requests)
        places = [torch.arange(past, past + new) for new, past in batch.requests]
        pages = zip(places, block_ids, strict=True)
        slots = torch.cat(
            [blocks[at // self.block_size] * self.block_size + at % self.block_size for at, blocks in pages]
        )
        chunks = tuple(
            PagedChunk(slice(start, start + new), blocks.int()[None].to(device), past, past + new)
            for start, (new, past), blocks in zip(starts, batch.chunks, block_ids, strict=False)
        )
        tables = [blocks.int() for blocks in block_ids[len(batch.chunks) :]]
        lengths = [past + 1 for past in batch.decode_pasts]
        return StepInputs(
            token_ids=token_ids.to(device),
            angles=_angles(torch.cat(places), self.shape, self.dtype, device),
            slots=slots.to(device),
            last_rows=torch.tensor([*starts[1:], batch.tokens], device=device) - 1,
            chunks=chunks,
            decode_tables=_padded(tables).to(device),
            decode_lengths=torch.tensor(lengths, dtype=torch.int32, device=device),
            longest=max(lengths, default=0),
        )

    def step(self, inputs: StepInputs) -> Tensor:
        """Run one step and return the next token of each request (requests)."""
        return self.logits(inputs).argmax(-1)

    def logits(self, inputs: StepInputs) -> Tensor:
        """Run one step up to the head: (requests, vocabulary). Keys and values of all rows are in the pools after."""
        with torch.inference_mode():
            hidden = embedding(inputs.token_ids, self.embedding)
            residual = torch.zeros_like(hidden)
            for layer in range(self.layers):
                hidden, residual = self._layer(layer, hidden, residual, inputs)
            last, _ = norm_with_residual(hidden[inputs.last_rows], residual[inputs.last_rows], self.norm)
            return self.head(0, last)

    def _layer(self, layer: int, hidden: Tensor, residual: Tensor, inputs: StepInputs) -> tuple[Tensor, Tensor]:
        """Return what the MLP adds and what it is added to, each (rows, hidden)."""
        shape = self.shape
        normed, residual = norm_with_residual(hidden, residual, self.norm)
        heads = self.linear["qkv"](layer, normed).view(len(normed), -1, shape.head_dim)
        turned = rotate(heads[:, : -shape.num_kv_heads], *inputs.angles)
        query, key, value = turned[:, : shape.num_heads], turned[:, shape.num_heads :], heads[:, -shape.num_kv_heads :]
        store(self.caches[layer], key, value, inputs.slots)
        attended = self._attend(self.caches[layer], query, key, value, inputs)
        normed, residual = norm_with_residual(self.linear["o"](layer, attended), residual, self.norm)
        return self.linear["down"](layer, gated(self.linear["gate_up"](layer, normed))), residual

    def _attend(self, cache: PagedCache, query: Tensor, key: Tensor, value: Tensor, inputs: StepInputs) -> Tensor:
        """Return (rows, query_size): chunks one by one, then all decode rows at once."""
        parts = [self._prefill(cache, query, key, value, chunk) for chunk in inputs.chunks]
        if inputs.longest:
            rows = query[len(query) - len(inputs.decode_lengths) :].contiguous()
            parts.append(
                self._paged_decode(rows, cache, inputs.decode_tables, inputs.decode_lengths, inputs.longest).flatten(1)
            )
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _prefill(self, cache: PagedCache, query: Tensor, key: Tensor, value: Tensor, chunk: PagedChunk) -> Tensor:
        new = [part[chunk.rows].transpose(0, 1).unsqueeze(0) for part in (query, key, value)]
        if chunk.past_tokens:
            for place, stored in ((1, cache.key), (2, cache.value)):
                new[place] = gather(stored, chunk.table, cache.kv_dtype, self.dtype)[:, :, : chunk.tokens]
        out = prefill(new[0], new[1], new[2], self.machine.capability)
        return out.squeeze(0).transpose(0, 1).flatten(1)


def _starts(counts: Iterator[int]) -> list[int]:
    starts, total = [], 0
    for count in counts:
        starts.append(total)
        total += count
    return starts


def _angles(places: Tensor, shape: LayerShape, dtype: torch.dtype, device: str) -> tuple[Tensor, Tensor]:
    half = shape.head_dim // 2
    turns = places[:, None, None] * _ROTARY_BASE ** -(torch.arange(half) / half)
    return turns.cos().to(device, dtype), turns.sin().to(device, dtype)


def _padded(tables: list[Tensor]) -> Tensor:
    """Return (rows, most blocks): shorter rows repeat their first block, which a length masks."""
    most = max((len(table) for table in tables), default=0)
    full = [torch.cat([table, table[:1].expand(most - len(table))]) for table in tables]
    return torch.stack(full) if full else torch.zeros((0, 0), dtype=torch.int32)
