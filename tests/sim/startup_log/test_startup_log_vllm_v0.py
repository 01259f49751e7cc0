"""Logs of vLLM's first scheduler, 0.3 to 0.7: every fact of each."""

from startup_log_facts import LOGS, gib, said, said_by_rank

from sim.startup_log import read_startup_log


def test_vllm_0_3_3() -> None:
    """Blocks alone; the version is not printed."""
    facts = read_startup_log(LOGS / "vllm_0_3_3.log")
    assert said(facts) == {
        "engine": "vllm",
        "scheduler": "V0",
        "model": "mistralai/Mistral-7B-Instruct-v0.2",
        "dtype": "float16",
        "kv_cache_dtype": "auto",
        "max_model_len": 16384,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "enforce_eager": False,
        "max_num_seqs": 256,
        "block_size": 16,
        "gpu_memory_utilization": 0.9,
        "is_ready": True,
    }
    assert said_by_rank(facts) == {"": {"num_gpu_blocks": 1952, "num_cpu_blocks": 2048}}
    assert facts.kv_bytes is None
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (None, 1952, None)
    assert facts.non_kv_bytes is None


def test_vllm_0_5_4_tp2() -> None:
    """Blocks of two ranks, the second one named by its process id."""
    facts = read_startup_log(LOGS / "vllm_0_5_4_tp2.log")
    assert said(facts) == {
        "engine": "vllm",
        "engine_version": "0.5.4",
        "scheduler": "V0",
        "model": "Qwen/Qwen2-72B-Instruct-AWQ",
        "dtype": "float16",
        "quantization": "awq_marlin",
        "kv_cache_dtype": "auto",
        "max_model_len": 8192,
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "max_num_seqs": 64,
        "block_size": 16,
        "gpu_memory_utilization": 0.95,
    }
    assert said_by_rank(facts) == {
        "": {"weights_bytes": 19.3821, "num_gpu_blocks": 6201, "num_cpu_blocks": 1638, "max_concurrency": 12.11},
        "VllmWorkerProcess 240": {"weights_bytes": 19.3821},
    }
    assert facts.kv_bytes is None
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (None, 6201, 12.11)
    assert facts.non_kv_bytes is None


def test_vllm_0_6_4() -> None:
    """The first release that prints its profile; weights are within the torch peak."""
    facts = read_startup_log(LOGS / "vllm_0_6_4.log")
    assert said(facts) == {
        "engine": "vllm",
        "engine_version": "0.6.4.post1",
        "scheduler": "V0",
        "model": "meta-llama/Llama-3.2-1B",
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "max_model_len": 2048,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "enforce_eager": False,
        "enable_prefix_caching": True,
        "gpu_memory_utilization": 0.9,
    }
    assert said_by_rank(facts) == {
        "": {
            "total_bytes": 7.92,
            "used_at_start_bytes": 3.09,
            "used_after_profile_bytes": 3.12,
            "utilisation": 0.9,
            "weights_bytes": 2.6419,
            "peak_torch_bytes": 3.12,
            "activation_bytes": 0.4781,
            "non_torch_bytes": 0.47,
            "graph_bytes": 0.33,
            "kv_bytes": 3.54,
            "num_gpu_blocks": 1207,
            "num_cpu_blocks": 1365,
            "max_concurrency": 9.43,
        }
    }
    assert facts.kv_bytes == gib(3.54)
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (None, 1207, 9.43)
    assert facts.non_kv_bytes == round(0.9 * gib(7.92)) - gib(3.54)


def test_vllm_0_7_3() -> None:
    """The profile as a sum, with the total: what is not KV follows."""
    facts = read_startup_log(LOGS / "vllm_0_7_3.log")
    assert said(facts) == {
        "engine": "vllm",
        "engine_version": "0.7.3",
        "scheduler": "V0",
        "model": "microsoft/phi-4",
        "dtype": "bfloat16",
        "quantization": "bitsandbytes",
        "kv_cache_dtype": "auto",
        "max_model_len": 2048,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "enforce_eager": False,
        "enable_prefix_caching": False,
        "gpu_memory_utilization": 0.9,
        "is_ready": True,
    }
    assert said_by_rank(facts) == {
        "": {
            "total_bytes": 39.56,
            "utilisation": 0.9,
            "budget_bytes": 35.6,
            "weights_bytes": 7.1694,
            "activation_bytes": 1.83,
            "non_torch_bytes": 0.01,
            "graph_bytes": 0.22,
            "kv_bytes": 26.6,
            "num_gpu_blocks": 13618,
            "num_cpu_blocks": 2048,
            "max_concurrency": 106.39,
        }
    }
    assert facts.kv_bytes == gib(26.6)
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (None, 13618, 106.39)
    assert facts.non_kv_bytes == gib(9.0)
