"""The engine's settings: as it resolved them first, then as the user gave them, then as single lines say."""

import math
from collections.abc import Iterable, Mapping

from sim.startup_log.errors import StartupLogError
from sim.startup_log.fields import Setting
from sim.startup_log.start import Start

_MOST = 10**12  # tokens, sequences, ranks


def settings_of(start: Start) -> dict[str, object]:
    """Return the settings under the names of StartupFacts; raise StartupLogError for a number that cannot be."""
    return _sglang(start) if "sglang" in start.engines else _vllm(start)


def _vllm(start: Start) -> dict[str, object]:
    config, args = start.engine_config, start.user_args
    both = (config, args)
    return {
        "model": _text(config.get("model"), args.get("model"), args.get("model_tag"), *start.all_of("model")),
        "dtype": _dtype(config.get("dtype"), args.get("dtype")),
        "quantization": _text(config.get("quantization"), args.get("quantization")),
        "kv_cache_dtype": _text(config.get("kv_cache_dtype"), args.get("kv_cache_dtype")),
        "max_model_len": _first(start.all_of("auto_fit_to_tokens"))
        or _count(start, "max_seq_len", config)
        or _first(start.all_of("max_model_len"))
        or _count(start, "max_model_len", args)
        or _first(start.all_of("concurrency_at_tokens")),
        "tensor_parallel_size": _count(start, "tensor_parallel_size", *both),
        "pipeline_parallel_size": _count(start, "pipeline_parallel_size", *both),
        "data_parallel_size": _count(start, "data_parallel_size", *both),
        "enforce_eager": _flag("enforce_eager", *both),
        "enable_prefix_caching": _flag("enable_prefix_caching", *both),
        "max_num_batched_tokens": _first(start.all_of("max_num_batched_tokens"))
        or _count(start, "max_num_batched_tokens", *both),
        "max_num_seqs": _count(start, "max_num_seqs", *both),
        "block_size": _count(start, "block_size", *both),
        "gpu_memory_utilization": _share(start, "gpu_memory_utilization", *both),
    }


def _sglang(start: Start) -> dict[str, object]:
    args = start.user_args
    kv_cache_dtype = _text(args.get("kv_cache_dtype"))
    no_graphs, no_prefixes = _flag("disable_cuda_graph", args), _flag("disable_radix_cache", args)
    return {
        "model": _text(args.get("model_path")),
        "dtype": _dtype(*start.all_of("dtype"), args.get("dtype")),
        "quantization": _text(args.get("quantization")),
        "kv_cache_dtype": _dtype(*start.all_of("pool_dtype"), kv_cache_dtype)
        if kv_cache_dtype in {None, "auto"}
        else kv_cache_dtype,
        "max_model_len": _first(start.all_of("context_tokens")) or _count(start, "context_length", args),
        "tensor_parallel_size": _count(start, "tp_size", args),
        "pipeline_parallel_size": _count(start, "pp_size", args),
        "data_parallel_size": _count(start, "dp_size", args),
        "enforce_eager": no_graphs,
        "enable_prefix_caching": None if no_prefixes is None else not no_prefixes,
        "max_num_seqs": _first(start.all_of("max_running_requests")) or _count(start, "max_running_requests", args),
        "block_size": _count(start, "page_size", args),
        "mem_fraction_static": _share(start, "mem_fraction_static", args),
        "max_prefill_tokens": _first(start.all_of("max_prefill_tokens")) or _count(start, "max_prefill_tokens", args),
        "chunked_prefill_size": _first(start.all_of("chunked_prefill_size"))
        or _count(start, "chunked_prefill_size", args),
        "capped_running_requests": _first(start.all_of("capped_running_requests")),
    }


def _first(values: Iterable[object]) -> object:
    return next(iter(values), None)


def _text(*candidates: object) -> str | None:
    return next((value for value in candidates if isinstance(value, str) and value), None)


def _dtype(*candidates: object) -> str | None:
    text = _text(*candidates)
    return None if text is None else text.removeprefix("torch.")


def _flag(name: str, *sources: Mapping[str, Setting]) -> bool | None:
    return next((value for source in sources if isinstance(value := source.get(name), bool)), None)


def _numbers(start: Start, name: str, most: float, sources: Iterable[Mapping[str, Setting]]) -> Iterable[int | float]:
    for source in sources:
        value = source.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if math.isnan(value) or value > most:
            raise StartupLogError(f"{start.place}: {name} is {value:.4g} in the printed settings, more than can be")
        if value > 0:  # -1 stands for "choose yourself"
            yield value


def _count(start: Start, name: str, *sources: Mapping[str, Setting]) -> int | None:
    return next((value for value in _numbers(start, name, _MOST, sources) if isinstance(value, int)), None)


def _share(start: Start, name: str, *sources: Mapping[str, Setting]) -> float | None:
    return next((float(value) for value in _numbers(start, name, 2, sources)), None)
