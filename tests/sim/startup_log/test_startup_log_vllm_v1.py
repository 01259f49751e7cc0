"""Logs of vLLM's V1, 0.8 to 0.30: every fact of each."""

from startup_log_facts import LOGS, gib, said, said_by_rank

from sim.startup_log import read_startup_log


def test_vllm_0_8_5_tp2() -> None:
    """The first V1: a line a rank from one process, of which the smaller holds."""
    facts = read_startup_log(LOGS / "vllm_0_8_5_tp2.log")
    assert said(facts) == {
        "engine": "vllm",
        "engine_version": "0.8.5",
        "scheduler": "V1",
        "model": "Qwen/Qwen3-32B",
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "max_model_len": 32768,
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "enforce_eager": False,
        "enable_prefix_caching": True,
        "max_num_batched_tokens": 2048,
        "gpu_memory_utilization": 0.9,
        "notes": (
            "tokens is printed as 282,512, 283,008: the smallest is used",
            "max concurrency is printed as 8.62, 8.64: the smallest is used",
        ),
    }
    assert said_by_rank(facts) == {
        "": {"tokens": 282512, "max_concurrency": 8.62},
        "VllmWorker rank 0": {"weights_bytes": 30.5855, "graph_bytes": 0.8},
        "VllmWorker rank 1": {"weights_bytes": 30.5855, "graph_bytes": 0.81},
    }
    assert facts.kv_bytes is None
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (282512, 17657, 8.62)
    assert facts.non_kv_bytes is None


def test_vllm_0_9_2_tp2_uneven() -> None:
    """Ranks that differ by a quarter: the smaller bytes and the smaller tokens."""
    facts = read_startup_log(LOGS / "vllm_0_9_2_tp2_uneven.log")
    assert said(facts) == {
        "engine": "vllm",
        "engine_version": "0.9.2",
        "scheduler": "V1",
        "model": "QuantTrio/GLM-4.6-AWQ",
        "dtype": "float16",
        "quantization": "awq_marlin",
        "kv_cache_dtype": "auto",
        "max_model_len": 65536,
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "enforce_eager": True,
        "enable_prefix_caching": True,
        "max_num_seqs": 16,
        "block_size": 32,
        "gpu_memory_utilization": 0.85,
        "notes": (
            "tokens is printed as 96,000, 76,544: the smallest is used",
            "max concurrency is printed as 1.46, 1.17: the smallest is used",
        ),
    }
    assert said_by_rank(facts) == {
        "": {"tokens": 76544, "max_concurrency": 1.17},
        "VllmWorker rank 0": {"weights_bytes": 92.4182, "kv_bytes": 16.85},
        "VllmWorker rank 1": {"weights_bytes": 92.4182, "kv_bytes": 13.43},
    }
    assert facts.kv_bytes == gib(13.43)
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (76544, 2392, 1.17)
    assert facts.non_kv_bytes is None


def test_vllm_0_10_2() -> None:
    """KV to the byte, all terms, and the block count."""
    facts = read_startup_log(LOGS / "vllm_0_10_2.log")
    assert said(facts) == {
        "engine": "vllm",
        "engine_version": "0.10.2",
        "scheduler": "V1",
        "model": "llava-hf/llava-v1.6-mistral-7b-hf",
        "dtype": "float16",
        "kv_cache_dtype": "auto",
        "max_model_len": 32768,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "enforce_eager": False,
        "enable_prefix_caching": True,
        "max_num_batched_tokens": 8192,
        "gpu_memory_utilization": 0.9,
        "is_ready": True,
    }
    assert said_by_rank(facts) == {
        "APIServer": {"num_gpu_blocks": 28234},
        "EngineCore_DP0": {
            "total_bytes": 79.19,
            "free_at_start_bytes": 78.57,
            "utilisation": 0.9,
            "budget_bytes": 71.27,
            "weights_bytes": 14.0774,
            "activation_bytes": 1.97,
            "non_torch_bytes": 0.07,
            "graph_bytes": 0.67,
            "kv_bytes": 55.1461,
            "kv_to_fit_bytes": 54.3293,
            "kv_to_fill_bytes": 61.6266,
            "tokens": 451744,
            "max_concurrency": 13.79,
        },
    }
    assert facts.kv_bytes == 59212694937
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (451744, 28234, 13.79)
    assert facts.non_kv_bytes == gib(71.27) - 59_212_694_937


