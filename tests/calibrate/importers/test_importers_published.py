"""Each publisher's own layout, on made-up rows: what comes out, in which units, under which names."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibrate.importers import aiconfigurator, helix, llmservingsim, splitwise, vidur
from calibrate.table_io import Table
from sim.errors import MeasurementError


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _only(table: Table) -> pd.Series:
    assert table.rejected == ()
    assert len(table.frame) == 1
    return table.frame.iloc[0]


def _has(row: pd.Series, **expected: object) -> None:
    found = {name: row[name] for name in expected}
    assert found == pytest.approx(expected)


def test_aiconfigurator_gemm(tmp_path: Path) -> None:
    """Milliseconds become seconds, m n k become tokens, out and in features, the device its catalog name."""
    text = (
        "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency,power\n"
        "VLLM,0.20.0,NVIDIA A100-SXM4-80GB,gemm,linear,bfloat16,64,4096,2048,0.125,300\n"
    )
    row = _only(aiconfigurator.read(_write(tmp_path / "gemm_perf.txt", text)))
    _has(row, operation="gemm", gpu="A100-80GB-SXM", weight_dtype="bf16", engine="VLLM 0.20.0", label="measured")
    _has(row, tokens=64, out_features=4096, in_features=2048, layers=1, time_s=125e-6)


_ATTENTION = (
    "framework,version,device,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,beam_width,"
    "attn_dtype,kv_cache_dtype,step,latency\n"
)


def test_aiconfigurator_context_attention(tmp_path: Path) -> None:
    """`isl` is what each request computes and `step` what it already had."""
    text = _ATTENTION + "VLLM,0.20.0,NVIDIA H100 80GB HBM3,context_attention,fa,4,512,32,8,128,1,bfloat16,fp8,1024,2\n"
    row = _only(aiconfigurator.read(_write(tmp_path / "context_attention_perf.txt", text)))
    _has(row, operation="prefill_attention", gpu="H100-80GB-SXM", kv_cache_dtype="fp8", time_s=2e-3)
    _has(row, sequences=4, new_tokens=512, past_tokens=1024, tokens=2048, num_heads=32, num_kv_heads=8, window=0)


def test_aiconfigurator_generation_attention(tmp_path: Path) -> None:
    """One token a row on `step` past ones; there are no new_tokens."""
    text = _ATTENTION + "VLLM,0.20.0,NVIDIA L40S,generation_attention,fa,8,1,32,8,128,1,bfloat16,bfloat16,4095,0.5\n"
    row = _only(aiconfigurator.read(_write(tmp_path / "generation_attention_perf.txt", text)))
    _has(row, operation="decode_attention", gpu="L40S", kv_cache_dtype="bf16", time_s=5e-4)
    _has(row, sequences=8, past_tokens=4095, tokens=8)
    assert np.isnan(row["new_tokens"])


def test_aiconfigurator_moe(tmp_path: Path) -> None:
    """Experts are those on one GPU; balanced routing meets as many as the tokens can reach."""
    text = (
        "framework,version,device,op_name,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,"
        "moe_tp_size,moe_ep_size,distribution,latency\n"
        "VLLM,0.20.0,NVIDIA H200,moe,k,fp8_block,3,2048,768,8,128,2,4,balanced,0.1\n"
        "VLLM,0.20.0,NVIDIA H200,moe,k,int4_wo,3,2048,768,8,128,2,4,power_law_1.2,0.1\n"
    )
    frame = aiconfigurator.read(_write(tmp_path / "moe_perf.txt", text)).frame
    assert frame["weight_dtype"].tolist() == ["fp8_block", "int4"]
    assert frame["experts"].tolist() == [32, 32]
    assert frame["out_features"].tolist() == [384, 384]
    np.testing.assert_array_equal(frame["experts_active"], [24, np.nan])


def test_aiconfigurator_allreduce(tmp_path: Path) -> None:
    """Elements become bytes; eager and CUDA graph are told apart."""
    text = (
        "framework,version,device,op_name,kernel_source,allreduce_dtype,num_gpus,message_size,latency,backend\n"
        "vLLM,0.20.0,NVIDIA B200,all_reduce,vLLM_custom_graph,bfloat16,4,128,0.005,vllm_graph\n"
        "vLLM,0.20.0,NVIDIA B200,all_reduce,vLLM_custom_eager,float32,4,128,0.045,vllm_eager\n"
    )
    frame = aiconfigurator.read(_write(tmp_path / "custom_allreduce_perf.txt", text)).frame
    assert frame["graph"].tolist() == ["cuda_graph", "eager"]
    assert frame["bytes"].tolist() == [256, 512]
    assert frame["tensor_parallel"].tolist() == [4, 4]


def _vidur_mlp(**values: object) -> str:
    columns: dict[str, object] = {f"time_stats.{op}.median": 0.5 for op in (*vidur._LINEAR, *vidur._ELEMENTWISE)}
    columns |= {"time_stats.add.min": 0.1, "n_head": 32, "n_kv_head": 8, "n_embd": 4096, "n_expanded_embd": 14336}
    columns |= {"vocab_size": 128256, "use_gated_mlp": True, "num_tokens": 16, "num_tensor_parallel_workers": 2}
    columns |= values
    return ",".join(columns) + "\n" + ",".join(map(str, columns.values())) + "\n"


def test_vidur_mlp_takes_gpu_and_model_from_its_folders(tmp_path: Path) -> None:
    """A row becomes four linear layers and six elementwise kernels, with one GPU's shapes."""
    path = tmp_path / "compute" / "h100" / "meta-llama" / "Meta-Llama-3-8B" / "mlp.csv"
    table = vidur.read(_write(path, _vidur_mlp()))
    assert table.rejected == ()
    assert table.frame["operation"].value_counts().to_dict() == {"elementwise": 6, "gemm": 4}
    assert set(table.frame["gpu"]) == {"H100-80GB-SXM"}
    assert set(table.frame["model"]) == {"Llama-3.1-8B"}
    gemm = table.frame[table.frame["operation"] == "gemm"].set_index("part")
    assert gemm["out_features"].to_dict() == {"qkv": 3072, "o": 4096, "gate_up": 14336, "down": 4096}
    assert gemm["in_features"].to_dict() == {"qkv": 4096, "o": 2048, "gate_up": 4096, "down": 7168}
    assert set(gemm["time_s"]) == {5e-4}


