"""A ledger in plain types, for JSON: sizes in bytes of the GPU that decides; None for what an engine has not.

A key says its unit (`_bytes`, `_tokens`, `_blocks`), is a count of what it names, or is a flag of vLLM's, whose unit
`_tokens` repeats beside it. Concurrency is in requests of max_model_len tokens: of one replica, and of all (`_total`).
"""

from collections.abc import Sequence

from sim.catalog import Model
from sim.memory.binding import RequestLimits, longest_requests, replicas_of, short_requests, total_concurrency
from sim.memory.ledger import MemoryLedger
from sim.memory.parts import parts_of
from sim.memory.rank import RankMemory
from sim.memory.remedies import Remedy
from sim.memory.reserves import ByteRange
from sim.memory.sglang import SglangPools
from sim.memory.verdict import verdict_of

Document = dict[str, object]


def ledger_document(
    ledger: MemoryLedger | SglangPools,
    *,
    model: Model | None = None,
    gpu: str | None = None,
    remedies: Sequence[Remedy] = (),
) -> Document:
    """Return the ledger as JSON takes it.

    `model` adds how its name was read, and with `gpu` names what SGLang's pools are of, which they do not know.
    """
    own = _of_pools(ledger, model, gpu) if isinstance(ledger, SglangPools) else _of_blocks(ledger)
    longest = longest_requests(ledger)
    return {
        **own,
        "max_concurrency": ledger.max_concurrency,
        "max_concurrency_total": total_concurrency(ledger),
        "replicas": replicas_of(ledger),
        "bytes_per_token": ledger.bytes_per_token,
        "starts": ledger.refusal is None,
        "refusal": ledger.refusal,
        "read_as": None if model is None else model.read_as,
        "model_source": None if model is None else model.source,
        "weight_bytes": ledger.weight_bytes if isinstance(ledger, SglangPools) else ledger.rank.weight_bytes,
        "binding_limit": longest.binding.name,
        "binding_limits": [_limits(longest), _limits(short_requests(ledger))],
        "parts": [
            {"name": part.name, **_span("bytes", part.size_bytes), "from": part.source} for part in parts_of(ledger)
        ],
        "remedies": [_remedy(remedy) for remedy in remedies],
    }


def _of_blocks(ledger: MemoryLedger) -> Document:
    rank, settings, limits = ledger.rank, ledger.settings, ledger.limits
    longest, verdict = ledger.largest_max_model_len, verdict_of(ledger)
    return {
        "engine": "vllm",
        "vllm_version": settings.vllm_version,
        "gpu": ledger.gpu,
        "model": ledger.model,
        "tensor_parallel_size": settings.tensor_parallel_size,
        "pipeline_parallel_size": settings.pipeline_parallel_size,
        "data_parallel_size": settings.data_parallel_size,
        "kv_cache_dtype": settings.kv_cache_dtype,
        "gpu_memory_utilization": settings.utilization,
        "max_model_len": limits.max_model_len,
        "max_num_seqs": limits.max_num_seqs,
        "max_num_batched_tokens": limits.max_num_batched_tokens,
        "largest_max_model_len": longest,
        "estimated_max_model_len": longest,  # the word of the engine's refusal
        **_span("num_gpu_blocks", rank.blocks),
        "block_size": ledger.layout.block_size,
        "block_bytes": ledger.layout.block_bytes,
        "blocks_per_request": ledger.blocks_per_request,
        "kv_cache_tokens": ledger.kv_cache_tokens,
        "capacity_tokens": ledger.capacity_tokens,
        "total_visible_bytes": rank.total_visible_bytes,
        "budget_bytes": rank.budget_bytes,
        **_span("kv_bytes", rank.kv_bytes),
        **_span("activation_bytes", rank.activation_bytes),
        **_span("non_torch_bytes", rank.non_torch_bytes),
        **_span("cuda_graph_bytes", rank.cuda_graph_bytes),
        "cuda_graphs_reduce_kv": ledger.cuda_graphs_reduce_kv,
        "widest_term": ledger.widest_term,
        "needed_kv_bytes": verdict.needed_bytes,
        "verdict_is_open": verdict.is_open,
        "groups": [
            {
                "keeps": group.keeps.value,
                "layers": group.layers,
                "block_size": group.block_size,
                "span_tokens": group.span_tokens,
                "state_blocks": group.state_blocks,
            }
            for group in ledger.layout.groups
        ],
        "stages": [_stage(one) for one in ledger.ranks],
        "provenance": dict(ledger.provenance),
    }


def _of_pools(pools: SglangPools, model: Model | None, gpu: str | None) -> Document:
    tokens = pools.kv_cache_tokens
    longest = max(0, tokens.likely)
    return {
        "engine": "sglang",
        "vllm_version": None,
        "gpu": gpu,
        "model": None if model is None else model.name,
        "tensor_parallel_size": pools.tensor_parallel_size,
        "pipeline_parallel_size": pools.pipeline_parallel_size,
        "data_parallel_size": pools.replicas,
        "mem_fraction_static": pools.mem_fraction_static,
        "max_model_len": pools.context_length,
        "largest_max_model_len": longest,
        "estimated_max_model_len": longest,
        "num_gpu_blocks": None,
        **_span("kv_cache_tokens", tokens),
        "capacity_tokens": tokens.likely,
        "window_tokens": pools.window_tokens,
        "state_slots": pools.state_slots,
        "state_pool_bytes": pools.state_pool_bytes,
        "max_running_requests": pools.max_running_requests,
        "total_visible_bytes": pools.total_visible_bytes,
        **_span("kv_bytes", pools.kv_bytes),
    }


def _span(key: str, span: ByteRange) -> dict[str, int]:
    return {key: span.likely, f"{key}_low": span.low, f"{key}_high": span.high}


def _limits(found: RequestLimits) -> Document:
    return {
        "tokens": found.tokens,
        "blocks": found.blocks,
        "binding": found.binding.name,
        "requests": {limit.name: limit.requests for limit in found.limits},
    }


def _stage(rank: RankMemory) -> Document:
    return {
        "gpu": rank.gpu,
        "first_layer": rank.layers.start,
        "last_layer": rank.layers.stop - 1,
        "weight_bytes": rank.weight_bytes,
        **_span("kv_bytes", rank.kv_bytes),
        **_span("num_gpu_blocks", rank.blocks),
    }


def _remedy(remedy: Remedy) -> Document:
    return {
        "flag": remedy.flag,
        "costs": remedy.costs,
        "max_concurrency": remedy.max_concurrency,
        "max_model_len": remedy.max_model_len,
    }
