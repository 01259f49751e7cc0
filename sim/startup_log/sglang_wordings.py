"""What SGLang prints about memory while it starts, from 0.3 to 0.5, as fragments. Its GB is 2**30 bytes.

Read off posted logs and the public source of those versions.
"""

from sim.startup_log.wording import wording

SGLANG_WORDINGS = (
    wording("sglang version", r"sglang version[: =]{1,3}v?(?P<engine_version__word>[0-9]\S{0,60})"),
    wording("Load weight begin", r"avail mem=<free_before_load_bytes__gib> ?GB"),
    wording("Load weight end", r"avail mem=<free_after_load_bytes__gib> ?GB"),
    wording("Load weight end", r"mem usage=<loaded_bytes__difference_gib> ?GB"),
    wording("Load weight end", r"dtype=torch\.(?P<dtype__word>\w{1,30}),"),
    wording("Using KV cache dtype", r"Using KV cache dtype: torch\.(?P<pool_dtype__word>\w{1,30})"),
    wording("KV Cache is allocated", r"dtype: torch\.(?P<pool_dtype__word>\w{1,30}),"),
    wording("KV Cache is allocated", r"#tokens: <pool_tokens__count>,"),
    wording("KV Cache is allocated", r"\bK size: <k_bytes__gib> ?GB, V size: <v_bytes__gib> ?GB"),
    wording("KV Cache is allocated", r"KV size: <latent_bytes__gib> ?GB"),
    wording("SWAKVPool mem usage", r"SWAKVPool mem usage: <window_pool_bytes__gib> ?GB"),
    wording("swa size: ", r"swa size: <window_tokens__count>, full size: <full_tokens__count>(?![0-9])"),
    wording("Mamba Cache is allocated", r"max_mamba_cache_size: <state_slots__count>,"),
    wording("conv_state size", r"conv_state size: <conv_state_bytes__gib> ?GB"),
    wording("ssm_state size", r"ssm_state size: <ssm_state_bytes__gib> ?GB"),
    wording("intermediate_ssm_state_cache", r"intermediate_ssm_state_cache size: <intermediate_ssm_bytes__gib> ?GB"),
    wording("intermediate_conv_window", r"intermediate_conv_window_cache size: <intermediate_conv_bytes__gib> ?GB"),
    wording("Memory pool end", r"avail mem=<free_after_pool_bytes__gib> ?GB"),
    wording("graph begin", r"avail mem=<free_before_graphs_bytes__gib> ?GB"),
    wording("graph end", r"mem usage=<captured_bytes__difference_gib> ?GB"),
    wording("graph end", r"avail mem=<free_after_graphs_bytes__gib> ?GB"),
    wording("memory for KV cache is", r"available memory for KV cache is <kv_bytes__difference_gib> ?GB"),
    wording(
        "bytes_per_full_token=", r"available_bytes=<kv_bytes__difference_gib> ?GB, full_token=<pool_tokens__count>"
    ),
    wording("max_total_num_tokens=", r"max_total_num_tokens=<tokens__count>,"),
    wording("max_prefill_tokens=", r"max_prefill_tokens=<max_prefill_tokens__count>,"),
    wording("chunked_prefill_size=", r"[ ,]chunked_prefill_size=<chunked_prefill_size__count>, max_prefill"),
    wording("max_total_num_tokens=", r"max_running_requests=<max_running_requests__count>,"),
    wording("max_total_num_tokens=", r"context_len=<context_tokens__count>(?=,|\s|$)"),
    wording("max_total_num_tokens=", r"available_gpu_mem=<free_when_ready_bytes__gib> ?GB"),
    wording(
        "max_running_requests", r"max_running_requests is (?:capped|reduced) to <capped_running_requests__count>(?=\s)"
    ),
)

SGLANG_REFUSALS = (("Not enough memory. Please try to increase --mem-fraction-static", "no memory is left for KV"),)
