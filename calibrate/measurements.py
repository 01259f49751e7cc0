"""The measurement table: one timed thing a row, in SI units, whoever timed it. Everything that fits reads it.

A row says what ran (`operation`, and `part` of it), its size, on what, how long it took and where that was read.
Columns a row does not need stay empty. `COLUMNS` is the documentation: name, unit, meaning.
"""

from typing import NamedTuple


class Column(NamedTuple):
    """One column of the table."""

    name: str
    kind: str  # text | count | number
    unit: str
    meaning: str


OPERATIONS = {
    "gemm": "one linear layer (`part` qkv, o, gate_up, down): tokens x in_features times in_features x out_features",
    "prefill_attention": "one layer: `sequences` requests of new_tokens each on past_tokens each",
    "decode_attention": "one layer: `sequences` rows of a token on past_tokens each, shared_tokens of them in common",
    "mixed_attention": "one layer: prefill of new_tokens on past_tokens, and decode_rows on decode_past_tokens each",
    "elementwise": "norm, qk_norm, rotary, activation, residual, embedding or quantisation (`part`), by tokens",
    "head": "the output head, by sequences",
    "sampling": "from logits to token ids, by sequences",
    "moe": "the experts of one layer (in_features hidden, out_features one expert), by tokens and experts_active",
    "allreduce": "one all-reduce of bytes over tensor_parallel GPUs",
    "launch": "one kernel launch that does nothing; `graph` says how",
    "copy": "reading and writing bytes of device memory",
    "layer": "one whole layer: new_tokens over all requests, or `sequences` decode rows (`part` prefill or decode)",
    "step": "one whole forward pass with head and sampling",
    "peak_memory": "memory_bytes a full-budget step takes beyond weights and KV cache",
}
NEEDS = {  # columns an operation's rows cannot do without, besides gpu and time_s
    "gemm": ("tokens", "out_features", "in_features"),
    "prefill_attention": ("sequences", "new_tokens", "num_heads", "num_kv_heads", "head_dim"),
    "decode_attention": ("sequences", "past_tokens", "num_heads", "num_kv_heads", "head_dim"),
    "mixed_attention": ("new_tokens", "decode_rows", "num_heads", "num_kv_heads", "head_dim"),
    "elementwise": ("tokens",),
    "head": ("sequences",),
    "sampling": ("sequences",),
    "moe": ("tokens",),
    "allreduce": ("bytes", "tensor_parallel"),
    "launch": (),
    "copy": ("bytes",),
    "layer": ("part",),
    "step": ("tokens",),
    "peak_memory": ("memory_bytes",),
}
LABELS = ("measured", "emulated", "bound")  # emulated: other code did the same work; bound: computed from peaks

COLUMNS = (
    Column("operation", "text", "", "one of OPERATIONS"),
    Column("part", "text", "", "which linear layer, elementwise kernel or phase"),
    Column("label", "text", "", "measured, emulated (other code doing the same work) or bound (computed from peaks)"),
    Column("gpu", "text", "", "catalog name of the device"),
    Column("model", "text", "", "catalog name of the model whose shapes ran, where there is one"),
    Column("tensor_parallel", "count", "GPUs", "1 where empty"),
    Column("weight_dtype", "text", "", "fp32, bf16, fp16, fp8, fp8_block, int8, int4, mxfp4"),
    Column("kv_cache_dtype", "text", "", "bf16, fp8, int8, int4"),
    Column("graph", "text", "", "eager, cuda_graph or empty where not known"),
    Column("tokens", "count", "tokens", "rows of the batch: all new tokens of the step"),
    Column("sequences", "count", "sequences", "requests in the batch; for a step, those that prefill"),
    Column("new_tokens", "count", "tokens", "computed per prefilling request"),
    Column("past_tokens", "number", "tokens", "context per request before the new tokens"),
    Column("past_tokens_low", "number", "tokens", "least of it, where the rows differ or only a range is known"),
    Column("past_tokens_high", "number", "tokens", "most of it"),
    Column("shared_tokens", "count", "tokens", "context all rows have in common, in the same blocks"),
    Column("decode_rows", "count", "rows", "decode rows beside a prefill"),
    Column("decode_past_tokens", "number", "tokens", "context of each of those"),
    Column("out_features", "count", "elements", "n of a GEMM; width of an elementwise kernel"),
    Column("in_features", "count", "elements", "k of a GEMM"),
    Column("num_heads", "count", "heads", "query heads on one GPU"),
    Column("num_kv_heads", "count", "heads", "KV heads on one GPU"),
    Column("head_dim", "count", "elements", ""),
    Column("window", "count", "tokens", "sliding window; 0 or empty is full attention"),
    Column("experts", "count", "experts", ""),
    Column("experts_per_token", "count", "experts", ""),
    Column("experts_active", "number", "experts", "experts that any token of the batch meets"),
    Column("layers", "count", "layers", "layers in what was timed; 1 for one layer's operation"),
    Column("bytes", "number", "bytes", "moved by a copy or reduced by an all-reduce"),
    Column("time_s", "number", "s", "median over repeats"),
    Column("time_low_s", "number", "s", "lower end of the median's 95 % interval, where repeats allow one"),
    Column("time_high_s", "number", "s", "upper end"),
    Column("repeats", "count", "", "timings behind the median"),
    Column("memory_bytes", "number", "bytes", "of peak_memory rows"),
    Column("engine", "text", "", "software and version that ran it"),
    Column("source", "text", "", "file, project and commit, or the command that measured it"),
    Column("note", "text", "", "what a reader must know before using the row"),
)
NAMES = tuple(column.name for column in COLUMNS)
TEXT = frozenset(column.name for column in COLUMNS if column.kind == "text")
REQUIRED = ("operation", "gpu", "time_s")
