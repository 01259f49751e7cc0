"""What a memory ledger means, in words: lines of (label, sentence) for the terminal.

The engine's own lines are quoted as the version prints them, so that they can be found in a start-up log.
"""

import math
from collections.abc import Iterator

from sim.memory import ByteRange, MemoryLedger, SglangPools
from sim.memory.binding import KV, MAX_NUM_SEQS, RequestLimits, longest_requests, short_requests
from sim.memory.kv_groups import Keeps, KvGroup
from sim.memory.parts import ACTIVATION, GRAPHS, WEIGHTS
from sim.memory.versions import is_v0, prints_concurrency_tokens
from sim.units import GIB, gib

Line = tuple[str, str]

_FAR = 0.05  # share by which a printed token count misleads
_MIB = 2**20


def title(ledger: MemoryLedger | SglangPools, model: str, gpu: str) -> str:
    """Return what the ledger is of: model, GPUs, engine."""
    if isinstance(ledger, SglangPools):
        return f"{model or 'a model'} on one {gpu or 'GPU'}, SGLang"
    settings = ledger.settings
    ranks = {"TP": settings.tensor_parallel_size, "PP": settings.pipeline_parallel_size}
    ranks["DP"] = settings.data_parallel_size
    count = math.prod(ranks.values())
    split = ", ".join(f"{name} {size}" for name, size in ranks.items() if size > 1)
    names = " and ".join(dict.fromkeys(rank.gpu for rank in ledger.ranks))
    gpus = f"{count} x {names} ({split})" if count > 1 else f"one {names}"
    return f"{ledger.model} on {gpus}, vLLM {settings.vllm_version}"


def meaning(ledger: MemoryLedger | SglangPools) -> Iterator[Line]:
    """Yield what the memory means for blocks, tokens and requests."""
    yield from _of_pools(ledger) if isinstance(ledger, SglangPools) else _of_blocks(ledger)


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


def _of_blocks(ledger: MemoryLedger) -> Iterator[Line]:
    layout, rank = ledger.layout, ledger.rank
    yield "blocks", f"{ledger.num_gpu_blocks:,} of {layout.block_size:,} tokens{_spread(rank.blocks)}"
    yield "", f"{_size(layout.block_bytes)} a block, {layout.bytes_per_token:,.0f} bytes a token on each GPU"
    for number, line in enumerate(layout_lines(ledger)):
        yield ("" if number else "layers"), line
    yield "a request", _request(ledger)
    if ledger.starts:  # an engine that refuses prints none of this
        yield from _printed(ledger)
        yield "at once", concurrency_sentence(ledger)
        short = short_requests(ledger)
        yield "", f"short requests (up to {short.tokens:,} tokens): {_binding(short)}"
        if (replicas := ledger.settings.data_parallel_size) > 1:
            yield (
                "",
                f"times {replicas} replicas, each with its own KV cache: {replicas * ledger.max_concurrency:,.2f}x",
            )
        yield "longest", f"max_model_len up to {min(ledger.largest_max_model_len, 10**9):,} starts"
    yield from _stages(ledger)
    yield from _doubt(ledger)


def _kind(ledger: MemoryLedger, groups: list[KvGroup]) -> str:
    first, layers, count = groups[0], sum(group.layers for group in groups), len(groups)
    in_flight, longest = ledger.in_flight_tokens, ledger.limits.max_model_len
    many = f" in {count} groups" if count > 1 else ""
    each = " each" if count > 1 else ""
    blocks = _count(first.blocks_for(longest, in_flight), "block")
    keep = f"{_count(layers, 'layer')} keep{'s' if layers == 1 else ''}"
    match first.keeps:
        case Keeps.ALL:
            return f"{keep} every token{many}, {first.block_size:,} tokens a block"
        case Keeps.STATE:
            drafts = ledger.settings.draft_tokens
            mode = "align" if first.state_blocks - drafts > 1 else "none"
            spent = f"mamba_cache_mode {mode}{f', {drafts} draft tokens' if drafts else ''}"
            return f"{keep} a state{many}: {blocks} a sequence{each} ({spent})"
        case Keeps.WINDOW | Keeps.CHUNK:
            window = first.keeps is Keeps.WINDOW
            kept = first.span_tokens - window
            capped = f", at most {longest:,}" if kept + in_flight > longest else ""
            return (
                f"{keep} a {'window' if window else 'chunk'} of {first.span_tokens:,}{many}: "
                f"{kept:,} + {in_flight:,} in-flight tokens{capped} = {blocks}{each}"
            )


def _request(ledger: MemoryLedger) -> str:
    short = short_requests(ledger)
    return (
        f"of {ledger.limits.max_model_len:,} tokens holds up to {_count(ledger.blocks_per_request, 'block')}, "
        f"of {short.tokens:,} tokens {short.blocks:,}"
    )


def _printed(ledger: MemoryLedger) -> Iterator[Line]:
    version, printed, fits = ledger.settings.vllm_version, ledger.kv_cache_tokens, ledger.capacity_tokens
    if is_v0(version):
        yield "vLLM prints", f'"# GPU blocks: {ledger.num_gpu_blocks}"'
    else:
        yield "vLLM prints", f'"GPU KV cache size: {printed:,} tokens"'
    longest = ledger.limits.max_model_len
    yield "", f'"Maximum concurrency for {longest:,} tokens per request: {ledger.max_concurrency:.2f}x"'
    if not is_v0(version) and abs(printed - fits) > _FAR * fits:
        yield "", f"{printed:,} is blocks // groups x block size; what fits is {fits:,} tokens"
    elif not ledger.layout.is_uniform and prints_concurrency_tokens(version):
        yield "", f"the tokens are concurrency x max_model_len: they hold for requests of {longest:,} only"


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
    """Yield what is known least, and whether that leaves the verdict open."""
    if ledger.settings.kv_override is not None:
        return
    rank, widest = ledger.rank, ledger.widest_term
    spans = {WEIGHTS: rank.weight_range, ACTIVATION: rank.activation_bytes, GRAPHS: rank.cuda_graph_bytes}
    span = spans.get(widest, rank.non_torch_bytes)
    blocks = (span.high - span.low) // ledger.layout.block_bytes
    yield "known least", f"{widest}, {gib_range(span)}: {_count(blocks, 'block')} between the ends"
    ends = ((one.blocks.low, one.blocks.high) for one in ledger.ranks)
    low, high = (min(side) for side in zip(*ends, strict=True))
    if ledger.starts and low < ledger.blocks_per_request:
        yield "", "at the low end of the range it would be refused: leave more room, or measure"
    if not ledger.starts and high > ledger.blocks_per_request:
        yield "", "at the high end of the range it would start"


def _of_pools(pools: SglangPools) -> Iterator[Line]:
    tokens = pools.kv_cache_tokens
    yield "static share", f"mem_fraction_static {pools.mem_fraction_static:g} of what is free before loading"
    yield "tokens", f"max_total_num_tokens={tokens.likely}{_spread(tokens)}, {pools.bytes_per_token:,.0f} bytes each"
    if pools.window_tokens:
        yield "", f"{pools.window_tokens:,} tokens in the pool of the window layers"
    if pools.state_slots:
        yield "states", f"{_count(pools.state_slots, 'slot')} in {gib(pools.state_pool_bytes)}"
    if not tokens.likely:
        return
    yield "at once", f"requests of {pools.context_length:,} tokens: {concurrency_sentence(pools)}"
    short = short_requests(pools)
    yield "", f"requests of {short.tokens:,} tokens: {_binding(short)}"
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
