import json
import math

from sim.catalog import load_gpu, load_model
from sim.memory import MemorySettings, SglangSettings, memory_ledger, sglang_pools
from sim.memory.document import ledger_document
from sim.memory.remedies import remedies_of

ALWAYS = {
    "engine",
    "gpu",
    "model",
    "starts",
    "refusal",
    "max_concurrency",
    "kv_bytes",
    "kv_bytes_low",
    "parts",
    "remedies",
    "bytes_per_token",
    "largest_max_model_len",
    "estimated_max_model_len",
    "binding_limit",
    "total_visible_bytes",
    "replicas",
    "max_concurrency_total",
}
COUNTS = {  # that say what they count
    "replicas",
    "requests",
    "layers",
    "first_layer",
    "last_layer",
    "num_gpu_blocks",
    "blocks",
    "blocks_per_request",
    "state_blocks",
    "state_slots",
    "max_num_seqs",
    "max_running_requests",
}
SHARES = {"gpu_memory_utilization", "mem_fraction_static"}
REQUESTS = {"max_concurrency", "max_concurrency_total"}  # of max_model_len tokens
FLAGS = {"block_size", "max_model_len", "largest_max_model_len", "estimated_max_model_len"}  # vLLM's words, in tokens


def unitless(document: object, key: str = "") -> set[str]:
    """Return the keys of numbers whose unit cannot be told by their names."""
    if isinstance(document, dict):
        found = set[str]()
        for name, value in document.items():
            found |= unitless(value, "requests" if key == "requests" else name)
        return found
    if isinstance(document, list):
        return set().union(*(unitless(one, key) for one in document))
    if not isinstance(document, int | float) or isinstance(document, bool):
        return set()
    bare = key.removesuffix("_low").removesuffix("_high")
    told = bare in COUNTS | SHARES | REQUESTS | FLAGS or bare.endswith("_size")
    return set() if told or bare.rpartition("_")[2] in {"bytes", "tokens", "token"} or bare == "bytes" else {key}


def test_a_refused_ledger_survives_json() -> None:
    """With its remedies, and no number that JSON has not."""
    gpu, model, settings = load_gpu("T4"), load_model("Qwen3-8B-FP8"), MemorySettings(max_model_len=40_960)
    it = memory_ledger(gpu, model, settings)
    document = ledger_document(it, model=model, remedies=remedies_of(gpu, model, settings))
    again = json.loads(json.dumps(document, allow_nan=False))
    assert again == document
    assert again.keys() >= ALWAYS
    assert again["read_as"] == "Qwen3-8B with fp8 weights, from the name"
    assert again["starts"] is False
    assert again["refusal"] == it.refusal
    assert again["remedies"][0]["max_concurrency"] >= 1
    assert again["activation_bytes_low"] <= again["activation_bytes"] <= again["activation_bytes_high"]


def test_every_number_says_its_unit() -> None:
    """By its name; sizes of parallel groups are counts of GPUs."""
    gpu, model, settings = load_gpu("T4"), load_model("Qwen3-8B-FP8"), MemorySettings(max_model_len=40_960)
    refused = ledger_document(memory_ledger(gpu, model, settings), remedies=remedies_of(gpu, model, settings))
    hybrid = load_model("Qwen3.5-27B")
    mixed = ledger_document(memory_ledger(load_gpu("H200"), hybrid, MemorySettings()))
    pools = sglang_pools(load_gpu("H200"), hybrid, MemorySettings(), SglangSettings())
    for document in (refused, mixed, ledger_document(pools)):
        assert not unitless(document)


def test_replicas_are_told_from_the_whole_deployment() -> None:
    """Eight hold eight times as much."""
    settings = MemorySettings(data_parallel_size=8)
    document = ledger_document(memory_ledger(load_gpu("H200"), load_model("Qwen3-8B"), settings))
    assert document["replicas"] == 8
    assert document["max_concurrency_total"] == 8 * float(str(document["max_concurrency"]))


def test_groups_and_stages_are_listed() -> None:
    """Each group with what it keeps; each stage with its layers."""
    hybrid = ledger_document(memory_ledger(load_gpu("H200"), load_model("Qwen3.5-27B"), MemorySettings()))
    state = {"keeps": "state", "layers": 16, "block_size": 784, "span_tokens": 0, "state_blocks": 2}
    assert hybrid["groups"] == [state, state, state, state | {"keeps": "full", "state_blocks": 0}]
    pair = MemorySettings(pipeline_parallel_size=2, pipeline_layers=(24, 16))
    stages = ledger_document(memory_ledger(load_gpu("L4"), load_model("Qwen3-14B"), pair))["stages"]
    assert isinstance(stages, list)
    assert [(stage["first_layer"], stage["last_layer"]) for stage in stages] == [(0, 23), (24, 39)]


def test_sglang_has_the_same_keys_where_it_can() -> None:
    """Its own beside them, and no blocks."""
    model = load_model("Qwen3.5-27B")
    pools = sglang_pools(load_gpu("H200"), model, MemorySettings(), SglangSettings())
    document = ledger_document(pools, model=model, gpu="H200")
    assert document.keys() >= ALWAYS
    assert (document["engine"], document["num_gpu_blocks"], document["gpu"]) == ("sglang", None, "H200")
    assert document["state_slots"] == pools.state_slots
    assert math.isclose(float(str(document["max_concurrency"])), pools.max_concurrency)
