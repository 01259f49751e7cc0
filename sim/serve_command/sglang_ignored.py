"""SGLang's flags that leave GPU memory as it is, and those whose share of it is not accounted for.

Source: server_args.py of SGLang 0.4.6, 0.4.9, 0.5.2, 0.5.6, 0.5.9, 0.5.14 and 0.5.23. Aliases are
joined by a slash. A flag that only moves data in host memory (hierarchical cache) leaves GPU memory as it is.
"""

from sim.serve_command.flags import harmless, noted
from sim.serve_command.values import SWITCH, Kind, Takes

ONE = Kind(Takes.ONE, str)
MANY = Kind(Takes.MANY, str)
MAYBE_ONE = Kind(Takes.MAYBE_ONE, str)

SWITCHES = """
abort-on-priority-when-disabled allow-auto-truncate checkpoint-engine-wait-weights-before-ready
collect-tokens-histogram constrained-json-disable-any-whitespace debug-cuda-graph debug-tensor-dump-prefill-only
delete-ckpt-after-loading disable-aiter-allreduce-fusion-in-decode disable-aiter-allreduce-fusion-in-prefill
disable-attn-tp-gather disable-chunked-prefix-cache disable-cuda-graph-padding disable-custom-all-reduce
disable-fast-image-processor disable-flashinfer-autotune disable-flashinfer-cutlass-moe-fp4-allgather
disable-hicache-numa-detect disable-outlines-disk-cache disable-overlap-cg-plan disable-priority-preemption
disable-shared-experts-fusion disable-tokenizer-batch-decode disaggregation-decode-enable-offload-kvcache
disaggregation-decode-enable-radix-cache disaggregation-enable-kv-checksum dllm-fdfo
enable-adaptive-dispatch-to-encoder enable-aiter-allreduce-fusion enable-amd-monokernel enable-attn-tp-input-scattered
enable-broadcast-mm-inputs-process enable-cache-report enable-cp-decode-attn-tp enable-cudagraph-gc
enable-custom-logit-processor enable-decoder-swa-bounded-replay enable-dense-mlp-attn-tp
enable-deterministic-inference enable-double-sparsity enable-dp-attention-local-control-broadcast
enable-draft-weights-cpu-backup enable-dsa-fused-indexer enable-dsa-prefill-context-parallel
enable-dynamic-batch-tokenizer enable-dynamic-chunking enable-elastic-expert-backup enable-encoder-swa-bounded-replay
enable-expert-distribution-metrics enable-flashinfer-allreduce-fusion enable-flashinfer-autotune
enable-flashinfer-cutlass-moe enable-flashinfer-mla enable-flashinfer-moe enable-flashinfer-mxfp4-moe
enable-flashinfer-trtllm-moe enable-flashmla enable-flexkv enable-forward-pass-metrics enable-fp32-lm-head
enable-fused-moe-sum-all-reduce enable-fused-qk-norm-rope enable-hicache/enable-hierarchical-cache
enable-http-worker-reuseport enable-http2 enable-layernorm-sp enable-layerwise-nvtx-marker enable-lean-attention
enable-linear-replayssm-spec enable-linker-mla-dedup enable-lmcache enable-lora-overlap-loading
enable-mamba-cache-stochastic-rounding enable-megamoe-for-layernorm-sp enable-metrics
enable-metrics-for-all-schedulers enable-mfu-metrics enable-mis enable-mm-global-cache enable-mscclpp
enable-multimodal enable-nan-detection enable-nccl-nvls enable-nsa-prefill-context-parallel enable-nvidia-megakernel
enable-p2p-check enable-pd-role-switch enable-precise-embedding-interpolation enable-prefill-context-parallel
enable-prefill-cp enable-prefill-delayer enable-prefix-mm-cache enable-priority-scheduling enable-profile-cuda-graph
enable-quant-communications enable-request-time-stats-logging enable-response-store enable-return-aux-hidden-states
enable-return-hidden-states enable-return-indexer-topk enable-return-routed-experts enable-scattered-sconv
enable-session-radix-cache enable-shared-experts-attn-tp enable-ssl-refresh enable-streaming-session
enable-strict-thinking enable-tf32-matmul enable-tokenizer-batch-encode enable-torch-compile
enable-torch-compile-debug-mode enable-torch-symm-mem enable-tp-lm-head-all-to-all enable-trace
enable-triton-kernel-moe enable-unified-cache-external-linker enable-w4a4-mxfp4-megamoe enable-waterfill
enable-watermark enable-weights-cpu-backup enforce-disable-flashinfer-allreduce-fusion enforce-shared-experts-fusion
experts-shared-outer-loras export-metrics-to-file flashinfer-mla-disable-ragged grpc-mode incremental-streaming-output
is-embedding keep-mm-feature-on-device log-requests lora-strict-loading lora-use-virtual-experts mlx-enable-sampling
pre-warm-nccl prefill-round-robin-balance quantize-and-serve
remote-instance-weight-loader-start-seed-via-transfer-engine return-input-ids return-output-ids
schedule-low-priority-values-first show-time-cost skip-server-warmup skip-tokenizer-init sleep-on-idle smg-grpc-mode
speculative-adaptive speculative-dspark-align-verify-tokens-to-graph-tier speculative-enable-w4a4-mxfp4-megamoe
speculative-use-block-verification speculative-use-rejection-sampling stream-output
stream-response-default-include-usage strip-thinking-cache triton-attention-reduce-in-fp32 trust-mm-content-hashes
trust-remote-code trust-request-chat-template use-ray weight-loader-disable-mmap weight-loader-drop-cache-after-load
weight-loader-prefetch-checkpoints
"""
VALUES = """
admin-api-key api-key asr-max-buffer-seconds asr-max-concurrent-sessions base-gpu-id batch-notify-size
bf16-gemm-backend boundary-reduction chat-template completion-template constrained-json-max-whitespace-cnt
constrained-json-whitespace-pattern context-bucket/cuda-graph-prefill-max-context cp-strategy crash-dump-folder
custom-sigquit-handler dcp-comm-backend debug-tensor-dump-inject debug-tensor-dump-input-file
debug-tensor-dump-output-folder decode-attention-backend decode-log-interval decoupled-spec-bind-endpoint
decoupled-spec-connect-endpoints decoupled-spec-rank decoupled-spec-role decrypted-config-file
decrypted-draft-config-file deepep-config deepep-dispatcher-output-dtype deepep-mode deepep-v2-mode
default-chat-template-kwargs default-priority-value detokenizer-worker-num device disaggregation-bootstrap-port
disaggregation-decode-allocation-policy disaggregation-decode-dp disaggregation-decode-host-receive-threshold
disaggregation-decode-polling-interval disaggregation-decode-retraction-backup disaggregation-decode-tp
disaggregation-ib-device disaggregation-prefill-pp disaggregation-transfer-backend dist-init-addr/nccl-init-addr
dist-timeout dllm-algorithm dllm-algorithm-config dllm-block-size download-dir ds-channel-config-path
ds-heavy-channel-num ds-heavy-channel-type ds-heavy-token-num ds-sparse-decode-threshold dsa-decode-backend
dsa-paged-mqa-logits-backend dsa-prefill-backend dsa-prefill-cp-mode dsa-topk-backend dsa-triton-union
dsv4-attn-backend dsv4-prefill-backend dynamic-batch-tokenizer-batch-size dynamic-batch-tokenizer-batch-timeout
elastic-ep-backend elastic-ep-initial-size elastic-ep-join-mode elastic-ep-join-rank-offset elastic-ep-scale-timeout
encoder-bootstrap-port encoder-transfer-backend engine-info-bootstrap-port ep-dispatch-algorithm eplb-algorithm
eplb-min-rebalancing-utilization-threshold eplb-rebalance-layers-per-chunk eplb-rebalance-num-iterations
expert-balancedness-report-mode expert-distribution-recorder-buffer-size expert-distribution-recorder-mode
export-metrics-to-file-dir extra-metric-labels fastapi-root-path file-storage-path flashinfer-a2a-dispatch-type
flashinfer-allreduce-fusion-backend flashinfer-mxfp4-moe-precision flexkv-config-file forward-hooks
forward-pass-metrics-ipc-name forward-pass-metrics-worker-id fp4-gemm-backend/fp4-gemm-runner-backend
fp8-gemm-backend/fp8-gemm-runner-backend fuseep-mode gated-launch-port gc-warning-threshold-secs gpu-id-step
grammar-backend grpc-http-sidecar-port/smg-http-sidecar-port grpc-port grpc-response-timeout-secs
hf-chat-template-name hicache-host-memory-fraction hicache-host-memory-mode hicache-io-backend hicache-mem-layout
hicache-ratio hicache-size hicache-storage-backend hicache-storage-backend-extra-config
hicache-storage-prefetch-policy hicache-storage-prefetch-retry-max-attempts
hicache-storage-prefetch-retry-poll-interval hicache-write-policy host http2-initial-connection-window-size
http2-max-concurrent-streams image-processor-backend impl init-expert-location kt-cpuinfer
kt-max-deferred-experts-per-token kt-threadpool-count kv-canary kv-canary-real-data kv-canary-sweep-interval
kv-events-config linear-attn-backend linear-attn-decode-backend linear-attn-prefill-backend linear-attn-verify-backend
lmcache-config-file load-balance-method load-publish-endpoint load-snapshot-publish-interval load-watch-interval
log-level log-level-http log-requests-format log-requests-level lora-backend lora-drain-wait-threshold
lora-eviction-policy mamba-backend mamba-cache-philox-rounds mamba-max-states-per-path mamba-track-interval
max-loaded-loras max-lora-chunk-size max-queued-requests media-url-max-file-size-mb min-free-slots-delay
mm-attention-backend mm-feature-transport mm-io-worker-num mm-max-concurrent-calls mm-per-request-timeout
mm-preprocess-cache-size-mb mm-processor-worker-num model-config-parser model-impl model-loader-extra-config
model-type modelexpress-config modelopt-checkpoint-restore-path modelopt-checkpoint-save-path modelopt-export-path
moe-runner-backend monokernel-backend mooncake-ib-device msprobe-dump-config multi-item-scoring-delimiter
n-share-experts-fusion nccl-port nnodes node-rank nsa-decode-backend nsa-prefill-backend nsa-prefill-cp-mode
num-continuous-decode-steps offload-num-in-group offload-prefetch-step optimistic-prefill-attempts otlp-service-name
otlp-traces-endpoint pdlb-url pdmux-config-path piecewise-cuda-graph-compiler ple-offload-backend ple-offload-dir port
pp-async-batch-depth preferred-sampling-params prefill-attention-backend prefill-cp-mode prefill-decode-interval
prefill-decode-interval-min-bs prefill-delayer-max-delay-ms prefill-delayer-max-delay-passes
prefill-delayer-queue-min-ratio prefill-delayer-token-usage-low-watermark prefill-max-requests
priority-scheduling-preemption-threshold quantization-param-path radix-cache-backend radix-eviction-policy
radix-eviction-policy-config random-seed reasoning-parser remote-instance-weight-loader-backend
remote-instance-weight-loader-seed-instance-ip remote-instance-weight-loader-seed-instance-service-port
remote-instance-weight-loader-send-weights-group-ports retraction-policy return-hidden-states-mode rl-on-policy-target
sampling-backend sampling-defaults sampling-mask-max-tokens schedule-conservativeness schedule-policy
scheduler-recv-interval served-model-name sidecar sidecar-args sm-group-num soft-watchdog-timeout spec-trace-dir
speculative-accept-threshold-acc speculative-accept-threshold-single speculative-adaptive-config
speculative-attention-mode speculative-domino-candidate-pool-size speculative-draft-attention-backend
speculative-draft-load-format speculative-draft-model-revision speculative-draft-sink-size
speculative-dsa-topk-backend speculative-dspark-confidence-sts-path speculative-dspark-sps-table-path
speculative-moe-a2a-backend speculative-moe-runner-backend speculative-ngram-branch-length speculative-ngram-capacity
speculative-ngram-external-corpus-max-tokens speculative-ngram-external-corpus-path
speculative-ngram-external-sam-budget speculative-ngram-match-type speculative-ngram-max-bfs-breadth
speculative-ngram-max-match-window-size speculative-ngram-max-trie-depth speculative-ngram-min-bfs-breadth
speculative-ngram-min-match-window-size speculative-token-map ssl-ca-certs ssl-certfile ssl-keyfile
ssl-keyfile-password startup-weight-load-mode stream-interval swa-prefix-tails tbo-token-distribution-threshold
tokenizer-backend tokenizer-metrics-custom-labels-header tokenizer-mode tokenizer-worker-num tool-call-parser
tool-server torch-compile-max-bs trace-modules triton-attention-num-kv-splits triton-attention-split-tile-size
unified-cache-external-linker-backend unified-cache-external-linker-config warmups watchdog-timeout watermark-config
weight-cache-mode weight-cache-socket weight-cache-timeout weight-loader-prefetch-num-threads weight-version
"""
LISTS = """
allowed-media-domains bucket-e2e-request-latency bucket-inter-token-latency bucket-time-to-first-token
custom-weight-loader debug-tensor-dump-layers encoder-register-urls encoder-urls flashinfer-autotune-skip-ops
gc-threshold generation-tokens-buckets log-requests-target lora-target-modules numa-node
prefill-delayer-forward-passes-buckets prefill-delayer-wait-seconds-buckets prompt-tokens-buckets
return-aux-hidden-state-layer-ids tokenizer-metrics-allowed-custom-labels uvicorn-access-log-exclude-prefixes
"""

