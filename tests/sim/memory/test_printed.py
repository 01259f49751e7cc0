import pytest

from sim.catalog import load_model
from sim.memory import MemorySettings, kv_layout
from sim.memory.printed import blocks_of_printed, printed_tokens


@pytest.mark.parametrize("version", ["0.9.2", "0.20.0", "0.21.0", "0.32.0"])
@pytest.mark.parametrize("max_model_len", [1_000, 4_099, 32_768])
@pytest.mark.parametrize("model", ["Qwen3-4B", "gpt-oss-20b", "Qwen3.5-27B"])
def test_printed_tokens_say_how_many_blocks_there_are(model: str, max_model_len: int, version: str) -> None:
    """Also where the last block of a request is not full, which the print from 0.21 on takes for tokens that fit."""
    layout = kv_layout(load_model(model), MemorySettings(vllm_version=version))
    blocks = 6_300 * len(layout.groups)
    printed = printed_tokens(layout, blocks, max_model_len, 2_048, version)
    assert blocks_of_printed(layout, printed, max_model_len, 2_048, version) == blocks


def test_a_uniform_model_prints_fewer_tokens_than_its_blocks_hold() -> None:
    """6,300 blocks are 100 requests of 63 blocks: from 0.21 on 100,000 tokens at 1,000 each, before 100,800."""
    layout = kv_layout(load_model("Qwen3-4B"), MemorySettings())
    assert printed_tokens(layout, 6_300, 1_000, 2_048, "0.21.0") == 100_000
    assert printed_tokens(layout, 6_300, 1_000, 2_048, "0.20.0") == 100_800
