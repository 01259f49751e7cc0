"""Layouts, blocks, prints and refusals against what vLLM 0.32.0's own functions answered.

`data/vllm_0_32_layouts.jsonl` was written by tests/real_engine/record_kv_layouts.py.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sim.catalog import load_gpu, load_model
from sim.errors import MemoryLedgerError
from sim.memory import MemoryLedger, MemorySettings, memory_ledger
from sim.memory.kv_groups import Keeps, KvGroup
from sim.memory.settings import AUTO_FIT

_FILE = Path(__file__).parent / "data" / "vllm_0_32_layouts.jsonl"
_HEADER, *_RECORDS = [json.loads(line) for line in _FILE.read_text().splitlines()]
_ENDLESS = replace(load_gpu("H200"), visible_bytes=10**14)  # KV memory is given, and weights are not in question
_REFUSED = [record for record in _RECORDS if "never_starts" in record["engine"]]
_LAID_OUT = [record for record in _RECORDS if "never_starts" not in record["engine"]]


def _name(record: dict[str, Any]) -> str:
    return f"{record['model']} " + " ".join(f"{key}={value}" for key, value in record["settings"].items())


def _ledger(record: dict[str, Any], kv_bytes: int) -> MemoryLedger:
    settings = MemorySettings(**record["settings"], vllm_version="0.32.0", kv_cache_memory_bytes=kv_bytes)
    return memory_ledger(_ENDLESS, load_model(record["model"]), settings)


def _group(group: KvGroup) -> list[object]:
    """Return kind, layers and block size; that of a state does not matter."""
    return [group.keeps.value, group.layers, 0 if group.keeps is Keeps.STATE else group.block_size]


def test_the_recording_is_of_many_models_and_kinds() -> None:
    """Of this version, with starts and refusals, pipelines and drafts."""
    assert _HEADER["source"] == "vLLM 0.32.0"
    assert len({record["model"] for record in _RECORDS}) > 100
    assert len(_LAID_OUT) > 300
    assert len(_REFUSED) > 3
    kinds = {group[0] for record in _LAID_OUT for stage in record["engine"]["groups"] for group in stage}
    assert kinds == {"full", "window", "chunk", "state"}
    used = {key for record in _LAID_OUT for key in record["settings"]}
    assert used >= {"pipeline_layers", "num_speculative_tokens", "enable_prefix_caching", "tensor_parallel_size"}


@pytest.mark.parametrize("record", _LAID_OUT, ids=_name)
def test_groups_and_blocks_are_the_engines(record: dict[str, Any]) -> None:
    """Of each pipeline stage; and the blocks of one request."""
    engine = record["engine"]
    ledger = _ledger(record, engine["starts"][-1][0])
    groups = [sorted(map(_group, rank.layout.groups), key=str) for rank in ledger.ranks]
    assert groups == [sorted(stage, key=str) for stage in engine["groups"]]
    assert [rank.layout.block_bytes for rank in ledger.ranks] == engine["block_bytes"]
    asked = record["settings"]["max_model_len"]
    longest = load_model(record["model"]).max_position_embeddings if asked == AUTO_FIT else asked
    assert ledger.layout.blocks_for(longest, ledger.in_flight_tokens) == engine["blocks_per_request"]


@pytest.mark.parametrize("record", _LAID_OUT, ids=_name)
def test_what_starts_prints_what_the_engine_prints(record: dict[str, Any]) -> None:
    """Blocks, tokens, concurrency and, where it is fitted, the length; the first amount is the least that starts."""
    for kv_bytes, blocks, tokens, concurrency, max_model_len in record["engine"]["starts"]:
        ledger = _ledger(record, kv_bytes)
        assert ledger.refusal is None
        assert (ledger.num_gpu_blocks, ledger.kv_cache_tokens) == (blocks, tokens)
        assert ledger.max_concurrency == pytest.approx(concurrency, abs=1e-6)
        assert ledger.limits.max_model_len == max_model_len


@pytest.mark.parametrize("record", _LAID_OUT, ids=_name)
def test_what_is_refused_names_the_engines_longest_length(record: dict[str, Any]) -> None:
    """To the token; the second amount is a block short. vLLM seeks up to the length asked for, and no further."""
    for kv_bytes, longest in record["engine"]["refused"]:
        ledger = _ledger(record, kv_bytes)
        assert ledger.refusal is not None
        assert min(ledger.largest_max_model_len, ledger.limits.max_model_len) == longest


@pytest.mark.parametrize("record", _REFUSED, ids=_name)
def test_what_never_starts_is_an_error(record: dict[str, Any]) -> None:
    """States without the hybrid manager; a pipeline stage without KV."""
    with pytest.raises(MemoryLedgerError):
        _ledger(record, 10**12)
