"""SGLang start commands as people paste them give settings under vLLM's names."""

from typing import Any

import pytest
from command_settings import settings

from sim.serve_command import Speculative, read_command

SGLANG = {
    "plain": (
        "python -m sglang.launch_server --model-path m --port 30000",
        {"model": "m"},
    ),
    "serve": ("sglang serve --model-path m --tp 8", {"model": "m", "tensor_parallel_size": 8}),
    "serve, the model as a word": ("sglang serve m", {"model": "m"}),
    "docker": (
        (
            "docker run --gpus all --shm-size 32g -p 30000:30000 --ipc=host lmsysorg/sglang:v0.5.9-cu129 "
            "python3 -m sglang.launch_server --model-path m --mem-fraction-static 0.85"
        ),
        {"model": "m", "engine_version": "0.5.9", "mem_fraction_static": 0.85},
    ),
    "attention by data": (
        (
            "python3 -m sglang.launch_server --model m --tp-size 16 --dp-size 16 --enable-dp-attention "
            "--dist-init-addr 10.0.0.1:5000 --nnodes 2 --node-rank 0 --max-running-requests 256 --cuda-graph-max-bs 64"
        ),
        {
            "model": "m",
            "tensor_parallel_size": 16,
            "data_parallel_size": 16,
            "enable_dp_attention": True,
            "max_num_seqs": 256,
            "max_cudagraph_capture_size": 64,
        },
    ),
    "pools": (
        (
            "python -m sglang.launch_server --model-path m --context-length 131072 --chunked-prefill-size 4096 "
            "--max-prefill-tokens 16384 --max-total-tokens 400000 --page-size 64 --kv-cache-dtype fp8_e4m3 "
            "--disable-radix-cache --disable-cuda-graph --disable-overlap-schedule"
        ),
        {
            "model": "m",
            "max_model_len": 131072,
            "max_num_batched_tokens": 4096,
            "max_prefill_tokens": 16384,
            "max_total_tokens": 400000,
            "block_size": 64,
            "kv_cache_dtype": "fp8_e4m3",
            "enable_prefix_caching": False,
            "enforce_eager": True,
            "async_scheduling": False,
        },
    ),
    "binary units": (
        "sglang serve m --context-length 128Ki --max-total-tokens 1M",
        {"model": "m", "max_model_len": 131072, "max_total_tokens": 10**6},
    ),
    "no chunks": (
        "sglang serve m --chunked-prefill-size -1",
        {"model": "m", "enable_chunked_prefill": False},
    ),
    "hybrid": (
        (
            "sglang serve m --mamba-full-memory-ratio 0.5 --max-mamba-cache-size 124 --mamba-ssm-dtype bfloat16 "
            "--swa-full-tokens-ratio 0.25 --mamba-scheduler-strategy extra_buffer"
        ),
        {
            "model": "m",
            "mamba_full_memory_ratio": 0.5,
            "max_mamba_cache_size": 124,
            "mamba_ssm_cache_dtype": "bfloat16",
            "swa_full_tokens_ratio": 0.25,
            "mamba_radix_cache_strategy": "extra_buffer",
        },
    ),
    "speculative": (
        (
            "sglang serve m --speculative-algorithm EAGLE3 --speculative-draft-model-path d --speculative-num-steps 3 "
            "--speculative-eagle-topk 2 --speculative-num-draft-tokens 8"
        ),
        {
            "model": "m",
            "speculative": Speculative(
                method="EAGLE3", model="d", num_steps=3, eagle_topk=2, num_draft_tokens=8, num_speculative_tokens=7
            ),
        },
    ),
    "speculative, a chain": (
        "sglang serve m --speculative-algorithm NEXTN --speculative-num-steps 2",
        {"model": "m", "speculative": Speculative(method="NEXTN", num_steps=2, num_speculative_tokens=2)},
    ),
    "overrides": (
        """SGLANG_MAMBA_CONV_DTYPE=bfloat16 sglang serve m --json-model-override-args '{"num_hidden_layers": 2}'""",
        {"model": "m", "hf_overrides": {"num_hidden_layers": 2}, "mamba_cache_dtype": "bfloat16"},
    ),
    "arguments alone": (
        "- --model-path\n- m\n- --mem-fraction-static\n- '0.8'\n- --tp\n- '2'",
        {"model": "m", "mem_fraction_static": 0.8, "tensor_parallel_size": 2},
    ),
}


@pytest.mark.parametrize(("text", "expected"), SGLANG.values(), ids=SGLANG.keys())
def test_a_pasted_sglang_command_gives_its_settings(text: str, expected: dict[str, Any]) -> None:
    """SGLang's flags come under vLLM's names."""
    command = read_command(text)
    assert command.engine == "sglang"
    assert settings(command) == expected
