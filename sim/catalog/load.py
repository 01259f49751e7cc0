"""Finds the model that a name or a path means.

A name is looked up as it stands, then without what does not change a shape: the organisation, -Instruct and its
like, and a quantisation, which sets the weight scheme. Nothing else is stripped and no size is ever guessed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from sim.catalog.config import Keys, max_positions, read_config, read_config_file
from sim.catalog.entries import find_entry, fold, index_of, names_in
from sim.catalog.model import Model
from sim.catalog.weight_scheme import WeightScheme, weight_scheme
from sim.errors import CatalogError, MemoryLedgerError

_FILE = "models.yaml"
_ENTRY_KEYS = {"name", "aliases", "source", "weight_dtype", "checkpoint_gib"}
_GIB = 2**30
_LONGEST_NAME = 100

# Longest first where one ends with another. Values are weight_dtype names.
_QUANTISED: tuple[tuple[str, str], ...] = (
    (r"(qat-)?(int4-)?w4a16-ct", "w4a16"),
    (r"quantized\.w4a16", "w4a16"),
    (r"quantized\.w8a8", "w8a8"),
    (r"quantized\.w8a16", "w8a16"),
    (r"(qat-)?w4a16(-g128)?", "w4a16"),
    (r"w8a16", "w8a16"),
    (r"w8a8", "w8a8"),
    (r"awq(-(4bit|int4|w4a16|marlin))?", "awq"),
    (r"gptq(-(4bit|int4))?", "gptq-int4"),
    (r"gptq-(8bit|int8)", "gptq-int8"),
    (r"(int4-)?autoround(-int4)?(-(awq|gptq))?", "int4-autoround"),
    (r"(unsloth-)?bnb-(4bit|nf4)", "bnb-4bit"),
    (r"bnb-8bit", "bnb-8bit"),
    (r"fp8(-(dynamic|static|kv|block|static-pertensor|e4m3))?", "fp8"),
    (r"nvfp4(-(v\d|fp8|kv|a16|w4a16))?", "nvfp4"),
    (r"mxfp4(-(moe|a16))?", "mxfp4"),
    (r"int8|8bit", "int8"),
    (r"int4|4bit", "w4a16"),
    (r"(bf16|fp16|bfloat16|float16)", "bf16"),
)
_PLAIN = re.compile(
    r"(instruct|it|chat|base|thinking|reasoning|pt|hf|sft|dpo|preview|ct|qat|original|text|unsloth|abliterated|mlx"
    r"|v\d+(\.\d+)?|\d{4}|\d{6}|\d{8}|q4_0-unquantized)",
    re.IGNORECASE,
)
_QUANTISED_PATTERNS = tuple((re.compile(rf"^(.+?)[-_.](?:{end})$", re.IGNORECASE), dtype) for end, dtype in _QUANTISED)


_WITH_KV_SCALES = ("fp8", "nvfp4")


def model_names() -> tuple[str, ...]:
    """Return the catalogued names, without aliases."""
    return names_in(_FILE)


def load_model(name_or_path: str | Path) -> Model:
    """Return a catalogued model, or the one a Hugging Face config.json (or the folder it is in) describes.

    Raises CatalogError for an unknown name, with the nearest valid one, and for a config.json that is broken
    or not modelled, with its key.
    """
    path = Path(name_or_path)
    if path.suffix == ".json" or isinstance(name_or_path, Path) or _is_folder(path):
        return _from_file(path)
    return _from_name(name_or_path)


def with_overrides(model: Model, overrides: Mapping[str, Any]) -> Model:
    """Return a model with the lengths that overrides of its config give: max_position_embeddings, rope scaling.

    Raises CatalogError for values that cannot be.
    """
    inner = overrides.get("text_config")
    config = dict(overrides) | (inner if isinstance(inner, dict) else {})
    keys = Keys("--hf-overrides", {"max_position_embeddings": model.max_position_embeddings} | config)
    return replace(model, max_position_embeddings=max_positions(keys))


def catalogued_model(name: str) -> Model:
    """Return the model of exactly that name or alias: nothing is stripped, and no path is tried.

    Raises CatalogError for an unknown name, with the nearest valid one.
    """
    return _from_entry(find_entry(_FILE, "model", name)["name"])


def _from_file(path: Path) -> Model:
    where, config, checkpoint_bytes = read_config_file(path)
    given = config.get("_name_or_path")
    called = given.rstrip("/").rpartition("/")[2] if isinstance(given, str) and given.isprintable() else ""
    name = called[:_LONGEST_NAME] or Path(where).resolve().parent.name or "config.json"
    model = _model(name=name, checkpoint_bytes=checkpoint_bytes, shape_from="config.json", **read_config(where, config))
    own = model.weight_bytes("bf16")
    if checkpoint_bytes is not None and not own / 8 < checkpoint_bytes < 3 * own:
        raise CatalogError(
            f"{where}: {checkpoint_bytes} bytes of model.safetensors.index.json (metadata.total_size) cannot be the "
            f"{model.total_params} weights that the config describes"
        )
    return model


def _from_name(name: str) -> Model:
    for bare, scheme in _readings("-".join(name.split())):
        entry = index_of(_FILE).get(fold(bare))
        if entry is None:
            continue
        model = _from_entry(entry["name"])
        if fold(bare) == fold(name) and scheme is None:
            return model
        return _with_fp8_kv(name, _read_as(model, scheme), scheme)
    if name.startswith(("/", "./", "../", "~")):
        raise CatalogError(f"model {name!r}: no such folder or config.json")
    return catalogued_model(name)  # says what is near


def _with_fp8_kv(name: str, model: Model, scheme: str | None) -> Model:
    """Return a model with the KV scales that NVIDIA's own fp8 and NVFP4 checkpoints bring: "auto" means fp8 then."""
    if scheme not in _WITH_KV_SCALES or not name.lower().startswith("nvidia/"):
        return model
    return replace(model, kv_cache_dtype="fp8", read_as=f"{model.read_as}, and fp8 KV as NVIDIA's checkpoints have it")