def test_vllm_0_11_2_hybrid_tp2() -> None:
    """A hybrid under context parallelism: block size, padding, no block count."""
    facts = read_startup_log(LOGS / "vllm_0_11_2_hybrid_tp2.log")
    assert said(facts) == {
        "engine": "vllm",
        "engine_version": "0.11.2",
        "scheduler": "V1",
        "model": "Qwen/Qwen3-Next-80B-A3B-Instruct",
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "max_model_len": 262144,
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "context_parallel_size": 2,
        "enforce_eager": False,
        "enable_prefix_caching": False,
        "attention_block_size": 544,
        "mamba_page_padding_percent": 1.49,
        "padding_layers": ((3, 9.09), (1, 4.35)),
    }
    assert said_by_rank(facts) == {
        "EngineCore_DP0": {"tokens": 1947520, "max_concurrency": 14.77},
        "Worker_TP0": {"weights_bytes": 74.2816, "graph_bytes": 2.37, "kv_bytes": 44.59},
        "Worker_TP1": {"weights_bytes": 74.2816, "graph_bytes": -0.45, "kv_bytes": 44.61},
    }
    assert facts.kv_bytes == gib(44.59)
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (1947520, None, 14.77)
    assert facts.non_kv_bytes is None


def test_vllm_0_14_auto_fit() -> None:
    """The length that fits, the debug profile, the GPU by the name of a missing file."""
    facts = read_startup_log(LOGS / "vllm_0_14_auto_fit.log")
    assert said(facts) == {
        "engine": "vllm",
        "engine_version": "0.14.1",
        "scheduler": "V1",
        "model": "Qwen/Qwen3-8B",
        "dtype": "bfloat16",
        "kv_cache_dtype": "fp8",
        "max_model_len": 43824,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "enforce_eager": False,
        "enable_prefix_caching": False,
        "gpu_memory_utilization": 0.9,
        "gpu_name": "NVIDIA L4",
        "auto_fit_from_tokens": 262144,
        "auto_fit_to_tokens": 43824,
    }
    assert said_by_rank(facts) == {
        "EngineCore_DP0": {
            "free_at_start_bytes": 21.93,
            "utilisation": 0.9,
            "budget_bytes": 19.83,
            "weights_bytes": 15.27,
            "activation_bytes": 1.4,
            "non_torch_bytes": 0.15,
            "printed_non_kv_bytes": 16.82,
            "kv_bytes": 3.01,
            "tokens": 43824,
            "max_concurrency": 1.0,
        }
    }
    assert facts.kv_bytes == gib(3.01)
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (43824, 2739, 1.0)
    assert facts.non_kv_bytes == gib(16.82)


def test_vllm_0_19_graph_profile() -> None:
    """512 blocks of the pass that measures graphs are not the pool."""
    facts = read_startup_log(LOGS / "vllm_0_19_graph_profile.log")
    assert said(facts) == {
        "engine": "vllm",
        "engine_version": "0.19.0",
        "scheduler": "V1",
        "model": "Qwen/Qwen3-14B-FP8",
        "dtype": "bfloat16",
        "quantization": "fp8",
        "kv_cache_dtype": "fp8_e4m3",
        "max_model_len": 8192,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "enforce_eager": False,
        "enable_prefix_caching": True,
        "gpu_memory_utilization": 0.9,
        "utilisation_for_the_old_kv": 0.9271,
        "notes": ("num_gpu_blocks_override in the log belongs to the measuring of graphs, and is no cap",),
    }
    assert said_by_rank(facts) == {
        "EngineCore": {
            "utilisation": 0.9,
            "weights_bytes": 15.31,
            "graph_estimate_bytes": 0.83,
            "graph_bytes": 0.34,
            "kv_bytes": 8.29,
            "tokens": 108656,
            "max_concurrency": 13.26,
        }
    }
    assert facts.kv_bytes == gib(8.29)
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (108656, 6791, 13.26)
    assert facts.non_kv_bytes is None


