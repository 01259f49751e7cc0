"""From a start command to the question it puts to the ledger."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from sim.catalog import Gpu, Model, load_gpu, load_model, with_overrides
from sim.errors import MemoryLedgerError
from sim.memory import MemorySettings, SglangSettings
from sim.memory.settings import AUTO_FIT
from sim.memory.versions import NEWEST_KNOWN_VLLM, parse_version
from sim.memory_request.request import MemoryRequest
from sim.serve_command import ServeCommand

_QUANTIZED = {  # vLLM's and SGLang's --quantization, as the catalog calls such weights
    "fp8": "fp8",
    "ptpc_fp8": "fp8",
    "w8a8_fp8": "fp8",
    "w8a8_int8": "int8",
    "awq": "awq",
    "awq_marlin": "awq",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
    "bitsandbytes": "bnb-4bit",
    "mxfp4": "mxfp4",
    "modelopt_fp4": "nvfp4",
    "modelopt_fp8": "fp8",
}
_KV_TYPES = {"fp4_e2m1": "nvfp4", "fp4_mx_block16": "nvfp4", "mxfp8": "fp8"}  # SGLang's names
_LENGTHS = {"max_position_embeddings", "rope_scaling", "rope_parameters"}  # these are applied: see with_overrides
_SIZED_BY_HAND = {"num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size"}


def request_of_command(
    command: ServeCommand, gpu: str, gpu_count: int | None = None, own: Mapping[str, Any] | None = None
) -> MemoryRequest:
    """Return what a command asks on a GPU of that name (several, joined by commas: one for each pipeline stage).

    `own` are settings of the ledger that no engine has a flag for; they go before the command. Raises CatalogError
    for an unknown GPU or model, with the nearest name, and MemoryLedgerError for settings that cannot be.
    """
    if command.model is None:
        raise MemoryLedgerError("the command names no model: give it as the first word after serve, or with --model")
    model = with_overrides(load_model(command.model), command.hf_overrides or {})
    notes = [*command.notes]
    settings = flag_settings(command, model, notes) | dict(own or {})
    sglang = _sglang(command) if command.engine == "sglang" else None
    if sglang is not None:
        settings.setdefault("block_size", 1)
    request = MemoryRequest(
        gpus=gpus_of(gpu),
        model=model,
        settings=MemorySettings(**settings),
        sglang=sglang,
        gpu_count=gpu_count,
        ignored=command.ignored,
    )
    return with_remarks(replace(request, notes=tuple(notes)))


def with_remarks(request: MemoryRequest) -> MemoryRequest:
    """Return the question with what the user should know of it as a whole."""
    return replace(request, notes=(*request.notes, *_remarks(request)))


def _remarks(request: MemoryRequest) -> Iterator[str]:
    longest, positions = request.settings.max_model_len, request.model.max_position_embeddings
    if longest is not None and longest > positions:
        vllm, sglang = "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"
        switch = vllm if request.sglang is None else sglang
        yield f"{longest:,} tokens are more than the model's own {positions:,}: that wants rope scaling, or {switch}"
    version = request.settings.vllm_version
    if request.sglang is None and parse_version(version) > parse_version(NEWEST_KNOWN_VLLM):
        yield f"vLLM {version} is newer than the rules known here, which end at {NEWEST_KNOWN_VLLM}"
    block = request.settings.block_size
    if request.sglang is None and block % 16:
        yield f"a block_size of {block} is no multiple of 16, which most attention backends ask for"
    if request.sglang is not None and request.settings.enable_lora:
        yield "LoRA adapters are not accounted for under SGLang"
    if request.gpu_count is not None and request.ranks < request.gpu_count:
        yield f"uses {request.ranks} of {request.gpu_count} GPUs: no flag spreads the model over the others"


def gpus_of(names: str) -> tuple[Gpu, ...]:
    """Return the GPUs of a name, or of several joined by commas."""
    return tuple(load_gpu(name.strip()) for name in names.split(","))


def flag_settings(command: ServeCommand, model: Model, notes: list[str]) -> dict[str, Any]:
    """Return the ledger's settings that a command's flags state; `notes` gets what the user should know of them."""
    same = {field.name for field in fields(MemorySettings)}
    settings = {
        field.name: value
        for field in fields(command)
        if field.name in same and (value := getattr(command, field.name)) is not None
    }
    if settings.get("max_model_len") == "auto":
        settings["max_model_len"] = AUTO_FIT
    if command.engine == "vllm" and command.engine_version is not None:
        settings["vllm_version"] = command.engine_version
    if command.cudagraph_mode == "NONE" or command.optimization_level == 0:
        settings["enforce_eager"] = True  # as far as graphs go
    if command.mamba_block_size is not None:
        notes.append("--mamba-block-size is not accounted for")
    if command.pp_layer_partition is not None:
        settings["pipeline_layers"] = command.pp_layer_partition
    if command.attention_data_parallel_size is not None:
        settings["data_parallel_size"] = command.attention_data_parallel_size
    if command.speculative is not None:
        draft = command.speculative
        settings |= {
            "speculative_method": None if draft.method is None else draft.method.lower(),
            "num_speculative_tokens": draft.num_speculative_tokens or 1,
            "draft_model": draft.model,
        }
    limits = command.limit_mm_per_prompt
    if limits and not any(limits.values()):
        settings["language_model_only"] = True
    if settings.get("mamba_ssm_cache_dtype") is None and command.mamba_cache_dtype is not None:
        settings["mamba_ssm_cache_dtype"] = command.mamba_cache_dtype
    settings |= _types(command, model)
    _check_overrides(command.hf_overrides or {}, notes)
    return settings


def _types(command: ServeCommand, model: Model) -> dict[str, Any]:
    """Return the types of weights and KV, where flags change what the checkpoint says."""
    found: dict[str, Any] = {}
    if command.kv_cache_dtype in _KV_TYPES:
        found["kv_cache_dtype"] = _KV_TYPES[command.kv_cache_dtype]
    found |= types_of(command.quantization, model, strict=True)
    if command.dtype in {"float32", "float"}:
        found |= {"weight_dtype": "fp32"} | (
            {} if command.kv_cache_dtype not in {None, "auto"} else {"kv_cache_dtype": "fp32"}
        )
    return found


def types_of(quantization: str | None, model: Model, *, strict: bool = False) -> dict[str, Any]:
    """Return the weight type that an engine's quantization means for a checkpoint that does not say so itself.

    Raises MemoryLedgerError for an unknown one if `strict`.
    """
    kind = (quantization or "").lower()
    if model.scheme is not None or kind in {"", "none"}:
        return {}
    if kind in _QUANTIZED:
        return {"weight_dtype": _QUANTIZED[kind]}
    if not strict:
        return {}
    raise MemoryLedgerError(
        f"--quantization {kind}: {model.name} is read as a 16-bit checkpoint; name the quantised one, "
        f"or say what its weights are with --weight-dtype; known here: {', '.join(sorted(_QUANTIZED))}"
    )


def _check_overrides(overrides: Mapping[str, Any], notes: list[str]) -> None:
    """Refuse overrides of the config's sizes: they would change the memory, and are not applied."""
    for key, value in overrides.items():
        inner = set(value) if isinstance(value, dict) else set()
        if sized := sorted(({key} | inner) & _SIZED_BY_HAND):
            raise MemoryLedgerError(
                f"--hf-overrides changes {sized[0]}: write it into a config.json and give that as the model"
            )
    if others := sorted(set(overrides) - _LENGTHS):
        notes.append(f"--hf-overrides {', '.join(others)}: taken to leave memory as it is")


def _sglang(command: ServeCommand) -> SglangSettings:
    names: Sequence[str] = [field.name for field in fields(SglangSettings)]
    given = {name: getattr(command, name) for name in names if getattr(command, name, None) is not None}
    if command.max_cudagraph_capture_size is not None:
        given["cuda_graph_max_bs"] = command.max_cudagraph_capture_size
    if command.enable_prefix_caching is False:
        given["disable_radix_cache"] = True
    if command.disable_hybrid_kv_cache_manager:
        given["disable_hybrid_swa_memory"] = True
    return SglangSettings(**given)
