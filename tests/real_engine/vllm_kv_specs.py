"""Specs and configuration of a catalogued model for the real vLLM's KV layout, without loading the model.

Specs are built from the catalog's facts as vLLM 0.32's layers build them on Hopper. Stand-ins replace its configuration
objects, attention backends (blocks of any 16 tokens; 64 for MLA) and the model class. Used by record_kv_layouts.py.
"""

import contextlib
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from vllm.config.vllm import VllmConfig
from vllm.distributed.utils import get_pp_indices
from vllm.platforms.interface import Platform
from vllm.v1.attention.backend import MultipleOf
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    SparseCacheRole,
    get_kv_quant_mode,
)
from vllm.v1.kv_cache_layout import KVCacheLayout

from sim.catalog import Model
from sim.catalog.layers import AttentionKv, IndexerKv, KvKind, LatentKv, LayerKv, RecurrentState
from sim.memory import MemorySettings
from sim.memory.drafts import draft_layers

# Whose prefill writes states on its way.
CHECKPOINTED = ("granite-4.0-h", "NVIDIA-Nemotron", "Nemotron-H", "Falcon-H1", "Bamba", "Kimi-K3")


class _Config(SimpleNamespace):
    """vLLM's own derived limits over a stand-in configuration."""

    max_concurrent_batches = VllmConfig.max_concurrent_batches
    max_in_flight_tokens = VllmConfig.max_in_flight_tokens
    num_prefill_lookahead_tokens = VllmConfig.num_prefill_lookahead_tokens


def config_of(model: Model, settings: MemorySettings) -> Any:
    """Return a stand-in for VllmConfig with what the layout reads."""
    longest = model.max_position_embeddings if settings.max_model_len == -1 else settings.max_model_len
    recurrent = any(isinstance(kind, RecurrentState) for layer in model.kv_layers for kind in layer)
    drafts = settings.num_speculative_tokens or 0
    # vLLM disables the manager itself for chunks beside a draft.
    chunks = any(isinstance(kind, AttentionKv) and kind.chunk_tokens for layer in model.kv_layers for kind in layer)
    method = None
    if drafts:
        method = SimpleNamespace(
            method=settings.speculative_method,
            use_eagle=lambda: True,
            use_multi_module_mtp=lambda: min(len(model.mtp), drafts) > 1,
            use_dspark=lambda: False,
            use_dflash=lambda: False,
            use_eagle_block_drop=lambda: False,
            draft_model_config=None,
            num_speculative_tokens=drafts,
        )
    return _Config(
        model_config=SimpleNamespace(
            max_model_len=longest,
            original_max_model_len=settings.max_model_len,
            architecture="",
            dtype=torch.bfloat16,
            hf_config=SimpleNamespace(model_type=""),
        ),
        scheduler_config=SimpleNamespace(
            disable_hybrid_kv_cache_manager=settings.disable_hybrid_kv_cache_manager or bool(drafts and chunks),
            max_num_batched_tokens=settings.max_num_batched_tokens,
            async_scheduling=settings.async_scheduling,
        ),
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
            tensor_parallel_size=settings.tensor_parallel_size,
            pipeline_parallel_size=settings.pipeline_parallel_size,
        ),
        cache_config=SimpleNamespace(
            num_gpu_blocks_override=None,
            cache_dtype=settings.kv_cache_dtype,
            kv_cache_dtype_skip_layers=[],
            block_size=settings.block_size,
            mamba_page_size_padded=None,
            enable_prefix_caching=settings.enable_prefix_caching is not False,
            mamba_cache_mode="align" if recurrent and settings.enable_prefix_caching is not False else "none",
            mamba_block_size=longest,
            prefix_cache_retention_interval=None,
            get_resolved_kv_cache_layout=lambda: KVCacheLayout.LBNHC,
        ),
        device_config=SimpleNamespace(device_type="cuda"),
        attention_config=SimpleNamespace(hisparse_config=None),
        kv_transfer_config=None,
        speculative_config=method,
        num_speculative_tokens=drafts,
        use_v2_model_runner=True,
    )


class _Backend:
    """Attention with blocks of any so many tokens."""

    tokens: int = 16

    @classmethod
    def get_supported_kernel_block_sizes(cls) -> list[Any]:
        return [MultipleOf(cls.tokens)]

    @staticmethod
    def customize_spec(spec: Any) -> Any:
        return spec


class _LatentBackend(_Backend):
    tokens = 64


def specs_of(model: Model, settings: MemorySettings, config: Any) -> list[dict[str, KVCacheSpec]]:
    """Return the specs of each pipeline stage's layers; a draft's sit on the last."""
    layers: list[LayerKv] = [*model.kv_layers, *draft_layers(model, settings)]
    _align(model, layers, settings, config)
    stages = settings.pipeline_parallel_size
    partition = ",".join(map(str, settings.pipeline_layers))
    with mock.patch.dict(os.environ, {"VLLM_PP_LAYER_PARTITION": partition} if partition else {}):
        ends = [get_pp_indices(model.num_hidden_layers, stage, stages) for stage in range(stages)]
    ends[-1] = (ends[-1][0], len(layers))
    return [
        {
            f"model.layers.{number}.{part}": spec
            for number in range(first, end)
            for kind in layers[number]
            for part, spec in _of_layer(model, kind, layers[number], settings, config)
        }
        for first, end in ends
    ]


