"""The experiment: a tiny random-weight model on one CPU thread, and a KV cache a handful of sessions fill.

Small on purpose, so that a run takes half a minute: 319 usable blocks of 32 tokens, contexts of up to 3,000.
"""

from typing import Any

from calibrate.validation.cliff_workload import Shape

MODEL: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 384,
    "intermediate_size": 1152,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 4096,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ENGINE: dict[str, Any] = {
    "block_size": 32,  # vLLM on CPU takes multiples of 32
    "num_gpu_blocks": 320,  # block 0 included
    "max_num_batched_tokens": 512,
    "max_num_seqs": 16,
    "max_model_len": 4096,
    "enable_prefix_caching": True,
    "enable_chunked_prefill": True,
    "async_scheduling": False,
}
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # in this process: its thread's CPU time is the clock
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",
}
PROFILES = {
    "agent": Shape(
        shared=512, first=(256, 512), grow=(160, 320), out=(24, 48), turns=8, turns_per_slot=16, think=(0.5, 1.5),
        stagger=0.4,
    ),
    "longout": Shape(
        shared=512, first=(64, 128), grow=(32, 96), out=(96, 224), turns=6, turns_per_slot=12, think=(0.2, 0.6),
        stagger=0.2,
    ),
}  # fmt: skip