def test_vidur_plain_mlp_has_one_matrix_less(tmp_path: Path) -> None:
    """Without a gate, the first projection is half as wide, and nothing else changes."""
    frame = vidur.read(_write(tmp_path / "mlp.csv", _vidur_mlp(use_gated_mlp=False)), gpu="A100").frame
    widths = frame.set_index("part")["out_features"]
    assert widths["gate_up"] == 7168
    assert widths["down"] == 4096


def test_vidur_attention(tmp_path: Path) -> None:
    """Prefill and decode rows each use their own time; heads are those of one GPU."""
    text = (
        "time_stats.attn_prefill.median,time_stats.attn_decode.median,n_embd,n_q_head,n_kv_head,"
        "num_tensor_parallel_workers,batch_size,prefill_chunk_size,kv_cache_size,is_prefill\n"
        "0.75,,8192,64,8,2,1,512,1024,True\n"
        ",0.25,8192,64,8,2,16,0,2048,False\n"
    )
    frame = vidur.read(_write(tmp_path / "attention.csv", text), gpu="A100").frame
    assert frame["operation"].tolist() == ["prefill_attention", "decode_attention"]
    assert frame["time_s"].tolist() == [75e-5, 25e-5]
    assert frame["num_heads"].tolist() == [32, 32]
    assert frame["num_kv_heads"].tolist() == [4, 4]
    assert frame["head_dim"].tolist() == [128, 128]
    assert frame["past_tokens"].tolist() == [1024, 2048]
    assert frame["sequences"].tolist() == [1, 16]