def _of_layer(
    model: Model, kind: KvKind, layer: LayerKv, settings: MemorySettings, config: Any
) -> Iterator[tuple[str, KVCacheSpec]]:
    cache = config.cache_config
    sparse = any(isinstance(other, IndexerKv) for other in layer)
    quantised = settings.kv_cache_dtype.startswith("fp8")
    common = {
        "block_size": cache.block_size,
        "dtype": torch.uint8 if quantised else torch.bfloat16,
        "kv_quant_mode": get_kv_quant_mode(settings.kv_cache_dtype),
    }
    match kind:
        case AttentionKv():
            common |= {
                "num_kv_heads": max(1, kind.kv_heads // settings.tensor_parallel_size),
                "head_size": kind.key_dim,
            }
            if kind.window_tokens is not None:
                yield "attn", SlidingWindowSpec(**common, head_size_v=kind.value_dim, sliding_window=kind.window_tokens)
            elif kind.chunk_tokens is not None:
                yield "attn", ChunkedLocalAttentionSpec(**common, attention_chunk_size=kind.chunk_tokens)
            else:
                yield "attn", FullAttentionSpec(**common, head_size_v=kind.value_dim)
        case LatentKv():
            # Sparse attention on Hopper has a format of its own.
            name = "fp8_ds_mla" if quantised and _is_sparse(model) else settings.kv_cache_dtype
            yield (
                "mla",
                MLAAttentionSpec(
                    **common,
                    num_kv_heads=1,
                    max_tp_shards=1,
                    head_size=kind.latent_dim + kind.rope_dim,
                    cache_dtype_str=name,
                    state_content_bytes=656 if name == "fp8_ds_mla" else None,
                    is_index_group_leader=sparse,
                ),
            )
        case IndexerKv():
            yield (
                "indexer",
                MLAAttentionSpec(
                    block_size=cache.block_size,
                    num_kv_heads=1,
                    max_tp_shards=1,
                    head_size=kind.key_dim + kind.key_dim // 128 * 4,
                    dtype=torch.uint8,
                    cache_role=SparseCacheRole.INDEXER,
                    block_stride_alignment=MultipleOf(64),
                ),
            )
        case RecurrentState():
            shapes, dtypes = _state(kind, settings)
            yield (
                "state",
                MambaSpec(
                    shapes=shapes,
                    dtypes=dtypes,
                    block_size=cache.mamba_block_size,
                    page_size_padded=cache.mamba_page_size_padded,
                    mamba_cache_mode=cache.mamba_cache_mode,
                    num_speculative_blocks=config.num_speculative_tokens,
                    num_prefill_checkpoint_blocks=int(model.name.startswith(CHECKPOINTED)),
                ),
            )


def _is_sparse(model: Model) -> bool:
    return any(isinstance(kind, IndexerKv) for layer in model.kv_layers for kind in layer)


def _state(state: RecurrentState, settings: MemorySettings) -> tuple[Any, Any]:
    ranks, steps = settings.tensor_parallel_size, state.conv_steps + (settings.num_speculative_tokens or 0)
    parts: list[tuple[tuple[int, ...], torch.dtype]] = []
    if state.conv_channels:
        parts.append(((steps, state.conv_channels // ranks), torch.bfloat16))
    if state.state_elements:
        wide = torch.float32 if state.state_dtype == "float32" else torch.bfloat16
        parts.append(((state.state_elements // ranks,), wide))
    return tuple(shape for shape, _ in parts), tuple(dtype for _, dtype in parts)


def _align(model: Model, layers: list[LayerKv], settings: MemorySettings, config: Any) -> None:
    """Let vLLM raise the attention block over the states, if there are any."""
    kinds = [kind for layer in layers for kind in layer]
    states = [kind for kind in kinds if isinstance(kind, RecurrentState)]
    attention = [kind for kind in kinds if isinstance(kind, (AttentionKv, LatentKv))]
    if not states or not attention:
        return
    first = attention[0]
    if isinstance(first, LatentKv):
        backend, heads, size = _LatentBackend, 1, first.latent_dim + first.rope_dim
    else:
        backend, heads, size = _Backend, max(1, first.kv_heads // settings.tensor_parallel_size), first.key_dim
    vars(config.model_config).update(
        use_mla=isinstance(first, LatentKv), get_num_kv_heads=lambda _: heads, get_head_size=lambda: size
    )
    shapes, dtypes = _state(states[0], settings)
    stand_in = SimpleNamespace(
        get_mamba_state_shape_from_config=lambda _: shapes, get_mamba_state_dtype_from_config=lambda _: dtypes
    )
    with (
        mock.patch("vllm.model_executor.models.ModelRegistry.resolve_model_cls", return_value=(stand_in, "")),
        mock.patch("vllm.config.vllm.set_current_vllm_config", return_value=contextlib.nullcontext()),
        mock.patch.object(Platform, "_find_non_ssm_backends", return_value=[backend]),
    ):
        Platform._align_hybrid_block_size(config, backend)
