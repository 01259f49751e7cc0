"""Reads a Hugging Face config.json into the fields of a Model, or says why it is not modelled.

Only families whose class defaults are known are accepted: a config.json leaves out what its class presets,
and a preset sliding window that nobody sees would make the KV cache look two to ten times too large.
"""

import json
from pathlib import Path
from typing import Any

from sim.errors import CatalogError

# Families with gated MLPs and, once the checks below pass, full attention in every layer.
_FAMILIES = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe")
# Families whose class presets a sliding window when config.json does not say there is none.
_WINDOW_BY_DEFAULT = ("mistral",)
_NOT_MODELLED = {
    "kv_lora_rank": "latent attention (MLA)",
    "attention_chunk_size": "chunked local attention",
    "full_attention_interval": "a mix of full and linear attention",
    "attn_layer_period": "a mix of attention and recurrent layers",
    "hybrid_override_pattern": "a mix of attention and recurrent layers",
    "layers_block_type": "a mix of attention and recurrent layers",
    "ssm_cfg": "recurrent layers",
    "state_size": "recurrent layers",
    "n_shared_experts": "shared experts",
    "shared_expert_intermediate_size": "shared experts",
    "first_k_dense_replace": "a mix of dense and expert layers",
    "mlp_only_layers": "a mix of dense and expert layers",
    "text_config": "a multimodal model",
}
_REQUIRED = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
)


def read_hf_config(path: Path) -> dict[str, Any]:
    """Return the Model fields that the config.json at `path`, or in the folder `path`, describes.

    Raises CatalogError, naming the file and the key, for a file that cannot be read, lacks a key, or
    describes anything but uniform full attention.
    """
    file = path / "config.json" if path.is_dir() else path
    config = _parse(file)
    _refuse_what_is_not_modelled(file, config)
    for key in _REQUIRED:
        if config.get(key) is None:
            raise CatalogError(f"{file}: {key} is missing")
    fields: dict[str, Any] = {key: config[key] for key in _REQUIRED}
    heads = fields["num_attention_heads"]
    fields["num_key_value_heads"] = _key_value_heads(file, config)
    fields["head_dim"] = _head_dim(file, config, heads)
    fields["tie_word_embeddings"] = _flag(file, config, "tie_word_embeddings")
    fields["weight_dtype"] = _weight_dtype(file, config)
    fields["name"] = str(config.get("_name_or_path") or file.resolve().parent.name)
    fields["source"] = str(file)
    fields["qk_norm"] = str(config.get("model_type", "")).startswith("qwen3")
    return fields | _experts(file, config)


def _parse(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CatalogError(f"{file}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise CatalogError(f"{file}: is not JSON ({error})") from error
    if not isinstance(config, dict):
        raise CatalogError(f"{file}: must hold one JSON object, not {type(config).__name__}")
    return config


def _refuse_what_is_not_modelled(file: Path, config: dict[str, Any]) -> None:
    for key, value in config.items():
        if key.startswith(("mamba_", "ssm_", "linear_")) and value:
            raise CatalogError(f"{file}: {key} means recurrent layers, not modelled yet")
        if key in _NOT_MODELLED and value:
            raise CatalogError(f"{file}: {key} means {_NOT_MODELLED[key]}, not modelled yet")
    family = config.get("model_type", "llama")
    if family not in _FAMILIES:
        raise CatalogError(f"{file}: model_type {family!r} is not modelled yet; modelled: {', '.join(_FAMILIES)}")
    layers = config.get("layer_types") or []
    if not isinstance(layers, list):
        raise CatalogError(f"{file}: layer_types {layers!r} must be a list")
    kinds = {str(kind) for kind in layers} - {"full_attention"}
    if kinds:
        raise CatalogError(f"{file}: layer_types {', '.join(sorted(kinds))} not modelled yet")
    if config.get("decoder_sparse_step", 1) != 1:
        raise CatalogError(f"{file}: decoder_sparse_step means a mix of dense and expert layers, not modelled yet")
    if family in _WINDOW_BY_DEFAULT and "sliding_window" not in config:
        raise CatalogError(
            f"{file}: sliding_window is missing and a {family} has one by default, not modelled yet; "
            "write null if there is none"
        )
    qwen = family.startswith("qwen")  # has a switch for its window, off by default
    if config.get("sliding_window") and config.get("use_sliding_window", not qwen):
        raise CatalogError(f"{file}: sliding_window {config['sliding_window']!r} is not modelled yet")


def _key_value_heads(file: Path, config: dict[str, Any]) -> Any:
    if config.get("num_key_value_heads") is not None:
        return config["num_key_value_heads"]
    if config.get("model_type", "llama") != "llama":
        raise CatalogError(f"{file}: num_key_value_heads is missing")
    return config["num_attention_heads"]  # plain multi-head attention, as the Llama class reads it


def _head_dim(file: Path, config: dict[str, Any], heads: Any) -> Any:
    if config.get("head_dim") is not None:
        return config["head_dim"]
    hidden = config["hidden_size"]
    if config.get("model_type") in {"qwen3", "qwen3_moe"}:
        raise CatalogError(f"{file}: head_dim is missing, and a Qwen3 does not derive it from hidden_size")
    if not isinstance(hidden, int) or not isinstance(heads, int) or heads < 1 or hidden % heads:
        raise CatalogError(f"{file}: head_dim is missing and hidden_size {hidden!r} / {heads!r} heads is not whole")
    return hidden // heads


def _flag(file: Path, config: dict[str, Any], key: str) -> bool:
    value = config.get(key, False)
    if not isinstance(value, bool):
        raise CatalogError(f"{file}: {key} {value!r} must be true or false")
    return value


def _weight_dtype(file: Path, config: dict[str, Any]) -> str:
    quantization = config.get("quantization_config")
    if not quantization:
        return "bf16"
    settings = quantization if isinstance(quantization, dict) else {}
    method = settings.get("quant_method")
    if method == "fp8":
        return "fp8"
    if method in {"awq", "gptq"} and settings.get("bits") == 4:
        return "int4"
    raise CatalogError(f"{file}: quantization_config {method!r} is not modelled yet; remove it and set weight_dtype")


def _experts(file: Path, config: dict[str, Any]) -> dict[str, Any]:
    count = config.get("num_local_experts") or config.get("num_experts")
    if not count:
        return {}
    if config.get("num_experts_per_tok") is None:
        raise CatalogError(f"{file}: num_experts_per_tok is missing")
    return {
        "num_experts": count,
        "num_experts_per_tok": config["num_experts_per_tok"],
        "moe_intermediate_size": config.get("moe_intermediate_size") or config["intermediate_size"],
    }
