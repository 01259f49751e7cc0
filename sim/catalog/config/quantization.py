"""How a checkpoint's weights are stored, as quantization_config or modelopt's hf_quant_config.json says it."""

import json
from collections.abc import Callable
from typing import Any

from sim.catalog.config.keys import Keys, shown
from sim.catalog.module_names import Rule, is_expression, is_quick
from sim.catalog.weight_scheme import BITS16, SCHEMES, WeightScheme
from sim.errors import one_of

_KEPT = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "exclude", "llm_int8_skip_modules")
_MOST_EXPRESSIONS = 2000  # published lists have hundreds
_LONGEST_METHOD = 40
_AFFINE_BITS = 20  # a 16-bit scale and a 4-bit zero point a group
_ALGORITHMS = {"FP8": "fp8", "FP8_PB_WO": "fp8-block", "NVFP4": "nvfp4", "W4A16_NVFP4": "nvfp4", "W4A16_AWQ": "w4a16"}
_ALGORITHMS |= {"W8A8_SQ_PER_CHANNEL": "w8a8", "MXFP8": "fp8-block", "NVFP4_AWQ": "nvfp4"}


def weight_scheme_of(keys: Keys) -> WeightScheme | None:
    """Return the scheme of a config, or None for plain 16-bit weights.

    Raises CatalogError for a method that is not known.
    """
    config = keys.part("quantization_config")
    if config is None or not config.values:
        return None
    method = config.text("quant_method") or ("modelopt" if "quant_algo" in config else None)
    if method not in _METHODS:
        known = one_of(method[:_LONGEST_METHOD], _METHODS) if method else "is missing"
        raise config.broken("quant_method", f"{known}; remove quantization_config and set weight_dtype")
    return _METHODS[method](config.part("quantization") or config)


def kv_cache_dtype_of(keys: Keys) -> str | None:
    """Return the KV type that `auto` means for this checkpoint, where it brings scales of its own."""
    config = keys.part("quantization_config")
    if config is None:
        return None
    config = config.part("quantization") or config
    algorithm = config.text("kv_cache_quant_algo")
    if algorithm:
        return algorithm.lower() if algorithm.upper() in {"FP8", "NVFP4"} else None
    if isinstance(config.values.get("kv_cache_scheme"), str):
        return "fp8" if "fp8" in str(config.text("kv_cache_scheme")).lower() else None
    scheme = config.part("kv_cache_scheme")
    eight_bit = scheme is not None and scheme.size("num_bits") == 8 and scheme.text("type") in {"float", None}
    return "fp8" if eight_bit else None


def _kept(config: Keys) -> tuple[Rule, ...]:
    for key in _KEPT:
        if key in config:
            return tuple(Rule(pattern, BITS16) for pattern in _patterns(config, key))
    return ()


def _patterns(config: Keys, key: str) -> list[str]:
    """Return a list of module names that can be matched in good time."""
    found = config.items(key, str)
    if sum(map(is_expression, found)) > _MOST_EXPRESSIONS:
        raise config.broken(key, f"has more than {_MOST_EXPRESSIONS} patterns")
    slow = next((pattern for pattern in found if not is_quick(pattern)), None)
    if slow is not None:
        raise config.broken(key, f"holds {shown(slow)}, which repeats too much to be matched")
    return found


def _fp8(config: Keys) -> WeightScheme:
    block = config.items("weight_block_size", int)
    if not block:
        return WeightScheme("fp8", "fp8", 8.0, _kept(config))
    if len(block) != 2 or min(block) < 1:
        raise config.broken("weight_block_size", f"{shown(block)} must be two whole numbers above 0")
    return WeightScheme("fp8-block", "fp8", 8.0 + 32 / (block[0] * block[1]), _kept(config))


def _affine(name: str) -> Callable[[Keys], WeightScheme]:
    """Read bits and group_size; AWQ takes a little more than the sum once its kernels have repacked it."""

    def read(config: Keys) -> WeightScheme:
        bits = config.count_or_none("bits", "w_bit") or 4
        group = _group_size(config, "group_size")
        scales = _AFFINE_BITS / group if group else 0.0
        if name == "awq":
            scales += SCHEMES["awq"].bits - (4 + _AFFINE_BITS / 128)
        label = name if bits == 4 and name == "awq" else f"{name}-int{bits}"
        return WeightScheme(label, "int8" if bits == 8 else "int4", bits + scales, _kept(config))

    return read


