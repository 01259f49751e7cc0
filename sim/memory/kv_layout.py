"""From a model and engine flags to the layout of the KV cache on one GPU: groups of layers, and bytes of a block.

As vLLM V1 lays it out. Layers that keep the same thing form one group with one block table. Where a model mixes kinds,
all groups draw equal blocks from one pool, so their pages are made equal (a smaller page takes more tokens, a state is
padded) and their layers are dealt into groups of equal size:

    Qwen3.5-27B     16 attention layers, block raised to 784 tokens    ->  1 group of 16
                    48 state layers, padded to that page               ->  3 groups of 16

`MEMORY_LEDGER.md` names the rules and their cases.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, replace

from sim.catalog import KvDtype, Model, kv_dtype
from sim.catalog.kv_bytes import state_bytes, token_bytes
from sim.catalog.layers import AttentionKv, IndexerKv, KvKind, LatentKv, LayerKv, RecurrentState
from sim.errors import MemoryLedgerError
from sim.memory.drafts import draft_layers
from sim.memory.kv_groups import Keeps, KvGroup
from sim.memory.settings import MemorySettings
from sim.memory.versions import (
    keeps_prefill_checkpoints,
    latent_alignment_tokens,
    pads_up_to,
    raises_in_own_blocks,
)

_ALIGNMENT_TOKENS = 16  # attention kernels take blocks in these multiples


@dataclass(frozen=True, slots=True)
class KvLayout:
    """How KV is laid out on one GPU; sizes in bytes are of that GPU."""

    groups: tuple[KvGroup, ...]
    block_bytes: int  # one block of the pool, in all layers that share it
    bytes_per_token: float  # that one more token of a long context takes
    context_parallel_size: int = 1  # ranks that share the tokens of a sequence
    padding_layers: int = 0  # to make groups equal

    @property
    def block_size(self) -> int:
        """Tokens of the smallest block, as the engine prints it."""
        return min(group.block_size for group in self.groups if group.layers)

    @property
    def is_uniform(self) -> bool:
        """Whether every layer keeps every token, so that tokens are blocks x block size."""
        return len(self.groups) == 1 and self.groups[0].keeps is Keeps.ALL

    def blocks_in(self, kv_bytes: int) -> int:
        """Return how many whole blocks fit into `kv_bytes`; none when it is negative."""
        return max(0, kv_bytes) // self.block_bytes

    def blocks_for(self, tokens: int, in_flight_tokens: int = 0) -> int:
        """Return the most blocks a request of that many tokens holds, over all groups.

        `in_flight_tokens`, which windows reserve for, is the step budget, times two where steps overlap.
        """
        own = -(-tokens // self.context_parallel_size)
        return sum(
            group.blocks_for(own if group.keeps is Keeps.ALL else tokens, in_flight_tokens) for group in self.groups
        )

    def longest(self, blocks: int, in_flight_tokens: int = 0) -> int:
        """Return the longest request that so many blocks hold, in tokens; 0 when there is none."""
        if self.blocks_for(1, in_flight_tokens) > blocks:
            return 0
        if self.is_uniform:
            return blocks * self.block_size * self.context_parallel_size
        low, high = 1, 2
        while self.blocks_for(high, in_flight_tokens) <= blocks and high < _LONGEST:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.blocks_for(middle, in_flight_tokens) <= blocks else (low, middle)
        return min(low, _LONGEST)


_LONGEST = 10**8  # tokens of a request that needs no more blocks however long: only windows or states


@dataclass(frozen=True, slots=True)
class _Kept:
    """What one layer keeps, in one block table: the key by which layers are grouped."""

    keeps: Keeps
    span_tokens: int
    block_size: int
    token_bytes: float  # of a state: 0
    state_bytes: int = 0

    @property
    def page_bytes(self) -> int:
        return self.state_bytes or math.ceil(round(self.token_bytes * self.block_size, 6))


def kv_layout(model: Model, settings: MemorySettings, stage: range | None = None) -> KvLayout:
    """Return the layout of a model's KV cache on one GPU; of a pipeline, of a stage that holds those layers.

    Draft layers sit on the last stage. Raises MemoryLedgerError for an unknown type, with the nearest name, for heads
    that do not divide, and for a model without any KV.
    """
    stage = range(model.num_hidden_layers) if stage is None else stage
    dtype = kv_dtype(settings.kv_type(model))
    check_ranks(model, settings)
    if dtype.latent_token_bytes is not None and not _has(model, LatentKv):
        raise MemoryLedgerError(f"kv_cache_dtype {settings.kv_cache_dtype} is of MLA models, and {model.name} is none")
    everywhere = _kept_by_layer(model, settings, dtype)
    if not everywhere:
        raise MemoryLedgerError(f"{model.name} keeps no KV: there is nothing to lay out")
    dealt, padding = _deal(_equal_pages(everywhere), settings)
    last = stage.stop == model.num_hidden_layers
    groups: list[KvGroup] = []
    sizes: list[int] = []
    for kept, layers in dealt:
        here = [layer for layer in layers if layer in stage or (last and layer >= model.num_hidden_layers)]
        sizes.append(len(here))
        groups.append(_group(kept, len(here), settings, model))
    if len(dealt) > 1 and settings.context_parallel_size > 1:
        raise MemoryLedgerError(f"{model.name} mixes kinds of layers: vLLM shares no sequence's tokens over ranks then")
    if len(dealt) > 1 and _pools_keys(model):
        groups.append(KvGroup(Keeps.STATE, 0, settings.block_size, state_blocks=1))  # tokens not yet pooled
    if len(dealt) == 1:
        here_all = [kept for layer, kept in everywhere if layer in stage or (last and layer >= stage.stop)]
        block_bytes = math.ceil(
            round(sum(kept.token_bytes * kept.block_size or kept.page_bytes for kept in here_all), 6)
        )
    else:
        block_bytes = max(sizes) * dealt[0][0].page_bytes
    if not block_bytes:
        raise MemoryLedgerError(f"layers {stage.start} to {stage.stop - 1} of {model.name} keep no KV")
    growing = [group for group in groups if group.keeps is Keeps.ALL] or groups  # else of a token inside its window
    whole = sum(block_bytes / group.block_size for group in growing)
    return KvLayout(
        groups=tuple(groups),
        block_bytes=block_bytes,
        bytes_per_token=whole / settings.context_parallel_size,
        context_parallel_size=settings.context_parallel_size,
        padding_layers=padding,
    )


def _pools_keys(model: Model) -> bool:
    return any(isinstance(kind, IndexerKv) and kind.pool_tokens > 1 for layer in model.kv_layers for kind in layer)


def _has(model: Model, kind: type) -> bool:
    return any(isinstance(one, kind) for layer in model.kv_layers for one in layer)


def check_ranks(model: Model, settings: MemorySettings) -> None:
    """Raise MemoryLedgerError for ranks among which heads or tokens cannot be shared, as vLLM 0.32 does."""
    tensor_parallel_size, shared = settings.tensor_parallel_size, settings.decode_context_parallel_size
    if model.num_attention_heads % tensor_parallel_size:
        raise MemoryLedgerError(
            f"tensor_parallel_size {tensor_parallel_size} must divide the {model.num_attention_heads} "
            f"attention heads of {model.name}"
        )
    heads = {kind.kv_heads for layer in model.kv_layers for kind in layer if isinstance(kind, AttentionKv)}
    for count in sorted(heads):
        if count % tensor_parallel_size and tensor_parallel_size % count:
            raise MemoryLedgerError(
                f"tensor_parallel_size {tensor_parallel_size} must divide or be a multiple of the "
                f"{count} KV heads of {model.name}"
            )
    if shared > 1 and tensor_parallel_size % shared:
        raise MemoryLedgerError(
            f"decode_context_parallel_size {shared} must divide tensor_parallel_size {tensor_parallel_size}"
        )
    if shared > 1 and heads and shared > (most := tensor_parallel_size // max(heads)):
        raise MemoryLedgerError(
            f"decode_context_parallel_size {shared} must be at most {max(1, most)}: so often {tensor_parallel_size} "
            f"tensor-parallel ranks hold each of the {max(heads)} KV heads of {model.name}"
        )


def _kept_by_layer(model: Model, settings: MemorySettings, dtype: KvDtype) -> list[tuple[int, _Kept]]:
    """Return what each layer keeps, draft layers last; blocks are those of the kernels, not yet made equal.

    Under recurrent layers the block is raised until an attention page holds a state; an indexer's keys come on top.
    """
    layers = [*model.kv_layers, *draft_layers(model, settings)]
    full_precision = _full_precision_layers(layers, dtype)
    slides = _slides(layers, settings)
    attention: list[tuple[int, _Kept]] = []
    states: list[tuple[int, int]] = []
    indexers: dict[int, float] = {}
    for index, layer in enumerate(layers):
        for kind in layer:
            own = kv_dtype("bf16") if index in full_precision or _is_skipped(index, kind, settings) else dtype
            match kind:
                case RecurrentState():
                    ranks, drafts = settings.tensor_parallel_size, settings.draft_tokens
                    states.append((index, state_bytes(kind, ranks, drafts, settings.mamba_ssm_cache_dtype)))
                case IndexerKv():
                    indexers[index] = token_bytes(kind, own, settings.tensor_parallel_size)
                case AttentionKv() | LatentKv():
                    attention.append((index, _attention(kind, settings, own, slides=slides)))
    block_size = settings.block_size
    if states and attention:
        if settings.disable_hybrid_kv_cache_manager:
            raise MemoryLedgerError(
                f"disable_hybrid_kv_cache_manager: {model.name} keeps states beside attention, and vLLM does not start "
                "without that manager; leave the flag out"
            )
        latent = any(isinstance(kind, LatentKv) for layer in layers for kind in layer)
        multiple = latent_alignment_tokens(settings.vllm_version) if latent else _ALIGNMENT_TOKENS
        if raises_in_own_blocks(settings.vllm_version):
            multiple = max(multiple, block_size)
        block_size = _block_size_over_states(attention, [size for _, size in states], block_size, multiple)
    kept = [
        (index, replace(one, block_size=block_size, token_bytes=one.token_bytes + indexers.get(index, 0.0)))
        for index, one in attention
    ]
    kept += [(index, _Kept(Keeps.STATE, 0, block_size, 0.0, size)) for index, size in states]
    return sorted(kept, key=lambda one: one[0])


def _full_precision_layers(layers: list[tuple[KvKind, ...]], dtype: KvDtype) -> set[int]:
    """Return the layers that a format leaves in 16 bits: the first and last of those with attention."""
    attending = [
        index for index, layer in enumerate(layers) if any(not isinstance(one, RecurrentState) for one in layer)
    ]
    half = dtype.full_precision_layers // 2
    return {*attending[:half], *attending[len(attending) - half :]} if half else set()


def _is_skipped(index: int, kind: KvKind, settings: MemorySettings) -> bool:
    skipped = settings.kv_cache_dtype_skip_layers
    windowed = isinstance(kind, AttentionKv) and kind.window_tokens is not None
    return str(index) in skipped or (windowed and "sliding_window" in skipped)


def _slides(layers: list[LayerKv], settings: MemorySettings) -> bool:
    """Whether windows give their blocks back; without the hybrid manager only where no layer keeps every token."""
    if not settings.gives_blocks_back:
        return False
    kinds = [kind for layer in layers for kind in layer]
    whole = any(
        isinstance(kind, LatentKv)
        or (isinstance(kind, AttentionKv) and kind.window_tokens is None and kind.chunk_tokens is None)
        for kind in kinds
    )
    return not (whole and settings.disable_hybrid_kv_cache_manager)


def _attention(kind: AttentionKv | LatentKv, settings: MemorySettings, dtype: KvDtype, *, slides: bool) -> _Kept:
    size = token_bytes(kind, dtype, settings.tensor_parallel_size)
    keeps, span = Keeps.ALL, 0
    if isinstance(kind, AttentionKv) and slides:
        if kind.window_tokens is not None:
            keeps, span = Keeps.WINDOW, kind.window_tokens
        elif kind.chunk_tokens is not None and settings.gives_chunks_back:
            keeps, span = Keeps.CHUNK, kind.chunk_tokens
    return _Kept(keeps, span, settings.block_size, size)


def _block_size_over_states(kept: list[tuple[int, _Kept]], states: list[int], block_size: int, multiple: int) -> int:
    """Return the block size whose attention page is at least a state's, in multiples that the kernels take."""
    per_token = min(one.token_bytes for _, one in kept)
    return max(block_size, multiple * math.ceil(max(states) / (multiple * per_token)))