EXPERTS = "adds buffers or copies of experts"
POOLS = "changes the pools' sizes"
PREFILL_GRAPHS = "changes the memory of prefill graphs"
ELSEWHERE = "keeps weights elsewhere or differently"
BUFFERS = "may take buffers on the GPU"
NOTED = (
    *noted(SWITCH, EXPERTS, "enable-eplb enable-deepep-moe enable-two-batch-overlap enable-single-batch-overlap"),
    *noted(ONE, EXPERTS, "ep-num-redundant-experts moe-a2a-backend max-ep-size"),
    *noted(SWITCH, POOLS, "enable-unified-memory enable-page-major-kv-layout enable-kv-cache-sharding enable-pdmux"),
    *noted(SWITCH, POOLS, "prefill-only-disable-kv-cache enable-int8-mamba-checkpoint enable-linear-replayssm"),
    *noted(SWITCH, POOLS, "enable-hisparse enable-dsa-cache-layer-split enable-deepseek-v4-fp4-indexer"),
    *noted(ONE, POOLS, "hisparse-config/hierarchical-sparse-attention-extra-config c128-page-size"),
    *noted(ONE, POOLS, "int8-mamba-ckpt-size linear-replayssm-cache-len qsa-indexer-dtype"),
    *noted(ONE, POOLS, "prefill-kv-cache-dequant-dtype attn-cp-size/attention-context-parallel-size"),
    *noted(ONE, POOLS, "disaggregation-mode disaggregation-decode-extra-slots num-reserved-decode-tokens"),
    *noted(ONE, POOLS, "pp-max-micro-batch-size max-micro-batch-size"),
    *noted(MAYBE_ONE, POOLS, "hybrid-kvcache-ratio"),
    *noted(SWITCH, "adds running requests to a prefill batch", "enable-mixed-chunk"),
    *noted(SWITCH, PREFILL_GRAPHS, "enable-piecewise-cuda-graph disable-prefill-cuda-graph"),
    *noted(SWITCH, PREFILL_GRAPHS, "enable-breakable-cuda-graph enforce-piecewise-cuda-graph"),
    *noted(ONE, PREFILL_GRAPHS, "piecewise-cuda-graph-tokens piecewise-cuda-graph-max-tokens"),
    *noted(ONE, PREFILL_GRAPHS, "cuda-graph-max-bs-prefill cuda-graph-max-seq-len-prefill"),
    *noted(ONE, PREFILL_GRAPHS, "cuda-graph-config cuda-graph-backend-prefill"),
    *noted(MANY, PREFILL_GRAPHS, "cuda-graph-bs-prefill"),
    *noted(SWITCH, ELSEWHERE, "enable-dp-lm-head encoder-only enable-paged-experts ple-offload-embedding"),
    *noted(SWITCH, ELSEWHERE, "dcp-replicate-q-proj mm-enable-dp-encoder"),
    *noted(ONE, ELSEWHERE, "moe-dense-tp-size moe-dp-size/moe-data-parallel-size dwdp-size shared-experts-tp-size"),
    *noted(ONE, ELSEWHERE, "kt-num-gpu-experts kt-method kt-weight-path paged-experts-num-resident"),
    *noted(ONE, ELSEWHERE, "offload-group-size offload-mode torchao-config modelopt-quant rl-quant-profile"),
    *noted(ONE, ELSEWHERE, "uno-lora-path"),
    *noted(SWITCH, BUFFERS, "enable-memory-saver enable-symm-mem enable-multi-layer-eagle"),
    *noted(ONE, BUFFERS, "speculative-draft-window-size speculative-dflash-block-size speculative-dspark-block-size"),
    *noted(ONE, BUFFERS, "speculative-dflash-draft-window-size"),
    *noted(ONE, BUFFERS, "mm-process-config mm-global-cache-backend"),
)
IGNORED = (
    *harmless(SWITCH, SWITCHES),
    *harmless(ONE, VALUES),
    *harmless(MANY, LISTS),
    *harmless(MAYBE_ONE, "model-checksum"),
)
