"""What a memory ledger means, in words: lines of (label, sentence) for the terminal."""

import math
from collections.abc import Iterator, Sequence

from sim.catalog import Model
from sim.memory import ByteRange, MemoryLedger, SglangPools
from sim.memory.binding import (
    KV,
    MAX_NUM_SEQS,
    RequestLimits,
    longest_requests,
    replicas_of,
    short_requests,
    total_concurrency,
)
from sim.memory.kv_groups import Keeps, KvGroup
from sim.memory.parts import ACTIVATION, GRAPHS, LEFT, WEIGHTS, parts_of
from sim.memory.verdict import Verdict, verdict_of
from sim.report.ledger_printed import printed_refusal, printed_sglang_refusal, printed_start
from sim.units import GIB, gib

Line = tuple[str, str]

_MIB = 2**20


def meaning(ledger: MemoryLedger | SglangPools, model: Model | None = None) -> Iterator[Line]:
    """Yield what the memory means for blocks, tokens and requests; `model` says how long its own requests may be."""
    yield from _of_pools(ledger) if isinstance(ledger, SglangPools) else _of_blocks(ledger, model)


def read_as(model: Model) -> str:
    """Return how a model's name was read; empty where it is the catalog's."""
    return f"read as {model.read_as}" if model.read_as else ""


def verdict_words(verdict: Verdict) -> str:
    """Return `The engine would probably not start`; without "probably" where the range of KV leaves no doubt."""
    return f"The engine would {'probably ' if verdict.is_open else ''}{'' if verdict.starts else 'not '}start"


def verdict_sentence(ledger: MemoryLedger) -> str:
    """Return whether and why the engine starts, where that is not plain; empty where it surely starts."""
    verdict = verdict_of(ledger)
    span = f"{gib_range(verdict.kv_bytes)} of KV memory"
    if ledger.refusal is not None:
        doubt = f"; it may find {span}" if verdict.is_open else ""
        return f"{verdict_words(verdict)}: {ledger.refusal}{doubt}."
    needed = f"one request takes {gib(verdict.needed_bytes)} of KV memory"
    return f"{verdict_words(verdict)}: {needed}, and it may find {span}." if verdict.is_open else ""


def layout_lines(ledger: MemoryLedger) -> Iterator[str]:
    """Yield a line for each kind of group: its layers, and the blocks a request holds of it."""
    kinds: dict[tuple[Keeps, int, int, int], list[KvGroup]] = {}
    for group in ledger.layout.groups:
        kinds.setdefault((group.keeps, group.block_size, group.span_tokens, group.state_blocks), []).append(group)
    for groups in kinds.values():
        yield _kind(ledger, groups)
    if ledger.layout.padding_layers:
        yield f"{_count(ledger.layout.padding_layers, 'padding layer')} to make the groups equal"


def concurrency_sentence(ledger: MemoryLedger | SglangPools) -> str:
    """Return how many requests of full length run at once and what binds them."""
    return _binding(longest_requests(ledger), printed=isinstance(ledger, MemoryLedger))


def _of_blocks(ledger: MemoryLedger, model: Model | None) -> Iterator[Line]:
    layout, rank = ledger.layout, ledger.rank
    yield "blocks", f"{ledger.num_gpu_blocks:,} of {layout.block_size:,} tokens{_spread(rank.blocks)}"
    yield "", f"{_size(layout.block_bytes)} a block, {layout.bytes_per_token:,.0f} bytes a token on each GPU"
    yield from _labelled("layers", list(layout_lines(ledger)))
    yield "a request", _request(ledger)
    if ledger.starts:
        yield from _labelled("vLLM prints", list(printed_start(ledger)))
        yield "at once", concurrency_sentence(ledger)
        yield from _short(ledger)
        yield from _replicas(ledger)
        yield "longest", _longest(ledger, model)
        yield from _overcommitted(ledger)
    else:  # it prints none of this
        yield "vLLM prints", printed_refusal(ledger, verdict_of(ledger))
    yield from _stages(ledger)
    yield from _doubt(ledger)


def _labelled(label: str, lines: Sequence[str]) -> Iterator[Line]:
    for number, line in enumerate(lines):
        yield ("" if number else label), line


def _short(ledger: MemoryLedger | SglangPools) -> Iterator[Line]:
    short = short_requests(ledger)
    if short.tokens < longest_requests(ledger).tokens:
        yield "", f"requests of {short.tokens:,} tokens: {_binding(short)}"


def _replicas(ledger: MemoryLedger | SglangPools) -> Iterator[Line]:
    if (replicas := replicas_of(ledger)) > 1:
        yield "", f"times {replicas} replicas, each with its own KV cache: {total_concurrency(ledger):,.2f}x"


def _longest(ledger: MemoryLedger, model: Model | None) -> str:
    longest = min(ledger.largest_max_model_len, 10**9)
    own = None if model is None else model.max_position_embeddings
    beyond = f" for its memory, beyond the model's own {own:,}" if own is not None and longest > own else ""
    return f"max_model_len up to {longest:,} starts{beyond}"


def _overcommitted(ledger: MemoryLedger) -> Iterator[Line]:
    """Yield a warning where graphs on top of the budget may not fit, or where the parts pass what the GPU has."""
    left = next(part.size_bytes for part in parts_of(ledger) if part.name == LEFT)
    if left.high < 0:
        yield "beware", f"the parts are {gib(-left.likely)} more than the GPU has: it would run out of memory"
    elif left.likely < 0:
        yield "beware", f"the parts are {gib(-left.likely)} more than the GPU has: it may run out of memory"
    elif left.low < 0:
        yield (
            "beware",
            f"capturing CUDA graphs may run out of memory: at the high end of their range {gib(-left.low)} is missing",
        )