def _compressed_tensors(config: Keys) -> WeightScheme:
    groups = config.part("config_groups")
    found = [] if groups is None else [groups.part(name) for name in groups.values]
    schemes = [(_group(group), _patterns(group, "targets")) for group in found if group is not None]
    if not schemes:
        return WeightScheme("bf16", "bf16", BITS16)
    named = tuple(Rule(target, scheme.bits) for scheme, targets in schemes for target in targets if _is_name(target))
    main = next((scheme for scheme, targets in schemes if "Linear" in targets), None)
    label = main or max((scheme for scheme, _ in schemes), key=lambda scheme: scheme.bits)
    bits = BITS16 if main is None else main.bits
    return WeightScheme(label.name, label.kernel_dtype, bits, (*_kept(config), *named), label.pads_experts)


def _group(group: Keys) -> WeightScheme:
    weights = group.part("weights")
    if weights is None:
        return SCHEMES["bf16"]
    bits, kind = weights.count("num_bits"), weights.text("type") or "int"
    size = _group_size(weights, "group_size")
    if kind == "float":
        if bits == 4:
            return SCHEMES["mxfp4" if size == 32 else "nvfp4"]
        return SCHEMES["fp8-block" if weights.text("strategy") == "block" else "fp8"]
    activations = group.part("input_activations")
    name = f"w{bits}a{16 if activations is None else activations.count('num_bits')}"
    return WeightScheme(name, "int8" if bits == 8 else "int4", bits + (BITS16 / size if size else 0))


def _modelopt(config: Keys) -> WeightScheme:
    listed = config.part("quantized_layers")
    if listed is not None and listed.values:
        rules = tuple(Rule(name, _algorithm(listed.part(name)).bits) for name in listed.values)
        return WeightScheme("mixed", "fp8", BITS16, (*_kept(config), *rules))
    if "quant_algo" not in config:
        return _compressed_tensors(config)
    scheme = _algorithm(config)
    return WeightScheme(scheme.name, scheme.kernel_dtype, scheme.bits, _kept(config))


def _algorithm(config: Keys | None) -> WeightScheme:
    name = "" if config is None else config.text("quant_algo") or ""
    if name.upper() not in _ALGORITHMS:
        assert config is not None or not name
        where = config or Keys("quantized_layers", {})
        raise where.broken("quant_algo", one_of(name[:_LONGEST_METHOD], _ALGORITHMS))
    return SCHEMES[_ALGORITHMS[name.upper()]]


def _mxfp4(config: Keys) -> WeightScheme:
    """Read gpt-oss: the experts alone are in 4 bits."""
    scheme = SCHEMES["mxfp4"]
    return WeightScheme(
        scheme.name, scheme.kernel_dtype, scheme.bits, (*_kept(config), *scheme.rules), pads_experts=True
    )


def _bitsandbytes(config: Keys) -> WeightScheme:
    scheme = SCHEMES["bnb-8bit" if config.flag("load_in_8bit") else "bnb-4bit"]
    return WeightScheme(scheme.name, scheme.kernel_dtype, scheme.bits, _kept(config))


def _by_words(config: Keys) -> WeightScheme:
    """Read torchao and Quark by the type their settings mention: theirs is a language of its own."""
    text = json.dumps(_weights_only(config.values), default=str).lower()
    for words, name in (
        (("fp4", "mxfp4"), "mxfp4"),
        (("int4", "uint4"), "w4a16"),
        (("int8", "uint8"), "int8"),
        (("float8", "fp8"), "fp8"),
    ):
        if any(word in text for word in words):
            scheme = SCHEMES[name]
            return WeightScheme(scheme.name, scheme.kernel_dtype, scheme.bits, _kept(config))
    raise config.broken("quant_method", "has settings that name no weight type; remove it and set weight_dtype")


def _weights_only(values: Any) -> Any:
    settings = values.get("global_quant_config") or values.get("quant_type") or values
    return settings.get("weight", settings) if isinstance(settings, dict) else settings


def _group_size(config: Keys, key: str) -> int:
    value = config.values.get(key)
    return 0 if value is None or (value == -1 and not isinstance(value, bool)) else config.count(key)


def _is_name(target: str) -> bool:
    return target not in {"Linear", "FusedMoE"}


_METHODS: dict[str, Callable[[Keys], WeightScheme]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "awq": _affine("awq"),
    "awq_marlin": _affine("awq"),
    "gptq": _affine("gptq"),
    "gptq_marlin": _affine("gptq"),
    "auto-round": _affine("autoround"),
    "intel/auto-round": _affine("autoround"),
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "mxfp4": _mxfp4,
    "bitsandbytes": _bitsandbytes,
    "torchao": _by_words,
    "quark": _by_words,
    "experts_int8": lambda config: WeightScheme("int8", "int8", 8.0, (*_kept(config), Rule("self_attn", BITS16))),
}