def _equal_pages(kept: list[tuple[int, _Kept]]) -> dict[_Kept, list[int]]:
    """Return the layers of each kind, with pages of one size where there are several kinds.

    A smaller page takes more tokens if that makes it equal, else it is padded. Layers that all keep every token (or one
    window) need no equal pages: they are one kind.
    """
    if len({(one.keeps, one.span_tokens, one.block_size) for _, one in kept}) == 1:
        return {kept[0][1]: [index for index, _ in kept]}
    largest = max(one.page_bytes for _, one in kept)
    kinds: dict[_Kept, list[int]] = defaultdict(list)
    for index, one in kept:
        if one.keeps is Keeps.STATE:
            same = replace(one, state_bytes=largest)
        else:
            times = largest // one.page_bytes if largest % one.page_bytes == 0 else 1
            block_size = one.block_size * times
            same = replace(one, block_size=block_size, token_bytes=largest / block_size)
        kinds[same].append(index)
    return kinds


def _deal(kinds: dict[_Kept, list[int]], settings: MemorySettings) -> tuple[list[tuple[_Kept, list[int]]], int]:
    """Deal each kind's layers into groups of equal size; also return how many padding layers that takes.

    The size is the fewest layers of any kind, or the most where they are not much more.
    """
    fewest = min(map(len, kinds.values()))
    most = max(map(len, kinds.values()))
    size = most if most < fewest * pads_up_to(settings.vllm_version) else fewest
    dealt: list[tuple[_Kept, list[int]]] = []
    padding = 0
    for kept, layers in kinds.items():
        count = -(-len(layers) // size)
        padding += count * size - len(layers)
        dealt += [(kept, layers[first::count]) for first in range(count)]
    return dealt, padding


def _group(kept: _Kept, layers: int, settings: MemorySettings, model: Model) -> KvGroup:
    if kept.keeps is not Keeps.STATE:
        return KvGroup(kept.keeps, layers, kept.block_size, kept.span_tokens)
    mode = settings.state_mode(model)
    if mode == "all":  # a state at every block
        return KvGroup(Keeps.ALL, layers, kept.block_size)
    blocks = (2 + _checkpoints(model, settings) if mode == "align" else 1) + settings.draft_tokens
    return KvGroup(Keeps.STATE, layers, kept.block_size, state_blocks=blocks)


def _checkpoints(model: Model, settings: MemorySettings) -> int:
    if not keeps_prefill_checkpoints(settings.vllm_version):
        return 0
    kinds = (kind for layer in model.kv_layers for kind in layer)
    return int(any(isinstance(kind, RecurrentState) and kind.checkpoints for kind in kinds))
