"""The scenario that tests of the command line write and break."""

SMALL = """
name: small
gpu: L4
model: Qwen3-4B
weight_dtype: fp8
profile: l4-qwen3-4b-fp8
engine:
  kv_cache_dtype: fp8
  kv_cache_tokens: 20000
  max_model_len: 4096
  max_num_batched_tokens: 2048
workload: {shared_prefix_tokens: 512, turns: 2, new_tokens: 100, output_tokens: 5}
load: {kind: closed, sessions: [1, 2]}
stop: {sessions_per_client: 1}
slo: {ttft_p99_s: 2.0}
seeds: 2
variants:
  - {name: bf16 KV, set: {engine.kv_cache_dtype: bf16}}
"""