def _kind(ledger: MemoryLedger, groups: list[KvGroup]) -> str:
    first, layers, count = groups[0], sum(group.layers for group in groups), len(groups)
    in_flight, longest = ledger.in_flight_tokens, ledger.limits.max_model_len
    many = f" in {count} groups" if count > 1 else ""
    each = " each" if count > 1 else ""
    keep = f"{_count(layers, 'layer')} keep{'s' if layers == 1 else ''}"
    match first.keeps:
        case Keeps.ALL:
            return f"{keep} every token{many}, {first.block_size:,} tokens a block"
        case Keeps.STATE if not layers:
            return f"tokens whose keys are not yet pooled: {_count(first.state_blocks * count, 'block')} a sequence"
        case Keeps.STATE:
            drafts = ledger.settings.draft_tokens
            mode = "align" if first.state_blocks - drafts > 1 else "none"
            spent = f"mamba_cache_mode {mode}{f', {drafts} draft tokens' if drafts else ''}"
            blocks = _count(first.state_blocks * count, "state block")
            return f"{keep} a state{many}: {blocks} a sequence whatever its length ({spent})"
        case Keeps.WINDOW | Keeps.CHUNK:
            blocks = _count(first.blocks_for(longest, in_flight), "block")
            window = first.keeps is Keeps.WINDOW
            kept = first.span_tokens - window
            capped = f", at most {longest:,}" if kept + in_flight > longest else ""
            return (
                f"{keep} a {'window' if window else 'chunk'} of {first.span_tokens:,}{many}: "
                f"{kept:,} + {in_flight:,} in-flight tokens{capped} = {blocks}{each}"
            )


def _request(ledger: MemoryLedger) -> str:
    longest, short = longest_requests(ledger), short_requests(ledger)
    said = f"{_count(ledger.blocks_per_request, 'block')} at most for {longest.tokens:,} tokens"
    return f"{said}, {short.blocks:,} for {short.tokens:,}" if short.tokens < longest.tokens else said


def _binding(found: RequestLimits, *, printed: bool = False) -> str:
    binding = found.binding
    at_once = f"{math.floor(binding.requests):,}"
    if printed and binding.name == MAX_NUM_SEQS:
        kv = next(limit for limit in found.limits if limit is not binding)
        return f"{kv.requests:,.2f}x printed, but max_num_seqs {at_once} admits {at_once}"
    others = ", ".join(f"{one.name} {math.floor(one.requests):,}" for one in found.limits if one is not binding)
    name = "the KV cache" if binding.name == KV else binding.name
    return f"{at_once}, bound by {name}{f' ({others})' if others else ''}"


def _stages(ledger: MemoryLedger) -> Iterator[Line]:
    if len(ledger.ranks) == 1:
        return
    for number, rank in enumerate(ledger.ranks):
        decides = ": decides" if rank is ledger.rank else ""
        holds = f"weights {gib(rank.weight_bytes)}, KV {gib(rank.kv_bytes.likely)}, {rank.blocks.likely:,} blocks"
        layers = f"layers {rank.layers.start} to {rank.layers.stop - 1}"
        yield ("" if number else "stages"), f"{number}, {rank.gpu}, {layers}: {holds}{decides}"


def _doubt(ledger: MemoryLedger) -> Iterator[Line]:
    """Yield what is known least."""
    if ledger.settings.kv_override is not None:
        return
    rank, widest = ledger.rank, ledger.widest_term
    spans = {WEIGHTS: rank.weight_range, ACTIVATION: rank.activation_bytes, GRAPHS: rank.cuda_graph_bytes}
    span = spans.get(widest, rank.non_torch_bytes)
    blocks = (span.high - span.low) // ledger.layout.block_bytes
    yield "known least", f"{widest}, {gib_range(span)}: {_count(blocks, 'block')} between the ends"


def _of_pools(pools: SglangPools) -> Iterator[Line]:
    tokens = pools.kv_cache_tokens
    yield "static share", f"mem_fraction_static {pools.mem_fraction_static:g} of what is free before loading"
    yield "tokens", f"max_total_num_tokens={tokens.likely}{_spread(tokens)}, {pools.bytes_per_token:,.0f} bytes each"
    if pools.window_tokens:
        yield "", f"{pools.window_tokens:,} tokens in the pool of the window layers"
    if pools.state_slots:
        yield "states", f"{_count(pools.state_slots, 'slot')} in {gib(pools.state_pool_bytes)}"
    if pools.refusal is not None:
        yield "SGLang prints", printed_sglang_refusal(pools)
        return
    yield "at once", f"requests of {pools.context_length:,} tokens: {concurrency_sentence(pools)}"
    yield from _short(pools)
    yield from _replicas(pools)
    if tokens.likely < pools.context_length:
        yield "longest", f"requests over {tokens.likely:,} tokens are turned away, though the context is longer"


def gib_range(span: ByteRange) -> str:
    """Return `0.33 to 4.90 GiB`; empty for a size without a range."""
    return "" if span.low == span.high else f"{span.low / GIB:.2f} to {gib(span.high)}"


def _spread(span: ByteRange) -> str:
    return "" if span.low == span.high else f" ({span.low:,} to {span.high:,})"


def _size(size_bytes: int) -> str:
    return gib(size_bytes) if size_bytes >= GIB else f"{size_bytes / _MIB:,.2f} MiB"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