@pytest.fixture(name="serving")
def _serving(tmp_path: Path) -> Callable[[str, str], pd.DataFrame]:
    """Return a reader of text in LLMServingSim's folders for Llama-3.1-8B on two RTX 4090."""
    folder = tmp_path / "perf" / "RTX4090" / "meta-llama" / "Llama-3.1-8B" / "bf16" / "tp2"

    def read(name: str, text: str) -> pd.DataFrame:
        table = llmservingsim.read(_write(folder / name, text))
        assert table.rejected == ()
        return table.frame

    return read


def test_llmservingsim_attention(serving: Callable[[str, str], pd.DataFrame]) -> None:
    """What is there decides whether a row is prefill, decode or both; microseconds become seconds."""
    frame = serving(
        "attention.csv",
        "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n512,2048,0,0,200\n0,0,4,128,20\n512,2048,4,128,250\n",
    )
    assert frame["operation"].tolist() == ["prefill_attention", "decode_attention", "mixed_attention"]
    np.testing.assert_allclose(frame["time_s"], [200e-6, 20e-6, 250e-6])
    np.testing.assert_array_equal(frame["past_tokens"], [2048, 128, 2048])
    np.testing.assert_array_equal(frame["sequences"], [1, 4, 1])
    np.testing.assert_array_equal(frame["decode_rows"], [np.nan, np.nan, 4])
    assert frame["num_heads"].tolist() == [16, 16, 16]
    assert set(frame["gpu"]) == {"RTX 4090"}
    assert set(frame["tensor_parallel"]) == {2}


def test_llmservingsim_dense_and_per_sequence(serving: Callable[[str, str], pd.DataFrame]) -> None:
    """Names of layers become parts, with the shapes of the model on one GPU."""
    dense = serving("dense.csv", "layer,tokens,time_us\nqkv_proj,8,50\nrotary_emb,8,2\n")
    assert dense["operation"].tolist() == ["gemm", "elementwise"]
    assert dense["part"].tolist() == ["qkv", "rotary"]
    assert dense["out_features"].tolist() == [3072, 2560]
    ends = serving("per_sequence.csv", "layer,sequences,time_us\nlm_head,4,900\nsampler,4,30\n")
    assert ends["operation"].tolist() == ["head", "sampling"]
    np.testing.assert_array_equal(ends["out_features"], [64128, 64128])
    np.testing.assert_array_equal(ends["in_features"], [4096, np.nan])
    assert ends["sequences"].tolist() == [4, 4]


def test_llmservingsim_skew_is_three_rows_a_line(serving: Callable[[str, str], pd.DataFrame]) -> None:
    """All at the mean, all at the largest, and as they were; the file sums three passes."""
    frame = serving(
        "skew.csv",
        "regime,n,nb,ratio,skew,pc,kp,kvs,kv_big,kv_mean,t_mean_us,t_max_us,t_skew_us,alpha\n"
        "pure,4,1,0.25,4.0,0,0,512,2048,896,30,60,33,0.1\n",
    )
    np.testing.assert_allclose(frame["time_s"], [10e-6, 20e-6, 11e-6])
    assert frame["past_tokens"].tolist() == [896, 2048, 896]
    assert frame["part"].tolist() == ["", "", "skewed"]
    np.testing.assert_array_equal(frame["past_tokens_high"], [np.nan, np.nan, 2048])


def test_llmservingsim_moe(tmp_path: Path) -> None:
    """The experts' shape comes from the model the folders name."""
    path = tmp_path / "RTXPRO6000" / "Qwen" / "Qwen3-30B-A3B-Instruct-2507" / "bf16" / "tp1" / "moe.csv"
    row = _only(llmservingsim.read(_write(path, "tokens,activated_experts,time_us\n2,16,60\n")))
    _has(row, operation="moe", gpu="RTX PRO 6000", experts=128, experts_per_token=8, experts_active=16)
    _has(row, in_features=2048, out_features=768, time_s=60e-6)


