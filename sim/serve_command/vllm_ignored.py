"""vLLM's flags that leave GPU memory as it is, and those whose share of it is not accounted for.

Source: arg_utils.py and cli_args.py of vLLM 0.6.6, 0.7.3, 0.9.2, 0.11.2, 0.15.1, 0.19.0 and 0.33.0. Aliases are joined
by a slash. A flag that only moves data in host memory (offloaded KV, caches of images) leaves GPU memory as it is.
"""

from sim.serve_command.flags import harmless, noted
from sim.serve_command.values import SWITCH, Kind, Takes

ONE = Kind(Takes.ONE, str)
MANY = Kind(Takes.MANY, str)
MAYBE_ONE = Kind(Takes.MAYBE_ONE, str)

SWITCHES = """
aggregate-engine-logging allow-credentials allow-deprecated-quantization cohere-is-reasoning-model cudagraph-metrics
data-parallel-external-lb/-dpe data-parallel-hybrid-lb/-dph data-parallel-multi-port-external-lb/-dpm dcp-q-replicate
disable-async-output-proc disable-cascade-attn disable-chunked-mm-input disable-custom-all-reduce disable-fastapi-docs
disable-frontend-multiprocessing disable-log-requests disable-log-stats disable-mm-preprocessor-cache
disable-nccl-for-dp-synchronization disable-uvicorn-access-log enable-auto-tool-choice enable-batch-sharded-sampling
enable-ep-weight-filter enable-fault-tolerance enable-flash-late-interaction enable-flashinfer-autotune
enable-force-include-usage enable-hc-sp enable-layerwise-nvtx-tracing enable-log-deltas enable-log-outputs
enable-log-requests enable-logging-iteration-details enable-lora-bias enable-mamba-cache-stochastic-rounding
enable-mamba-shared-prefix-checkpoint enable-mfu-metrics enable-mixed-moe-lora-format enable-mm-embeds
enable-moe-shared-loras enable-multimodal-encoder-data-parallel enable-nccl-comm-suspend enable-offline-docs
enable-per-request-metrics enable-prompt-embeds enable-prompt-tokens-details enable-reasoning
enable-request-id-headers enable-scale-out enable-server-load-tracking enable-shm-tensor-arena enable-ssl-refresh
enable-tokenizer-info-endpoint enable-tower-connector-lora enable-trace-replay eplb-log-balancedness
exclude-tools-when-tool-choice-none expand-tools-even-if-tool-choice-none fail-on-environ-validation grpc
guided-decoding-disable-additional-properties guided-decoding-disable-any-whitespace guided-decoding-disable-fallback
headless interleave-mm-strings jit-monitor-verbose kv-cache-metrics log-error-stack
long-prefill-token-threshold-adaptive mm-device-do-normalize mm-encoder-only monokernel multi-step-stream-outputs
numa-bind ray-workers-use-nsight return-sampling-mask return-tokens-as-token-ids skip-tokenizer-init
sleep-mode-offload-cudagraph specialize-active-lora speculative-disable-mqa-scorer swa-bounded-replay tokens-only
trust-remote-code trust-request-chat-template trust-request-mm-kwargs use-fp64-gumbel use-tqdm-on-load
use-v2-block-manager worker-use-ray
"""
VALUES = """
allowed-headers allowed-local-media-path allowed-methods allowed-origins anthropic-disabled-thinking-effort
api-server-count/-asc aux-output-config chat-template chat-template-content-format code-revision cohere-format
config-format convert cp-kv-cache-interleave-size cpu-distributed-timeout-seconds custom-histogram-buckets
data-parallel-address/-dpa data-parallel-backend/-dpb data-parallel-rank/-dpn data-parallel-rpc-port/-dpp
data-parallel-start-rank/-dpr data-parallel-supervisor-port dbo-decode-token-threshold dbo-prefill-token-threshold
dcp-comm-backend dcp-kv-cache-interleave-size default-chat-template-kwargs default-mm-loras device
disable-access-log-for-endpoints distributed-executor-backend distributed-timeout-seconds download-dir
dp-supervisor-probe-failure-threshold dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s dp-sync-interval
ec-manager-config ec-transfer-config elastic-ep-max-dp-size eplb-step-interval eplb-window-size
expert-placement-strategy fault-tolerance-config fingerprint-mode fingerprint-value gdn-prefill-backend
generation-config grpc-port guided-decoding-backend h11-max-header-count h11-max-incomplete-event-size host
io-processor-plugin ir-op-priority jit-monitor-mode kda-decode-backend kda-prefill-backend kernel-config
kv-cache-metrics-sample kv-offloading-backend kv-offloading-size linear-backend log-config-file
log-level logging-config logits-processor-pattern logprobs-mode long-prefill-token-threshold lora-extra-vocab-size
mamba-backend mamba-cache-philox-rounds mamba-ssu-algorithm master-addr master-port max-cpu-loras max-log-len
max-logprobs max-long-partial-prefills max-lora-cls-labels max-num-partial-prefills max-num-queued-reqs
max-num-queued-tokens max-parallel-loading-workers max-prompt-adapter-token max-seq-len-to-capture media-io-kwargs
middleware mm-encoder-attn-backend mm-encoder-attn-dtype mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-margin
mm-encoder-fp8-scale-save-path mm-hasher-algorithm mm-processor-cache-gb mm-processor-cache-type mm-processor-device
mm-shm-cache-max-object-size-mb mm-tensor-ipc model-class-overrides model-impl model-loader-extra-config moe-backend
ngram-prompt-lookup-max ngram-prompt-lookup-min nnodes/-n node-rank/-r offload-backend offload-num-in-group
offload-prefetch-step otlp-traces-endpoint override-generation-config override-neuron-config override-pooler-config
per-request-spec-decode-metrics pooler-config port preemption-mode prefill-schedule-interval
prefix-cache-retention-interval prefix-caching-hash-algo profiler-config pt-load-map-location
qlora-adapter-name-or-path quantization-param-path reasoning-config reasoning-effort-map reasoning-parser
reasoning-parser-plugin renderer-num-workers replayssm-buffer-len response-role root-path runner
safetensors-load-strategy safetensors-prefetch-block-size safetensors-prefetch-num-threads scheduler-cls
scheduler-delay-factor scheduling-policy seed show-hidden-metrics-for-version shutdown-timeout sleep-mode-backend
sparse-indexer-topk-backend spec-decoding-acceptance-method speculative-disable-by-batch-size sse-keep-alive-interval
ssl-ca-certs ssl-cert-reqs ssl-certfile ssl-ciphers ssl-keyfile stream-interval structured-outputs-config task
tokenizer-mode tokenizer-pool-extra-config tokenizer-pool-size tokenizer-pool-type tokenizer-revision tool-call-parser
tool-parser-plugin tool-server tool-strict-level typical-acceptance-sampler-posterior-alpha
typical-acceptance-sampler-posterior-threshold uds uvicorn-log-level video-pruning-method video-pruning-rate
watchdog-config watermark watermark-config weight-transfer-config worker-cls worker-extension-cls
"""
LISTS = """
allowed-media-domains api-key collect-detailed-traces ignore-patterns logits-processors long-lora-scaling-factors
lora-modules lora-target-modules numa-bind-cpus numa-bind-nodes offload-params prompt-adapters served-model-name
sleep-preserve-parameter-names
"""

