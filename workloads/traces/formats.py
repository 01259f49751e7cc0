"""All formats by name; the first that recognises a file reads it. Adding one is a file with a `FORMAT`, and a line."""

from workloads.traces import (
    agentic_rows,
    azure,
    bailian,
    blis,
    blis_trace,
    burstgpt,
    conversation_replay,
    lmcache,
    mooncake,
    otel,
    servegen,
    shared_prefix,
    tracelab_csv,
    tracelab_jsonl,
    vidur,
    vllm_multi_turn,
    weka,
    workload_catalog,
)
from workloads.traces.format import Format

_MODULES = (
    mooncake,
    agentic_rows,
    bailian,
    weka,
    tracelab_csv,
    tracelab_jsonl,
    azure,
    burstgpt,
    vidur,
    servegen,
    lmcache,
    otel,
    vllm_multi_turn,
    conversation_replay,
    shared_prefix,
    workload_catalog,
    blis_trace,
    blis,
)

FORMATS: dict[str, Format] = {module.FORMAT.name: module.FORMAT for module in _MODULES}