def _read_as(model: Model, dtype: str | None) -> Model:
    if dtype is None:
        return replace(model, read_as=f"{model.name}, from the name")
    scheme = _scheme_for(model, dtype)
    said = f"{model.name} with {scheme.name} weights, from the name"
    return replace(model, read_as=said, scheme=scheme, weight_dtype=scheme.kernel_dtype, checkpoint_bytes=None)


def _scheme_for(model: Model, dtype: str) -> WeightScheme:
    """Return the model's own scheme where it is of that sort, since it knows what it leaves out."""
    wanted = weight_scheme(dtype)
    own = model.scheme
    return own if own is not None and own.kernel_dtype == wanted.kernel_dtype else wanted


def _readings(name: str) -> Iterator[tuple[str, str | None]]:
    """Yield what a name may mean, the closest first: bare name, and weight_dtype if one was stripped."""
    yield name, None
    bare, dtype = name.rpartition("/")[2], None
    while bare:
        yield bare, dtype
        found = next(((m.group(1), kind) for p, kind in _QUANTISED_PATTERNS if (m := p.match(bare))), None)
        if found is not None and dtype is None:
            bare, dtype = found
            continue
        rest, _, last = bare.rpartition("-")
        if not rest or not _PLAIN.fullmatch(last):
            return
        bare = rest


@lru_cache(maxsize=256)
def _from_entry(name: str) -> Model:
    entry = index_of(_FILE)[fold(name)]
    source = entry["source"]
    try:
        config = {key: _expanded(key, value) for key, value in entry.items() if key not in _ENTRY_KEYS}
        fields: dict[str, Any] = read_config(f"models.yaml, {name}", config) | {"source": source}
        checkpoint_gib = entry.get("checkpoint_gib")
        model = _model(
            name=name, checkpoint_bytes=None if checkpoint_gib is None else round(checkpoint_gib * _GIB), **fields
        )
        dtype = entry.get("weight_dtype")
        scheme = None if dtype is None else weight_scheme(dtype)
    except MemoryLedgerError as error:
        raise CatalogError(f"models.yaml, {name}: {error}") from None
    return model if scheme is None else replace(model, scheme=scheme, weight_dtype=scheme.kernel_dtype)


def _model(**fields: Any) -> Model:
    """Return the model of these fields, without a body where its sizes say the same."""
    model = Model(**fields)
    uniform = replace(model, body=())
    return uniform if uniform.layers == model.layers else model


def _expanded(key: str, value: Any) -> Any:
    """Return a list written as repeats, `[{repeat: 9, of: [a, b]}, c]`, in full; other values as they are."""
    if not isinstance(value, list) or not any(isinstance(part, dict) and "repeat" in part for part in value):
        return value
    found: list[Any] = []
    for part in value:
        if not isinstance(part, dict):
            found.append(part)
        elif part.keys() == {"repeat", "of"} and isinstance(part["of"], list) and isinstance(part["repeat"], int):
            found += part["of"] * part["repeat"]
        else:
            raise CatalogError(f"models.yaml: {key} must be of {{repeat: N, of: [...]}}, not {part!r}")
    return found


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
