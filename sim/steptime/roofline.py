"""A profile from nothing but data-sheet peaks: the fallback where nobody measured, and it says so.

Peaks are never reached. The shares assumed here are what public step times of vLLM reach in the mid range
(A100, H100, L20 and L4 traces): 65 % of FLOPs in linear layers and attention, 80 % of memory bandwidth. Each
term carries the range between the peak and a pessimistic share.
"""

from sim.catalog import KV_FAMILIES, Gpu, Model
from sim.steptime.light_speed import bounds
from sim.steptime.profile import Frontend, Head, KvAttention, Linear, Profile, Provenance, Term

FLOPS_SHARE = 0.65
FLOPS_SHARE_LOW = 0.35
BANDWIDTH_SHARE = 0.8
BANDWIDTH_SHARE_LOW = 0.6
STEP_OVERHEAD_S = 0.003
_HOPPER = "9."  # FlashAttention 3 works on 128 query rows, FlashAttention 2 with a paged cache on 64
_LONGEST_STEP_TOKENS = 65536


def roofline_profile(gpu: Gpu, model: Model, weight_dtype: str) -> Profile:
    """Return a profile for any GPU and model, every term labelled roofline or assumed."""
    light = bounds(gpu, model, weight_dtype)
    read_s, token_s = light.linear_read_s / BANDWIDTH_SHARE, light.linear_s_per_token / FLOPS_SHARE
    bend = max(2, round(read_s / token_s))
    last = max(_LONGEST_STEP_TOKENS, 2 * bend)
    pair = light.pair_16bit_s
    attention = KvAttention(
        prefill_s_per_pair=_roofline(pair / FLOPS_SHARE, pair, pair / FLOPS_SHARE_LOW),
        decode_bytes_per_s=_roofline(
            light.bandwidth_bytes_per_s * BANDWIDTH_SHARE,
            light.bandwidth_bytes_per_s * BANDWIDTH_SHARE_LOW,
            light.bandwidth_bytes_per_s,
        ),
    )
    return Profile(
        name=f"roofline-{gpu.name}-{model.name}-{weight_dtype}",
        gpu=gpu.name,
        model=model.name,
        weight_dtype=weight_dtype,
        provenance=Provenance(
            kind="roofline",
            made_by="sim.steptime.roofline",
            date="",
            sources=[f"data sheet of {gpu.name}", f"shape of {model.name}"],
            notes=[f"{FLOPS_SHARE:.0%} of peak FLOPs, {BANDWIDTH_SHARE:.0%} of peak bandwidth; nothing measured"],
        ),
        step_overhead_s=Term(value=STEP_OVERHEAD_S, source="assumed", low=0.001, high=0.01),
        linear=Linear(
            tokens=[1, bend, last],
            seconds=[read_s, max(read_s, bend * token_s), last * token_s],
            source="roofline",
        ),
        head=Head(
            per_step_s=_roofline(light.head_read_s / BANDWIDTH_SHARE, light.head_read_s, light.head_read_s / 0.6),
            per_sequence_s=Term(value=0.0, source="assumed"),
        ),
        attention=dict.fromkeys(KV_FAMILIES, attention),
        prefill_tile_rows=128 if gpu.compute_capability.startswith(_HOPPER) else 64,
        shared_prefix_reads="per_sequence",
        frontend=Frontend(
            per_request_s=Term(value=0.0, source="assumed"),
            per_prompt_token_s=Term(value=0.0, source="assumed"),
        ),
    )


def _roofline(value: float, low: float, high: float) -> Term:
    return Term(value=value, source="roofline", low=low, high=high)
