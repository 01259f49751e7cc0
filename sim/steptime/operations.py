"""Seconds of single operations on one GPU: the formulas a device profile's terms go into.

Every function takes numbers or numpy arrays and is non-negative and monotone in every size for non-negative
terms, so a fit of the terms needs no further constraint and extrapolates the way the hardware does: along the
FLOP line or along the byte line. Each formula was chosen on public tables (AIConfigurator, LLMServingSim); the
deviations are in each profile's residuals.
"""

from typing import Any, NamedTuple

Number = Any  # float or numpy array: the arithmetic is the same


class GemmTerms(NamedTuple):
    """A matrix product: launch, bytes, FLOPs, and the work of tiles that are not full."""

    overhead_s: float
    bytes_per_s: float
    flops_per_s: float
    tile_elements: float  # output elements that are always paid for on top of m x n: the last wave of tiles
    pipeline_depth: float  # steps of k paid for on top of k: filling and draining
    sharpness: float  # how suddenly bytes give way to FLOPs; 1 adds them up, large takes the larger


class AttentionTerms(NamedTuple):
    """Attention of one layer over a paged cache."""

    prefill_overhead_s: float
    prefill_flops_per_s: float
    prefill_pairs_per_token: float  # pairs' worth of work a query token costs before it has met a key
    decode_overhead_s: float
    decode_row_s: float  # per row and KV head: starting a block of threads that then reads little
    decode_bytes_per_s: float
    sharpness: float


class ExpertTerms(NamedTuple):
    """The fused experts of one layer: like a matrix product, with a tile of rows for every expert met."""

    overhead_s: float
    bytes_per_s: float
    flops_per_s: float
    tile_rows: float
    sharpness: float


class SmallTerms(NamedTuple):
    """A kernel between the products: a launch, and the bytes it moves."""

    kernel_s: float
    bytes_per_s: float


class LinkTerms(NamedTuple):
    """An all-reduce among a number of GPUs."""

    latency_s: float
    bytes_per_s: float


def either_or(a_s: Number, b_s: Number, sharpness: float) -> Number:
    """Return the larger of two times, with the corner rounded off: they overlap but not perfectly."""
    big = _larger(a_s, b_s)
    small = a_s + b_s - big
    ratio = small / (big + 1e-30)
    return big * (1 + ratio**sharpness) ** (1 / sharpness)


def gemm_s(  # noqa: PLR0917 - m, n and k have an order
    terms: GemmTerms, m: Number, n: Number, k: Number, weight_bytes: float, activation_bytes: float
) -> Number:
    """Return seconds of (m x k) times (k x n); bytes are per element, the output has 16 bits."""
    moved = weight_bytes * n * k + activation_bytes * m * k + 2.0 * m * n
    flops = 2.0 * (m * n + terms.tile_elements) * (k + terms.pipeline_depth)
    return terms.overhead_s + either_or(moved / terms.bytes_per_s, flops / terms.flops_per_s, terms.sharpness)


def prefill_attention_s(  # noqa: PLR0917 - sizes in the order of the terms
    terms: AttentionTerms, pairs: Number, new_tokens: Number, heads: Number, kv_heads: Number, head_dim: Number
) -> Number:
    """Return seconds of one layer: `pairs` of query and key over all requests, `new_tokens` queries.

    A token's own cost goes by the heads it moves: its query and output, its keys and values in and out.
    """
    alone = terms.prefill_pairs_per_token * new_tokens * (heads + 2.0 * kv_heads)
    flops = 4.0 * head_dim * (heads * pairs + alone)
    return terms.prefill_overhead_s + flops / terms.prefill_flops_per_s


def decode_attention_s(
    terms: AttentionTerms, rows: Number, kv_tokens: Number, kv_heads: Number, head_bytes: Number
) -> Number:
    """Return seconds of one layer for `rows` rows that read `kv_tokens` between them.

    `head_bytes` is what one token takes for keys and values of one head.
    """
    starting_s = rows * kv_heads * terms.decode_row_s
    reading_s = kv_tokens * kv_heads * head_bytes / terms.decode_bytes_per_s
    return terms.decode_overhead_s + either_or(starting_s, reading_s, terms.sharpness)


def experts_met(tokens: Number, experts: Number, per_token: Number) -> Number:
    """Return how many experts any of the tokens meets, on average, when the router is even-handed."""
    return experts * (1 - (1 - per_token / experts) ** tokens)


def experts_s(  # noqa: PLR0917 - sizes in the order of the terms
    terms: ExpertTerms, rows: Number, met: Number, hidden: Number, intermediate: Number, weight_bytes: float
) -> Number:
    """Return seconds of one layer's gated experts; `rows` is tokens times experts per token."""
    weights = 3.0 * hidden * intermediate
    flops = 2.0 * weights * (rows + terms.tile_rows * met)
    moved = weights * weight_bytes * met + 2.0 * rows * (2.0 * hidden + 3.0 * intermediate)
    return terms.overhead_s + either_or(moved / terms.bytes_per_s, flops / terms.flops_per_s, terms.sharpness)


def small_s(terms: SmallTerms, moved_bytes: Number) -> Number:
    """Return seconds of one small kernel that reads and writes `moved_bytes`."""
    return terms.kernel_s + moved_bytes / terms.bytes_per_s


def allreduce_s(terms: LinkTerms, moved_bytes: Number) -> Number:
    """Return seconds of one all-reduce of `moved_bytes` on each GPU."""
    return terms.latency_s + moved_bytes / terms.bytes_per_s


def _larger(a: Number, b: Number) -> Number:
    return (a + b + abs(a - b)) / 2
