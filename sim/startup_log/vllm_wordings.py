"""What vLLM prints about memory while it starts, from 0.3 to 0.31, as fragments.

Read off posted logs and the public source of those versions. Old releases say GB where they mean GiB.
"""

from sim.startup_log.wording import wording

VLLM_WORDINGS = (
    # who, what
    wording("API server version", r"API server version v?(?P<engine_version__word>[0-9]\S{0,60})"),
    wording("█  version", r"█  version v?(?P<engine_version__word>[0-9]\S{0,60})"),
    wording("█  model", r"█  model +(?P<model__word>\S{1,400})"),
    wording(
        "LLM ",
        r"Initializing (?:a )?(?P<scheduler__word>an|V[01]) LLM [eE]ngine"
        r"(?: \(v(?P<engine_version__word>[^\s)]{1,60})\))?",
    ),
    wording("LLM Engine (v", r"(?<!an )(?<!V[01] )LLM Engine \(v(?P<engine_version__word>[^\s)]{1,60})\)"),
    wording("device_name=", r"device_name=(?P<gpu_name__word>[\w-]{1,60}?)(?:,|\.json)"),
    wording("GPU 0: ", r"GPU 0: (?P<gpu_name__word>[\w -]{1,60})"),
    wording("Using max model len", r"Using max model len <max_model_len__count>(?![0-9])"),
    wording("max_num_batched_tokens=", r"enabled with max_num_batched_tokens=<max_num_batched_tokens__count>(?=[\s.])"),
    # weights
    wording("loading took", r"Model loading took <weights_bytes__difference_gib> ?Gi?B"),
    wording("Loading model weights took", r"Loading model weights took <weights_bytes__difference_gib> ?Gi?B"),
    # V0: the profile
    wording("total_gpu_memory (", r"total_gpu_memory \(<total_bytes__gib> ?GiB\)"),
    wording(
        "gpu_memory_utilization (", r"gpu_memory_utilization \(<utilisation__share>\)(?: = <budget_bytes__gib> ?GiB)?"
    ),
    wording("model weights take", r"model weights take <weights_bytes__difference_gib> ?GiB"),
    wording("non_torch_memory takes", r"non_torch_memory takes <non_torch_bytes__difference_gib> ?GiB"),
    wording("activation peak memory", r"activation peak memory takes <activation_bytes__difference_gib> ?GiB"),
    wording("reserved for KV Cache is", r"reserved for KV Cache is <kv_bytes__difference_gib> ?GiB"),
    wording("Memory profiling results", r"total_gpu_memory=<total_bytes__gib>Gi[bB]"),
    wording("initial_memory_usage=", r"initial_memory_usage=<used_at_start_bytes__gib>Gi[bB]"),
    wording("peak_torch_memory=", r"peak_torch_memory=<peak_torch_bytes__gib>Gi[bB]"),
    wording("memory_usage_post_profile=", r"memory_usage_post_profile=<used_after_profile_bytes__gib>Gi[bB]"),
    wording("non_torch_memory=", r"non_torch_memory=<non_torch_bytes__difference_gib>Gi[bB]"),
    wording("kv_cache_size=", r"kv_cache_size=<kv_bytes__difference_gib>Gi[bB]"),
    wording("Memory profiling results", r"GiB gpu_memory_utilization=<utilisation__share>(?=\s|$)"),
    wording(
        " blocks: ", r"# (?:GPU|[a-z]{2,8}) blocks: <num_gpu_blocks__count>, # CPU blocks: <num_cpu_blocks__count>"
    ),
    wording("num_gpu_blocks is: ", r"num_gpu_blocks is: <num_gpu_blocks__count>(?![0-9])"),
    # V1: the profile
    wording("Available KV cache memory: ", r"Available KV cache memory: <kv_bytes__difference_gib> ?GiB"),
    wording("memory for KV Cache", r"reserved <kv_bytes__gib> ?GiB memory for KV Cache"),
    wording("Initial free memory", r"Initial free memory:? <free_at_start_bytes__gib> ?GiB"),
    wording("Requested memory: ", r"Requested memory: <utilisation__share> \(util\), <budget_bytes__gib> ?GiB"),
    wording("Total non KV cache memory", r"Total non KV cache memory: <printed_non_kv_bytes__difference_gib> ?GiB"),
    wording("torch peak memory increase", r"torch peak memory increase: <activation_bytes__difference_gib> ?GiB"),
    wording("non-torch forward", r"non-torch forward increase memory: <non_torch_bytes__difference_gib> ?GiB"),
    wording(
        "(from mem_get_info)",
        r"total consumed \(from mem_get_info\): <weights_and_non_torch_bytes__difference_gib> ?GiB",
    ),
    wording("weights memory: ", r"weights memory: <weights_bytes__difference_gib> ?GiB"),
    wording("Free memory on device", r"\(<free_at_start_bytes__gib>/<total_bytes__gib> ?GiB\) on startup"),
    wording(
        "GPU memory utilization",
        r"esired GPU memory utilization(?: is)? \(<utilisation__share>, <budget_bytes__gib> ?GiB\)",
    ),
    wording("GiB for weight", r"<<weights_bytes__difference_gib>> ?GiB for weight"),
    wording("for consumed memory", r"<<weights_and_non_torch_bytes__difference_gib>> ?GiB for consumed memory"),
    wording("for peak activation", r"<<activation_bytes__difference_gib>> ?GiB for peak activation"),
    wording("for non-torch memory", r"<<non_torch_bytes__difference_gib>> ?GiB for non-torch memory"),
    wording("for CUDAGraph memory", r"<<graph_bytes__difference_gib>> ?GiB for CUDAGraph memory"),
    wording(
        "--kv-cache-memory",
        r"--kv-cache-memory(?:-bytes)?=<kv_to_fit_bytes__bytes>`?(?: \([^()]{1,40}\))? to fit",
    ),
    wording(
        "to fully utilize",
        r"--kv-cache-memory(?:-bytes)?=<kv_to_fill_bytes__bytes>`?(?: \([^()]{1,40}\))? to fully utilize",
    ),
    wording("memory in use is", r"kv cache memory in use is <kv_in_use_bytes__bytes> bytes"),
    wording("memory in use is", r"kv cache memory in use is <kv_bytes__difference_gib> ?GiB"),
    wording("Estimated CUDA graph memory", r"CUDA graph memory: <graph_estimate_bytes__difference_gib> ?GiB total"),
    wording("Graph capturing finished", r"took <graph_bytes__difference_gib> ?GiB"),
    wording(
        "CUDA graph pool memory",
        r"CUDA graph pool memory: <graph_bytes__difference_gib> ?GiB \(actual\)"
        r"(?:, <graph_estimate_bytes__difference_gib> ?GiB \(estimated\))?",
    ),
    wording(
        "is equivalent to",
        r"--gpu-memory-utilization=<utilisation__share> is equivalent to "
        r"--gpu-memory-utilization=<utilisation_without_graphs__share> without",
    ),
    wording(
        "increase --gpu-memory-utilization",
        r"increase --gpu-memory-utilization (?:from <utilisation__share> )?to "
        r"<utilisation_for_the_old_kv__share>(?: |(?<=[0-9]{4}\.)$)",
    ),
    # what it comes to
    wording("GPU KV cache size: ", r"GPU KV cache size: <tokens__count> tokens"),
    wording(
        "Maximum concurrency for",
        r"Maximum concurrency for <concurrency_at_tokens__count> tokens per request: <max_concurrency__times>x",
    ),
    wording("cp_world_size", r"KV cache size by the d?cp_world_size <context_parallel_size__count>(?=[\s.])"),
    wording(
        "Auto-fit max_model_len", r"reduced from <auto_fit_from_tokens__count> to <auto_fit_to_tokens__count> to fit"
    ),
    wording(
        "Overriding num_gpu_blocks",
        r"num_gpu_blocks=<overridden_blocks__count> with num_gpu_blocks_override="
        r"<override_blocks__count>(?![0-9])",
    ),
    # hybrids
    wording("attention block size to", r"Setting attention block size to <attention_block_size__count> tokens"),
    wording("Padding mamba page size", r"Padding mamba page size by <mamba_page_padding_percent__times>%"),
    wording(
        "padding layers",
        r"Add <padding_layers__count> padding layers, may waste at most "
        r"<padding_layers_waste_percent__times>% KV",
    ),
    wording("to fit Mamba cache blocks", r"\(<mamba_blocks__count> blocks"),
    wording(
        "available Mamba cache blocks",
        r"max_num_seqs \(<refused_num_seqs__count>\) exceeds available Mamba cache "
        r"blocks \(<mamba_blocks__count>\)",
    ),
    # refusals
    wording("max seq len (", r"max seq len \(<refused_max_model_len__count>\)"),
    wording("GiB KV cache is needed", r"<<needed_kv_bytes__gib>> ?GiB KV cache is needed"),
    wording("available KV cache memory (", r"available KV cache memory \(<available_kv_bytes__difference_gib> ?GiB\)"),
    wording("estimated maximum model length", r"maximum model length is <estimated_max_model_len__count>(?<=\.)"),
    wording("stored in KV cache (", r"stored in KV cache \(<capacity_tokens__count>\)"),
)

# Lines that mean the engine will not start, and why, in our words; a number beside them comes from the wordings above.
VLLM_REFUSALS = (
    ("No available memory for the cache blocks", "no memory is left for KV"),
    ("GiB KV cache is needed", "KV holds less than one request of max_model_len"),
    ("stored in KV cache (", "KV holds less than one request of max_model_len"),
    ("Cannot auto-fit max_model_len", "no memory is left for KV"),
    ("on startup is less than desired GPU memory", "less memory is free than gpu_memory_utilization asks for"),
    ("exceeds available Mamba cache blocks", "fewer state blocks than max_num_seqs"),
)
