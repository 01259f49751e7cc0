"""Seconds of one engine step: the terms of a profile, added up for a batch.

    step = overhead + linear(tokens) + prefill attention(pairs) + decode attention(KV) + head(sampled)

What a device profile knows beyond that (a query's own cost, rows, launches, CUDA graphs) is zero in a profile of
one model. Three mechanisms decide what the cliff costs:

- A decode row in a step that also holds a prefill goes through the prefill kernel, which works on tiles of
  query rows: one row costs a whole tile. vLLM on an L20 (public step traces) takes 33 to 37 ms longer for one
  32k-token row in such a step, against 6.5 ms in a decode-only one.
- A short chunk on a long context pays for a whole tile of queries, and at least for reading that context.
- A prefix the decode rows share is read from memory once if it stays in the L2 cache, where the profile's
  kernels profit from that; else once per row.
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from sim.catalog import Gpu, Model
from sim.errors import ProfileError, one_of
from sim.steptime.ahead import Stretch, ends_one_by_one
from sim.steptime.batch import BatchShape
from sim.steptime.mixed_layers import mixed_layers
from sim.steptime.profile import Linear, Profile, kv_family


@dataclass(frozen=True, slots=True)
class StepTimeModel:
    """Prices batches; all numbers are seconds, tokens or bytes of one GPU."""

    step_overhead_s: float
    linear_s: Callable[[int], float]
    head_per_step_s: float
    head_per_sequence_s: float
    prefill_s_per_pair: float
    decode_s_per_kv_token: float
    prefill_tile_rows: float
    shared_tokens_read_once: float  # the longest shared prefix that L2 keeps, in tokens; 0 = none
    prefill_s_per_token: float = 0.0  # what a query costs attention before it has met a key
    prefill_s_per_kv_token: float = 0.0  # a chunk pays for a whole tile of queries on its context, and for reading it
    prefill_overhead_s: float = 0.0
    decode_overhead_s: float = 0.0
    decode_s_per_row: float = 0.0
    decode_sharpness: float = math.inf  # how a row's own cost and its reading overlap: inf = the larger counts
    decode_on_its_own: bool = False  # beside a prefill too; else decode rows go through the prefill kernel's tiles
    cuda_graph_tokens: int = 0  # the largest step a CUDA graph holds
    eager_floor_s: float = 0.0  # what the host needs to launch a step that no graph holds

    def seconds(self, batch: BatchShape) -> float:
        """Return how long the step takes."""
        total = self._fixed_s(batch.tokens, batch.sampled)
        if batch.decode_rows:
            total += self._decode_s(batch)
        if batch.holds_prefill:
            pairs_s = batch.prefill_pairs * self.prefill_s_per_pair
            total += max(pairs_s, batch.prefill_kv_tokens * self.prefill_s_per_kv_token)
            total += self.prefill_overhead_s + (batch.tokens - batch.decode_rows) * self.prefill_s_per_token
        if batch.tokens > self.cuda_graph_tokens and total < self.eager_floor_s:
            return self.eager_floor_s
        return total

    def ends_s(self, stretch: Stretch) -> list[float]:
        """Return when each step of a stretch ends; bit for bit what `seconds` would add up to."""
        rows = stretch.rows
        if rows > self.cuda_graph_tokens and self.eager_floor_s:
            return ends_one_by_one(self.seconds, stretch)
        fixed_s, overhead_s, per_kv_s = self._fixed_s(rows, rows), self.decode_overhead_s, self.decode_s_per_kv_token
        rows_s, sharpness = rows * self.decode_s_per_row, self.decode_sharpness
        saved = self._read_once(stretch.kv_tokens_shared, rows)
        end_s, until_s, beyond = stretch.start_s, stretch.until_s, stretch.more_steps
        first = stretch.kv_tokens
        ends: list[float] = []
        for read in range(first, first + stretch.most_steps * rows, rows):
            memory_s = (read - saved) * per_kv_s
            if rows_s:
                memory_s = _either_or(rows_s, memory_s, sharpness)
            end_s += fixed_s + (overhead_s + memory_s)
            ends.append(end_s)
            if end_s >= until_s:
                if not beyond:
                    break
                beyond -= 1
        return ends

    def _fixed_s(self, tokens: int, sampled: int) -> float:
        """Return what a step costs whatever its requests attend to."""
        total = self.step_overhead_s + self.linear_s(tokens)
        if sampled:
            total += self.head_per_step_s + sampled * self.head_per_sequence_s
        return total

    def _read_once(self, shared: float, rows: int) -> float:
        """Return how many of the KV tokens that rows share are not read again."""
        if rows > 1 and shared and shared / (rows - 1) <= self.shared_tokens_read_once:
            return shared
        return 0.0

    def _decode_s(self, batch: BatchShape) -> float:
        saved = self._read_once(batch.decode_kv_tokens_shared, batch.decode_rows)
        memory_s = (batch.decode_kv_tokens - saved) * self.decode_s_per_kv_token
        if batch.holds_prefill and not self.decode_on_its_own:
            return max(memory_s, batch.decode_kv_tokens * self.prefill_tile_rows * self.prefill_s_per_pair)
        if self.decode_s_per_row:
            rows_s = batch.decode_rows * self.decode_s_per_row
            memory_s = _either_or(rows_s, memory_s, self.decode_sharpness)
        return self.decode_overhead_s + memory_s


def _either_or(a_s: float, b_s: float, sharpness: float) -> float:
    """Return what `operations.either_or` does, of two numbers: every decode step asks."""
    if a_s > b_s:
        return a_s * math.pow(1.0 + math.pow(b_s / a_s, sharpness), 1.0 / sharpness)
    return b_s * math.pow(1.0 + math.pow(a_s / b_s, sharpness), 1.0 / sharpness)


def step_time_model(profile: Profile, gpu: Gpu, model: Model, kv_cache_dtype: str) -> StepTimeModel:
    """Return the model of a profile for one KV cache dtype.

    Raises ProfileError if the profile is of another model or GPU, or has no attention for the dtype.
    """
    for what, own, asked in (("gpu", profile.gpu, gpu.name), ("model", profile.model, model.name)):
        if own.lower() != asked.lower():
            raise ProfileError(f"profile {profile.name!r} is of {what} {own}, the scenario asks for {asked}")
    family = kv_family(kv_cache_dtype)
    if family not in profile.attention:
        raise ProfileError(
            f"profile {profile.name!r}: attention for kv_cache_dtype {one_of(family, profile.attention)}"
        )
    attention = profile.attention[family]
    bytes_per_token = model.kv_bytes_per_token(kv_cache_dtype)
    mixed = mixed_layers(model, kv_cache_dtype)
    read_once = 0.0
    if profile.shared_prefix_reads == "once_if_l2_holds_it" and gpu.l2_bytes:
        read_once = gpu.l2_bytes / (bytes_per_token / model.num_hidden_layers)
    return StepTimeModel(
        step_overhead_s=profile.step_overhead_s.value,
        linear_s=_interpolated(profile.linear),
        head_per_step_s=profile.head.per_step_s.value,
        head_per_sequence_s=profile.head.per_sequence_s.value
        + mixed.bytes_per_row / attention.decode_bytes_per_s.value,
        prefill_s_per_token=mixed.window_pairs / mixed.growing_layers * attention.prefill_s_per_pair.value,
        prefill_s_per_pair=attention.prefill_s_per_pair.value,
        decode_s_per_kv_token=bytes_per_token / attention.decode_bytes_per_s.value,
        prefill_tile_rows=profile.prefill_tile_rows,
        shared_tokens_read_once=read_once,
    )


def _interpolated(linear: Linear) -> Callable[[int], float]:
    tokens, seconds = linear.tokens, linear.seconds
    slopes = [(seconds[i + 1] - seconds[i]) / (tokens[i + 1] - tokens[i]) for i in range(len(tokens) - 1)]
    first, last = tokens[0], len(slopes) - 1

    def at(count: int) -> float:
        if count <= first:
            return seconds[0]
        i = min(bisect_right(tokens, count) - 1, last)
        return seconds[i] + (count - tokens[i]) * slopes[i]

    return at
