from sim.catalog import load_gpu, load_model
from sim.memory import MemorySettings, SglangSettings, sglang_pools
from sim.units import GIB


def test_a_pipeline_stage_holds_its_own_layers() -> None:
    """Of 64 layers 32 on each of two GPUs: half the bytes a token, and 30.5 GiB of weights instead of 61."""
    gpu, model = load_gpu("H100"), load_model("Qwen3-32B")
    whole = sglang_pools(gpu, model, MemorySettings(), SglangSettings())
    stage = sglang_pools(gpu, model, MemorySettings(pipeline_parallel_size=2), SglangSettings())
    assert stage.bytes_per_token == whole.bytes_per_token / 2
    assert 0.49 < stage.weight_bytes / whole.weight_bytes < 0.51
    assert stage.kv_bytes.likely > whole.kv_bytes.likely + 30 * GIB
