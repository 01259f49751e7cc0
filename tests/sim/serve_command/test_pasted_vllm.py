"""vLLM start commands as people paste them give the settings that the engine would start with."""

from typing import Any

import pytest
from command_settings import settings

from sim.serve_command import Speculative, read_command

VLLM = {
    "plain": ("vllm serve Qwen/Qwen3-8B", {"model": "Qwen/Qwen3-8B"}),
    "model as a flag": ("vllm serve --model Qwen/Qwen3-8B --port 8080", {"model": "Qwen/Qwen3-8B"}),
    "flags before the model": ("vllm serve -tp 2 m", {"model": "m", "tensor_parallel_size": 2}),
    "module": (
        "python -m vllm.entrypoints.openai.api_server --model m --dtype half",
        {"model": "m", "dtype": "half"},
    ),
    "script by path": (
        "/opt/venv/bin/python3.11 /opt/vllm/vllm/entrypoints/openai/api_server.py --model=m",
        {"model": "m"},
    ),
    "uv": ("uv run --with vllm==0.10.2 vllm serve m", {"model": "m", "engine_version": "0.10.2"}),
    "uvx": ("uvx vllm@0.11.0 serve m", {"model": "m", "engine_version": "0.11.0"}),
    "installed before": (
        "pip install 'vllm[flashinfer]==0.9.2' && vllm serve m --max-num-seqs 64",
        {"model": "m", "engine_version": "0.9.2", "max_num_seqs": 64},
    ),
    "sudo and nohup into a log": (
        "sudo -E nohup vllm serve m --block-size 32 > server.log 2>&1 &",
        {"model": "m", "block_size": 32},
    ),
    "numactl": ("numactl --cpunodebind=0 --membind=0 vllm serve m -pp 2", {"model": "m", "pipeline_parallel_size": 2}),
    "set before": (
        "VLLM_USE_V1=1 CUDA_VISIBLE_DEVICES=0,1 vllm serve m -tp 2",
        {"model": "m", "use_v1": True, "visible_gpus": 2, "tensor_parallel_size": 2},
    ),
    "exported": (
        "export VLLM_ATTENTION_BACKEND=FLASHINFER; export VLLM_PP_LAYER_PARTITION='20,28'\nvllm serve m -pp 2",
        {
            "model": "m",
            "attention_backend": "FLASHINFER",
            "pp_layer_partition": (20, 28),
            "pipeline_parallel_size": 2,
        },
    ),
    "env": (
        "env VLLM_KV_CACHE_LAYOUT=HND VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0 vllm serve m",
        {"model": "m", "kv_cache_layout": "HND", "estimate_cudagraphs": False},
    ),
    "variables of its own": (
        'MODEL=google/gemma-3-27b-it\nARGS="--max-model-len 8k -tp 2"\nvllm serve $MODEL $ARGS -pp ${PP:-2}',
        {
            "model": "google/gemma-3-27b-it",
            "max_model_len": 8000,
            "tensor_parallel_size": 2,
            "pipeline_parallel_size": 2,
        },
    ),
    "prompt and continued lines": (
        "$ vllm serve m \\\n    --max-model-len 32768 \\\n    --gpu-memory-utilization 0.95 \\\n",
        {"model": "m", "max_model_len": 32768, "gpu_memory_utilization": 0.95},
    ),
    "a prompt with its host": (
        "(base) root@gpu-7:/workspace# vllm serve m --enforce-eager",
        {"model": "m", "enforce_eager": True},
    ),
    "comments after backslashes": (
        "vllm serve m \\ # the model\n  --swap-space 8 \\   # GiB\n  --max-num-seqs 16 # enough",
        {"model": "m", "swap_space": 8.0, "max_num_seqs": 16},
    ),
    "lost backslashes": (
        "vllm serve m\n  --max-num-seqs 16\n\n  # half\n  --max-model-len 4096",
        {"model": "m", "max_num_seqs": 16, "max_model_len": 4096},
    ),
    "Windows": (
        'C:\\Users\\me> vllm serve m ^\r\n  --hf-overrides "{\\"num_hidden_layers\\": 4}" ^\r\n  --max-num-seqs 4\r\n',
        {"model": "m", "hf_overrides": {"num_hidden_layers": 4}, "max_num_seqs": 4},
    ),
    "typeset": (
        (
            "vllm serve m \u2013\u2013max-model-len 4096 \u2014tensor-parallel-size 2 "
            "\u2013speculative-config "
            "\u2018{\u201cmethod\u201d: \u201cngram\u201d, \u201cnum_speculative_tokens\u201d: 4}\u2019"
        ),
        {
            "model": "m",
            "max_model_len": 4096,
            "tensor_parallel_size": 2,
            "speculative": Speculative(method="ngram", num_speculative_tokens=4),
        },
    ),
    "fenced amid prose": (
        "Here's what I'd run, it doesn't swap:\n\n```bash\nvllm serve m --max-num-seqs 8\n```\nThat's \"it.",
        {"model": "m", "max_num_seqs": 8},
    ),
    "a notebook's cell": ("!vllm serve m --dtype bfloat16 &", {"model": "m", "dtype": "bfloat16"}),
    "underscores and equals": (
        "vllm serve m --max_model_len=16K --kv_cache_dtype=fp8 --enable_prefix_caching",
        {"model": "m", "max_model_len": 16384, "kv_cache_dtype": "fp8", "enable_prefix_caching": True},
    ),
    "switched off": (
        (
            "vllm serve m --no-enable-prefix-caching --no-scheduler-reserve-full-isl --no-async-scheduling "
            "--disable-chunked-prefill"
        ),
        {
            "model": "m",
            "enable_prefix_caching": False,
            "scheduler_reserve_full_isl": False,
            "async_scheduling": False,
            "enable_chunked_prefill": False,
        },
    ),
    "as long as it fits": ("vllm serve m --max-model-len -1", {"model": "m", "max_model_len": "auto"}),
    "as long as it fits, in words": ("vllm serve m --max-model-len auto", {"model": "m", "max_model_len": "auto"}),
    "decimal thousands": ("vllm serve m --max-model-len 25.6k", {"model": "m", "max_model_len": 25600}),
    "bytes": (
        "vllm serve m --kv-cache-memory-bytes 16G --max-num-batched-tokens 8K",
        {"model": "m", "kv_cache_memory_bytes": 16 * 2**30, "max_num_batched_tokens": 8192},
    ),
    "short forms": (
        "vllm serve m -tp=4 -dp 2 -dcp 2 -pcp 1 -q awq -ep",
        {
            "model": "m",
            "tensor_parallel_size": 4,
            "data_parallel_size": 2,
            "decode_context_parallel_size": 2,
            "prefill_context_parallel_size": 1,
            "quantization": "awq",
            "enable_expert_parallel": True,
        },
    ),
    "speculative, dotted": (
        (
            "vllm serve m --speculative-config.method eagle3 --speculative_config.num_speculative_tokens 3 "
            "--speculative-config.model=org/draft"
        ),
        {"model": "m", "speculative": Speculative(method="eagle3", num_speculative_tokens=3, model="org/draft")},
    ),
    "speculative, old flags": (
        "vllm serve m --speculative-model org/draft --num-speculative-tokens 5 -spec-draft-tp 1",
        {
            "model": "m",
            "speculative": Speculative(model="org/draft", num_speculative_tokens=5, draft_tensor_parallel_size=1),
        },
    ),
    "speculative, short flags": (
        "vllm serve m --spec-method mtp --spec-tokens 2",
        {"model": "m", "speculative": Speculative(method="mtp", num_speculative_tokens=2)},
    ),
    "graphs": (
        "vllm serve m -O.cudagraph_mode=full_decode_only -O3 --cudagraph-capture-sizes 1 2 4 8",
        {
            "model": "m",
            "cudagraph_mode": "FULL_DECODE_ONLY",
            "optimization_level": 3,
            "cudagraph_capture_sizes": (1, 2, 4, 8),
        },
    ),
    "graphs in JSON": (
        """vllm serve m -cc '{"cudagraph_mode": "PIECEWISE", "cudagraph_capture_sizes": [1, 16],
        "max_cudagraph_capture_size": 16, "pass_config": {"fuse_norm_quant": true}}'""",
        {
            "model": "m",
            "cudagraph_mode": "PIECEWISE",
            "cudagraph_capture_sizes": (1, 16),
            "max_cudagraph_capture_size": 16,
        },
    ),
    "graphs of old versions": (
        "vllm serve m --compilation-config '{\"full_cuda_graph\": true}' --cuda-graph-sizes 256 -O 2",
        {"model": "m", "cudagraph_mode": "FULL", "max_cudagraph_capture_size": 256, "optimization_level": 2},
    ),
    "rope scaling, old flag": (
        """vllm serve m --rope-scaling '{"rope_type": "yarn", "factor": 4.0}' --max-model-len 131072""",
        {
            "model": "m",
            "hf_overrides": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
            "max_model_len": 131072,
        },
    ),
    "overrides, dotted": (
        "vllm serve m --hf-overrides.a.b 1 --hf-overrides.a.c two --hf-overrides.d+ x,y",
        {"model": "m", "hf_overrides": {"a": {"b": 1, "c": "two"}, "d": ["x", "y"]}},
    ),
    "overrides, dotted ones instead of all": (
        """vllm serve m --hf-overrides.a.c 2 --hf-overrides '{"a": {"b": 1}}'""",
        {"model": "m", "hf_overrides": {"a": {"c": 2}}},
    ),
    "overrides beside an old flag": (
        """vllm serve m --rope-theta 1e6 --hf-overrides '{"a": 1}'""",
        {"model": "m", "hf_overrides": {"rope_theta": 1e6, "a": 1}},
    ),
    "more commands": (
        "cd /srv\nvllm serve m --max-num-seqs 8\npython bench.py -tp 4 --model other\n",
        {"model": "m", "max_num_seqs": 8},
    ),
    "images": (
        (
            """vllm serve m --limit-mm-per-prompt '{"image": 4, "video": {"count": 1, "num_frames": 32}}' """
            "--mm-encoder-tp-mode data --skip-mm-profiling"
        ),
        {
            "model": "m",
            "limit_mm_per_prompt": {"image": 4, "video": 1},
            "mm_encoder_tp_mode": "data",
            "skip_mm_profiling": True,
        },
    ),
    "images, old form": (
        "vllm serve m --limit-mm-per-prompt image=2,video=0",
        {"model": "m", "limit_mm_per_prompt": {"image": 2, "video": 0}},
    ),
    "images, dotted": (
        "vllm serve m --limit-mm-per-prompt.image 3 --limit-mm-per-prompt.video 0",
        {"model": "m", "limit_mm_per_prompt": {"image": 3, "video": 0}},
    ),
    "LoRA": (
        "vllm serve m --enable-lora --lora-modules sql=/a chat=/b --max-loras 2 --max-lora-rank 64",
        {"model": "m", "enable_lora": True, "max_loras": 2, "max_lora_rank": 64},
    ),
    "hybrid": (
        (
            "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --mamba-ssm-cache-dtype float32 "
            "--mamba-cache-mode align "
            "--mamba-block-size 1024 --no-disable-hybrid-kv-cache-manager --kv-cache-dtype-skip-layers 0 sliding_window"
        ),
        {
            "model": "Qwen/Qwen3-Next-80B-A3B-Instruct",
            "tensor_parallel_size": 4,
            "mamba_ssm_cache_dtype": "float32",
            "mamba_cache_mode": "align",
            "mamba_block_size": 1024,
            "disable_hybrid_kv_cache_manager": False,
            "kv_cache_dtype_skip_layers": ("0", "sliding_window"),
        },
    ),
    "passed over": (
        (
            "vllm serve m --host 0.0.0.0 --api-key sk-1 --served-model-name a b --trust-remote-code --chat-template "
            "./t.jinja --enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3 --seed 7 "
            "--structured-outputs-config.backend xgrammar --disable-log-requests --uvicorn-log-level info"
        ),
        {"model": "m"},
    ),
    "one size in many words": (
        "vllm serve m --gpu-memory 0.8 --tensor-parallel 2",
        {"model": "m", "gpu_memory_utilization": 0.8, "tensor_parallel_size": 2},
    ),
    "a switch with its value": (
        "vllm serve m --enable-chunked-prefill false",
        {"model": "m", "enable_chunked_prefill": False},
    ),
    "docker, vLLM's image": (
        (
            "docker run --runtime nvidia --gpus all -v ~/.cache/huggingface:/root/.cache/huggingface "
            '--env "HF_TOKEN=$HF_TOKEN" -p 8000:8000 --ipc=host vllm/vllm-openai:v0.11.2 --model m -tp 2'
        ),
        {"model": "m", "engine_version": "0.11.2", "tensor_parallel_size": 2},
    ),
    "docker, the model as a word": (
        (
            "docker run -d --rm --gpus '\"device=0,1\"' -e VLLM_USE_V1=1 --shm-size 16g "
            "docker.io/vllm/vllm-openai:latest m "
            "--max-model-len 8192"
        ),
        {"model": "m", "use_v1": True, "visible_gpus": 2, "max_model_len": 8192},
    ),
    "docker, an entrypoint": (
        "sudo docker run -itd --name v --gpus=2 --entrypoint vllm vllm/vllm-openai:v0.9.2 serve m --dtype auto",
        {"model": "m", "engine_version": "0.9.2", "visible_gpus": 2, "dtype": "auto"},
    ),
    "docker, a shell inside": (
        (
            "podman run -p8000:8000 rocm/vllm:rocm6.4.1_ubuntu22.04_py3.12_vllm_0.10.1 "
            'bash -lc "export VLLM_USE_V1=0 && vllm serve m --block-size 32"'
        ),
        {"model": "m", "engine_version": "0.10.1", "use_v1": False, "block_size": 32},
    ),
    "docker, nothing from outside": (
        "export VLLM_USE_V1=1; docker run -e CUDA_VISIBLE_DEVICES=0 vllm/vllm-openai:v0.8.5.post1 --model m",
        {"model": "m", "engine_version": "0.8.5.post1", "visible_gpus": 1},
    ),
    "a list of arguments": (
        '["--model", "m", "--tensor-parallel-size", "4", "--enable-prefix-caching"]',
        {"model": "m", "tensor_parallel_size": 4, "enable_prefix_caching": True},
    ),
    "arguments in YAML": (
        "args:\n  - --model=m\n  - --max-model-len\n  - 8192\n  - --kv-cache-dtype\n  - fp8",
        {"model": "m", "max_model_len": 8192, "kv_cache_dtype": "fp8"},
    ),
    "flags alone": ("--model m --max-num-seqs 4", {"model": "m", "max_num_seqs": 4}),
}


@pytest.mark.parametrize(("text", "expected"), VLLM.values(), ids=VLLM.keys())
def test_a_pasted_vllm_command_gives_its_settings(text: str, expected: dict[str, Any]) -> None:
    """Every form that recipes and posts use is read."""
    command = read_command(text)
    assert command.engine == "vllm"
    assert settings(command) == expected