def test_llmservingsim_older_layers(tmp_path: Path) -> None:
    """Nanoseconds; `attn` is a prefill of all tokens, `lm_head` the head by sequences."""
    path = tmp_path / "H100" / "meta-llama" / "Llama-3.1-8B" / "tp1" / "layers.csv"
    text = "layer_name,input,kv_cache,tp_size,latency(ns)\nq_proj,4,0,1,9000\nattn,4,0,1,8000\nlm_head,4,0,1,300000\n"
    frame = llmservingsim.read(_write(path, text)).frame
    assert frame["operation"].tolist() == ["gemm", "prefill_attention", "head"]
    np.testing.assert_allclose(frame["time_s"], [9e-6, 8e-6, 3e-4])
    np.testing.assert_array_equal(frame["new_tokens"], [np.nan, 4, np.nan])
    np.testing.assert_array_equal(frame["num_heads"], [np.nan, 32, np.nan])


def test_splitwise_is_a_prefill_and_a_decode_step_a_row(tmp_path: Path) -> None:
    """The decode time belongs to the middle of the generation."""
    text = (
        "model,hardware,prompt_size,batch_size,token_size,peak_power,average_power,prompt_time,token_time,e2e_time,"
        "tensor_parallel\nllama2-70b,a100-80gb,512,4,128,1.0,0.7,800,60,8000,2\n"
    )
    frame = splitwise.read(_write(tmp_path / "perf_model.csv", text)).frame
    assert frame["part"].tolist() == ["prefill", "decode"]
    np.testing.assert_allclose(frame["time_s"], [0.8, 0.06])
    assert frame["tokens"].tolist() == [2048, 4]
    np.testing.assert_array_equal(frame["decode_past_tokens"], [np.nan, 576])
    assert set(frame["gpu"]) == {"A100-80GB-SXM"}


def test_helix_files_without_header(tmp_path: Path) -> None:
    """Folders name model and machine, `l4x2` is two L4; the first point, nothing in no time, is dropped."""
    folder = tmp_path / "llama2_70b" / "l4x2"
    prefill = helix.read(_write(folder / "prompt_bs2time.csv", "0,0\n512,0.02\n"))
    row = _only(prefill)
    _has(row, operation="layer", part="prefill", gpu="L4", tensor_parallel=2, new_tokens=512, time_s=0.02)
    row = _only(helix.read(_write(folder / "decode_bs2time.csv", "0,0\n16,0.004\n")))
    _has(row, part="decode", sequences=16, tokens=16, model="Llama-2-70b")


def test_what_nothing_names_must_be_told(tmp_path: Path) -> None:
    """A bare file says which option is missing; the options are then obeyed."""
    path = _write(tmp_path / "dense.csv", "layer,tokens,time_us\nqkv_proj,8,50\n")
    with pytest.raises(MeasurementError, match="names the GPU; give --gpu"):
        llmservingsim.read(path)
    with pytest.raises(MeasurementError, match="names the model; give --model"):
        llmservingsim.read(path, gpu="l4")
    row = _only(llmservingsim.read(path, gpu="l4", model="Qwen/Qwen3-4B", tensor_parallel=2))
    _has(row, gpu="L4", model="Qwen3-4B", tensor_parallel=2, out_features=3072, in_features=2560)


def test_bad_rows_are_named_whatever_the_layout(tmp_path: Path) -> None:
    """Text for a number, no time, a negative one, a missing type: each by line, the rest kept."""
    rows = ["bfloat16,x,1,1,1,L4", "fp8,1,1,1,,L4", "fp8,1,1,1,-1,L4", ",1,1,1,1,L4", "fp8,1,1,1,1,L4"]
    text = "\n".join(["gemm_dtype,m,n,k,latency,device", *rows])
    table = aiconfigurator.read(_write(tmp_path / "gemm.csv", text))
    assert [row.line for row in table.rejected] == [2, 3, 4, 5]
    assert [row.reason for row in table.rejected] == [
        "m 'x' is not a finite number",
        "latency is empty",
        "latency '-1' is negative",
        "gemm_dtype is empty",
    ]
    assert table.frame.index.tolist() == [6]
