"""All formats by name; the first that recognises a file reads it. Adding one is a file with a `FORMAT`, and a line."""

from workloads.traces import agentic_rows, bailian, mooncake, tracelab_csv, tracelab_jsonl, vidur, weka
from workloads.traces.format import Format

_MODULES = (mooncake, agentic_rows, bailian, weka, tracelab_csv, tracelab_jsonl, vidur)

FORMATS: dict[str, Format] = {module.FORMAT.name: module.FORMAT for module in _MODULES}