def test_vllm_0_21_padded() -> None:
    """Graphs are charged; blocks are those the user fixed."""
    facts = read_startup_log(LOGS / "vllm_0_21_padded.log")
    assert said(facts) == {
        "engine": "vllm",
        "engine_version": "0.21.0",
        "scheduler": "V1",
        "model": "google/gemma-4-26B-A4B-it",
        "dtype": "bfloat16",
        "quantization": "modelopt_fp4",
        "kv_cache_dtype": "fp8_e4m3",
        "max_model_len": 200000,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "enforce_eager": False,
        "enable_prefix_caching": True,
        "gpu_memory_utilization": 0.85,
        "utilisation_without_graphs": 0.8445,
        "utilisation_for_the_old_kv": 0.8555,
        "num_gpu_blocks_override": 90000,
        "padding_layers": ((2, 6.67), (6, 60.0)),
    }
    assert said_by_rank(facts) == {
        "EngineCore": {
            "utilisation": 0.85,
            "weights_bytes": 17.25,
            "graph_estimate_bytes": 0.65,
            "kv_bytes": 71.59,
            "tokens": 1470588,
            "max_concurrency": 7.35,
        }
    }
    assert facts.kv_bytes == gib(71.59)
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (1470588, 90000, 7.35)
    assert facts.non_kv_bytes is None


def test_vllm_0_30_tp2() -> None:
    """One line for tokens and concurrency; weights and non-torch in one term."""
    facts = read_startup_log(LOGS / "vllm_0_30_tp2.log")
    assert said(facts) == {
        "engine": "vllm",
        "engine_version": "0.30.0",
        "scheduler": "V1",
        "model": "/models/glm-5",
        "dtype": "bfloat16",
        "quantization": "fp8",
        "kv_cache_dtype": "fp8_ds_mla",
        "max_model_len": 1048576,
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "enforce_eager": False,
        "enable_prefix_caching": True,
        "max_num_batched_tokens": 8200,
        "gpu_memory_utilization": 0.975,
        "is_ready": True,
    }
    assert said_by_rank(facts) == {
        "EngineCore": {"tokens": 1844583, "max_concurrency": 1.76},
        "Worker_TP0": {
            "total_bytes": 95.01,
            "free_at_start_bytes": 93.83,
            "utilisation": 0.975,
            "budget_bytes": 92.63,
            "weights_bytes": 80.12,
            "weights_and_non_torch_bytes": 82.69,
            "activation_bytes": 1.66,
            "graph_estimate_bytes": 0.64,
            "graph_bytes": 0.19,
            "printed_non_kv_bytes": 84.35,
            "kv_bytes": 8.28,
            "kv_to_fit_bytes": 7.9519,
            "kv_to_fill_bytes": 9.1461,
        },
        "Worker_TP1": {
            "total_bytes": 95.01,
            "free_at_start_bytes": 93.7,
            "utilisation": 0.975,
            "budget_bytes": 92.63,
            "weights_and_non_torch_bytes": 82.78,
            "activation_bytes": 1.66,
            "graph_bytes": 0.19,
            "kv_bytes": 8.19,
            "kv_to_fit_bytes": 7.8643,
            "kv_to_fill_bytes": 9.053,
        },
    }
    assert facts.kv_bytes == gib(8.19)
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (1844583, None, 1.76)
    assert facts.non_kv_bytes == gib(92.63) - gib(8.19)