NOTED = (
    *noted(SWITCH, "adds buffers or copies of experts", "enable-eplb enable-elastic-ep enable-dbo"),
    *noted(ONE, "adds buffers or copies of experts", "eplb-config num-redundant-experts all2all-backend ubatch-size"),
    *noted(SWITCH, "moves memory to an allocator of its own", "enable-sleep-mode enable-cumem-allocator"),
    *noted(ONE, "may take buffers on the GPU", "mm-ipc-gpu-memory-gb engram-config"),
    *noted(
        ONE, "may take buffers on the GPU, and with some connectors lays hybrid models out alike", "kv-transfer-config"
    ),
    *noted(ONE, "lays hybrid models out alike in some versions up to 0.11", "kv-events-config"),
    *noted(SWITCH, "may take buffers on the GPU", "enable-return-routed-experts use-replayssm"),
    *noted(SWITCH, "may take buffers on the GPU", "enable-prompt-adapter"),
    *noted(ONE, "may take buffers on the GPU", "max-prompt-adapters"),
    *noted(ONE, "changes the peak while images are encoded", "mm-processor-kwargs"),
    *noted(ONE, "changes how weights are stored", "quantization-config"),
    *noted(ONE, "moves weights to host memory", "offload-group-size"),
    *noted(MANY, "moves weights to host memory", "cpu-offload-params"),
    *noted(SWITCH, "changes which layers fill the KV cache", "kv-sharing-fast-prefill"),
    *noted(ONE, "changes what is scheduled at once", "max-num-active-seqs max-num-scheduled-tokens"),
    *noted(ONE, "changes what is scheduled at once", "num-scheduler-steps num-lookahead-slots"),
    *noted(ONE, "changes the KV cache's layout", "prefix-match-unit override-attention-dtype"),
    *noted(ONE, "is passed on to a platform or model of its own", "additional-config diffusion-config/-dc"),
)
IGNORED = (
    *harmless(SWITCH, SWITCHES),
    *harmless(ONE, VALUES),
    *harmless(MANY, LISTS),
    *harmless(MAYBE_ONE, "disable-logprobs-during-spec-decoding hf-token"),
)
