from pathlib import Path

import pytest

from sim.catalog import load_gpu, load_model
from sim.memory import MemoryLedger, MemorySettings
from sim.memory_request import MemoryRequest, ledger_of
from sim.memory_request.from_log import settings_of_log, with_log
from sim.startup_log import read_startup_log
from sim.units import GIB

WINDOWS = """\
INFO 10-02 10:00:00 [api_server.py:1839] vLLM API server version 0.11.0
INFO 10-02 10:00:00 [utils.py:233] non-default args: {'model': 'openai/gpt-oss-20b', 'max_model_len': 32768}
INFO 10-02 10:00:30 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: \
model='openai/gpt-oss-20b', max_seq_len=32768, tensor_parallel_size=1
INFO 10-02 10:00:40 [gpu_worker.py:298] Available KV cache memory: 5.38 GiB
INFO 10-02 10:00:41 [kv_cache_utils.py:1087] GPU KV cache size: 117,504 tokens
"""


def ledger(text: str, folder: Path, **changes: object) -> MemoryLedger:
    """Return the ledger of a log of an L4."""
    path = folder / "startup.log"
    path.write_text(text)
    facts = read_startup_log(path)
    assert facts.model is not None
    settings = MemorySettings(**settings_of_log(facts))
    request = MemoryRequest((load_gpu("L4"),), load_model(facts.model), settings)
    found = ledger_of(with_log(request, facts, changes))
    assert isinstance(found, MemoryLedger)
    return found


def test_a_log_of_windows_that_need_no_padding_keeps_its_kv_memory(tmp_path: Path) -> None:
    """Nothing in such a log says that its tokens are blocks // 2 x 16: taken for blocks x 16, half of them is lost."""
    it = ledger(WINDOWS, tmp_path)
    assert it.kv_bytes == pytest.approx(5.38 * GIB, rel=1e-6)
    assert it.kv_cache_tokens == pytest.approx(117_504, rel=2e-3)


def test_tokens_alone_say_the_same_blocks_as_the_bytes(tmp_path: Path) -> None:
    """As it was, and in a what-if that leaves memory as it is: 117,504 tokens are 14,688 blocks in two groups."""
    text = "".join(line for line in WINDOWS.splitlines(keepends=True) if "Available" not in line)
    assert ledger(text, tmp_path).num_gpu_blocks == 14_688
    assert ledger(text, tmp_path, max_model_len=16_384).num_gpu_blocks == 14_688
