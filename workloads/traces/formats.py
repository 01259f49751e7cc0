"""All formats by name; the first that recognises a file reads it. Adding one is a file with a `FORMAT`, and a line."""

from workloads.traces import (
    azure,
    blis,
    blis_trace,
    burstgpt,
    conversation_replay,
    lmcache,
    mooncake,
    otel,
    servegen,
    shared_prefix,
    vidur,
    vllm_multi_turn,
    workload_catalog,
)
from workloads.traces.format import Format

_MODULES = (
    mooncake,
    azure,
    burstgpt,
    vidur,
    servegen,
    lmcache,
    otel,
    vllm_multi_turn,
    conversation_replay,
    shared_prefix,
    blis_trace,
    blis,
    workload_catalog,
)

FORMATS: dict[str, Format] = {module.FORMAT.name: module.FORMAT for module in _MODULES}
