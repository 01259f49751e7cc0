"""Logs of SGLang, 0.3 to 0.5: every fact of each."""

from startup_log_facts import LOGS, gib, said, said_by_rank

from sim.startup_log import read_startup_log


def test_sglang_0_3() -> None:
    """Free memory at each step, weights by difference."""
    facts = read_startup_log(LOGS / "sglang_0_3.log")
    assert said(facts) == {
        "engine": "sglang",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "dtype": "bfloat16",
        "max_model_len": 131072,
        "tensor_parallel_size": 1,
        "enforce_eager": False,
        "enable_prefix_caching": True,
        "max_num_seqs": 2049,
        "mem_fraction_static": 0.87,
        "max_prefill_tokens": 16384,
        "chunked_prefill_size": 8192,
    }
    assert said_by_rank(facts) == {
        "TP0": {
            "weights_bytes": 15.13,
            "tokens": 444500,
            "free_before_load_bytes": 78.85,
            "free_after_load_bytes": 63.72,
            "free_after_pool_bytes": 8.34,
        }
    }
    assert facts.kv_bytes is None
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (444500, None, None)
    assert facts.non_kv_bytes is None


def test_sglang_0_4_mla_tp2() -> None:
    """A latent pool a rank, of which the smaller holds."""
    facts = read_startup_log(LOGS / "sglang_0_4_mla_tp2.log")
    assert said(facts) == {
        "engine": "sglang",
        "model": "deepseek-ai/DeepSeek-V2-Lite",
        "dtype": "bfloat16",
        "quantization": "fp8",
        "kv_cache_dtype": "fp8_e4m3",
        "max_model_len": 163840,
        "tensor_parallel_size": 2,
        "data_parallel_size": 2,
        "enforce_eager": False,
        "enable_prefix_caching": False,
        "max_num_seqs": 4096,
        "block_size": 64,
        "mem_fraction_static": 0.81,
        "max_prefill_tokens": 16384,
        "chunked_prefill_size": 8192,
        "is_ready": True,
    }
    assert said_by_rank(facts) == {
        "DP0 TP0": {
            "weights_bytes": 15.52,
            "graph_bytes": 0.89,
            "kv_bytes": 47.94,
            "tokens": 3309312,
            "free_before_load_bytes": 79.1,
            "free_after_load_bytes": 63.58,
            "free_after_pool_bytes": 15.12,
            "free_before_graphs_bytes": 14.8,
            "free_after_graphs_bytes": 13.91,
            "free_when_ready_bytes": 13.91,
        },
        "DP1 TP1": {
            "weights_bytes": 15.52,
            "kv_bytes": 47.88,
            "tokens": 3309312,
            "free_before_load_bytes": 79.04,
            "free_after_load_bytes": 63.52,
            "free_after_pool_bytes": 15.11,
        },
    }
    assert facts.kv_bytes == gib(47.88)
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (3309312, None, None)
    assert facts.non_kv_bytes is None


def test_sglang_0_5_hybrid_draft() -> None:
    """State slots, a draft's weights and KV apart, and running requests capped."""
    facts = read_startup_log(LOGS / "sglang_0_5_hybrid_draft.log")
    assert said(facts) == {
        "engine": "sglang",
        "engine_version": "0.5.17",
        "model": "Qwen/Qwen3.6-27B",
        "dtype": "auto",
        "kv_cache_dtype": "bfloat16",
        "max_model_len": 160000,
        "tensor_parallel_size": 1,
        "enforce_eager": False,
        "enable_prefix_caching": True,
        "max_num_seqs": 2,
        "block_size": 1,
        "mem_fraction_static": 0.85,
        "max_prefill_tokens": 16384,
        "chunked_prefill_size": 4096,
        "capped_running_requests": 2,
    }
    assert said_by_rank(facts) == {
        "": {
            "weights_bytes": 28.47,
            "graph_bytes": 1.6,
            "kv_bytes": 10.44,
            "tokens": 171008,
            "free_before_load_bytes": 78.48,
            "free_after_load_bytes": 50.01,
            "free_after_pool_bytes": 29.0,
            "free_before_graphs_bytes": 27.0,
            "free_after_graphs_bytes": 25.34,
            "free_when_ready_bytes": 25.34,
            "k_bytes": 5.22,
            "v_bytes": 5.22,
            "state_slots": 10,
            "conv_state_bytes": 0.12,
            "ssm_state_bytes": 3.09,
            "intermediate_ssm_bytes": 2.11,
            "intermediate_conv_bytes": 0.04,
            "draft_weights_bytes": 0.88,
            "draft_kv_bytes": 0.66,
        }
    }
    assert facts.kv_bytes == 2 * gib(5.22)
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (171008, None, None)
    assert facts.non_kv_bytes is None


def test_sglang_0_5_window() -> None:
    """Two pools under one name: KV is both, tokens are the full one's."""
    facts = read_startup_log(LOGS / "sglang_0_5_window.log")
    assert said(facts) == {
        "engine": "sglang",
        "model": "google/gemma-4-31B-it",
        "dtype": "auto",
        "kv_cache_dtype": "fp8_e5m2",
        "max_model_len": 262144,
        "tensor_parallel_size": 1,
        "max_num_seqs": 256,
        "mem_fraction_static": 0.88,
        "max_prefill_tokens": 16384,
        "chunked_prefill_size": 8192,
    }
    assert said_by_rank(facts) == {
        "": {
            "weights_bytes": 3.5,
            "graph_bytes": 0.24,
            "kv_bytes": 3.18,
            "tokens": 37081,
            "free_before_load_bytes": 93.61,
            "free_after_load_bytes": 90.11,
            "free_after_pool_bytes": 6.8,
            "free_after_graphs_bytes": 6.56,
            "free_when_ready_bytes": 6.56,
            "k_bytes": 1.41,
            "v_bytes": 1.41,
            "window_tokens": 29664,
            "full_tokens": 37081,
        }
    }
    assert facts.kv_bytes == gib(3.18)
    assert (facts.tokens, facts.num_gpu_blocks, facts.max_concurrency) == (37081, None, None)
    assert facts.non_kv_bytes is None
