import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sim.catalog import KV_DTYPES, Model, load_model, model_names
from sim.catalog.layers import LatentKv
from sim.errors import MemoryLedgerError
from sim.memory import KvLayout, MemorySettings
from sim.memory import kv_layout as layout_of


def kv_layout(model: Model, kv_cache_dtype: str, block_size: int) -> KvLayout:
    """Lay out on one GPU."""
    return layout_of(model, MemorySettings(kv_cache_dtype=kv_cache_dtype, block_size=block_size))


@pytest.mark.parametrize(
    ("kv_cache_dtype", "bytes_per_token"),
    [
        ("auto", 147_456),
        ("bfloat16", 147_456),
        ("fp16", 147_456),
        ("fp8", 73_728),
        ("fp8_e4m3", 73_728),
        ("fp8_e5m2", 73_728),
        ("int8", 73_728),
        ("turboquant_k8v4", 66_560),
    ],
)
def test_qwen3_4b_takes_the_published_bytes(kv_cache_dtype: str, bytes_per_token: int) -> None:
    """Exact for what vLLM prints."""
    assert kv_layout(load_model("Qwen3-4B"), kv_cache_dtype, 16).bytes_per_token == bytes_per_token


def test_tq4_is_the_founding_documents_figure() -> None:
    """38,700 bytes a token, within 0.1 %."""
    assert kv_layout(load_model("Qwen3-4B"), "tq4", 16).bytes_per_token == pytest.approx(38_700, rel=1e-3)


def test_an_unknown_type_names_the_nearest_and_all() -> None:
    """fp9 is not a type."""
    with pytest.raises(MemoryLedgerError, match=r"'fp9' is not one of auto, .*did you mean 'fp"):
        kv_layout(load_model("Qwen3-4B"), "fp9", 16)


@given(st.sampled_from(model_names()), st.sampled_from(sorted(KV_DTYPES)), st.integers(1, 256))
def test_a_block_holds_its_tokens(name: str, kv_cache_dtype: str, block_size: int) -> None:
    """A block is never smaller than its tokens, nor a byte larger than needed."""
    model = load_model(name)
    assume(kv_cache_dtype != "fp8_ds_mla" or any(isinstance(kv, LatentKv) for kv in model.kv_layers))
    layout = kv_layout(model, kv_cache_dtype, block_size)
    if not layout.is_uniform:
        return
    exact = layout.bytes_per_token * block_size
    assert exact - 1e-5 <= layout.block_bytes < exact + 1


@given(st.integers(-(10**9), 10**13), st.integers(1, 10**6))
def test_blocks_round_down_for_memory_and_up_for_requests(kv_bytes: int, tokens: int) -> None:
    """Memory gives whole blocks only; a request takes a whole block for its last token."""
    layout = kv_layout(load_model("Qwen3-4B"), "fp8", 16)
    assert layout.blocks_in(kv_bytes) * layout.block_bytes <= max(0, kv_bytes)
    assert layout.blocks_in(kv_bytes) >= 0
    assert (layout.blocks_for(tokens) - 1) * 16 < tokens <= layout.blocks_for(tokens) * 16
