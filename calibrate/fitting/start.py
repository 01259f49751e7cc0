"""Where a fit starts: a device profile of assumptions, from a data sheet or from a measured relative.

Every term carries the range it is believed in; measurements narrow it, and what they never touch keeps it.
"""

import msgspec

from calibrate.fitting.limits import limits_of
from calibrate.fitting.terms import terms_of, with_terms
from sim.catalog import KV_FAMILIES, Gpu
from sim.steptime.device import (
    AttentionSpec,
    CompositionSpec,
    DeviceProfile,
    ExpertsSpec,
    GemmSpec,
    Hardware,
    LinkSpec,
)
from sim.steptime.profile import Frontend, Provenance, Source, Term

FRONTEND_S, FRONTEND_TOKEN_S = 7e-3, 1e-6  # what clients of vLLM on H100 and H200 saw beyond the engine's own time
WIDE, MIDDLE, NARROW = 2.0, 1.4, 1.15  # ranges: value / factor to value x factor
HOPPER = "9."  # runs FlashAttention 3: tiles of 128 query rows that hold all query heads of a KV head; 2 has 64


def around(value: float, factor: float, source: Source = "assumed", note: str = "") -> Term:
    """Return a term with a range that is symmetric in ratio."""
    return Term(value=value, source=source, low=value / factor, high=value * factor, note=note)


def assumed_device(gpu: Gpu, hardware: Hardware | None = None) -> DeviceProfile:
    """Return what is believed of a GPU nobody has measured.

    Shares of peaks and overheads are what public tables show on the GPUs that have one (A100, H100, H200, L40S).
    """
    flops, fp8_flops, bandwidth = gpu.bf16_flops, gpu.fp8_flops, gpu.bandwidth_bytes_per_s

    def gemm(peak: float, doubt: float = MIDDLE) -> GemmSpec:
        return GemmSpec(
            overhead_s=around(4e-6, WIDE),
            bytes_per_s=around(0.82 * bandwidth, NARROW),
            flops_per_s=around(0.8 * peak, doubt),
            tile_elements=around(1e5, 3.0),
            pipeline_depth=around(150.0, WIDE),
            sharpness=around(4.0, WIDE),
        )

    def attention(share: float) -> AttentionSpec:
        return AttentionSpec(
            prefill_overhead_s=around(1.2e-5, WIDE),
            prefill_flops_per_s=around(0.6 * flops, MIDDLE),
            prefill_pairs_per_token=around(300.0, WIDE),
            decode_overhead_s=around(1.2e-5, WIDE),
            decode_row_s=around(2.5e-8, WIDE),
            decode_bytes_per_s=around(share * bandwidth, MIDDLE),
            sharpness=around(1.7, MIDDLE),
        )

    linear = {"bf16": gemm(flops), "int8": gemm(flops), "int4": gemm(flops, WIDE), "fp32": gemm(0.5 * flops)}
    linear["fp8"] = gemm(0.8 * fp8_flops) if fp8_flops else gemm(flops)  # without fp8 units, only weights are 8-bit
    experts = {
        dtype: ExpertsSpec(
            overhead_s=around(3e-5, WIDE),
            bytes_per_s=around(0.7 * bandwidth, MIDDLE),
            flops_per_s=around(0.5 * (fp8_flops if dtype == "fp8" and fp8_flops else flops), MIDDLE),
            tile_rows=around(32.0, WIDE),
            sharpness=around(3.0, WIDE),
        )
        for dtype in linear
    }
    link_rate = gpu.nvlink_bytes_per_s or gpu.pcie_bytes_per_s
    links = {
        str(size): LinkSpec(latency_s=around(8e-6, WIDE), bytes_per_s=around(0.5 * link_rate, WIDE))
        for size in (2, 4, 8)
    }
    return DeviceProfile(
        kind="device",
        hardware=hardware,
        name=f"assumed-{gpu.name}",
        gpu=gpu.name,
        provenance=Provenance(
            kind="roofline",
            made_by="kvcliff fit",
            date="",
            sources=[f"data sheet of {gpu.name}"] if hardware is None else [hardware.source],
            notes=[],
        ),
        linear=linear,
        attention={family: attention(0.8 if family == "bf16" else 0.75) for family in KV_FAMILIES},
        experts=experts,
        links=links,
        composition=CompositionSpec(
            step_s=around(5e-4, 3.0),
            sequence_s=around(3e-6, 3.0),
            kernel_s=around(2e-6, WIDE),
            elementwise_bytes_per_s=around(0.7 * bandwidth, MIDDLE),
            eager_kernel_s=around(2.6e-5, WIDE),
            flops_slowdown=around(1.1, MIDDLE) if hardware is None else Term(value=1.0, source="assumed"),
        ),
        prefill_tile_rows=1 if hardware is not None else 128 if gpu.compute_capability.startswith(HOPPER) else 64,
        decode_rows_beside_prefill="in_its_tiles" if hardware is None else "on_their_own",
        prefill_packs_query_heads=gpu.compute_capability.startswith(HOPPER),
        frontend=Frontend(
            per_request_s=around(FRONTEND_S, 4.0, note="HTTP, tokenisation, hashing; seen between 5.8 and 9.7 ms"),
            per_prompt_token_s=around(FRONTEND_TOKEN_S, 8.0),
        ),
    )


def scaled_device(donor: DeviceProfile, donor_gpu: Gpu, gpu: Gpu, widen: float = 1.25) -> DeviceProfile:
    """Return a profile for an unmeasured GPU: the donor's shares of peaks on the other's data sheet.

    Rates go by the peaks they are shares of, overheads stay, every range widens by `widen` on either side.
    """
    own = msgspec.structs.replace(assumed_device(gpu), small=donor.small)
    alike = donor_gpu.compute_capability[:1] == gpu.compute_capability[:1]  # then the same attention kernels run
    kept: dict[str, Term] = {}
    names = dict(terms_of(donor))
    for name, _ in terms_of(own):
        if name not in names:
            continue
        ratio = _ratio(name, donor_gpu, gpu)
        old = names[name]
        low, high = (old.value if bound is None else bound for bound in (old.low, old.high))
        value = min(old.value * ratio, limits_of(name, gpu)[1])  # a donor's fp8 rate may beat a card without fp8
        kept[name] = Term(
            value=value,
            source="assumed",
            low=min(low * ratio / widen, value),
            high=high * ratio * widen,
            note=f"scaled by {ratio:.3g} from {donor.gpu}",
        )
    scaled = with_terms(own, kept)
    return msgspec.structs.replace(
        scaled,
        name=f"{gpu.name}-from-{donor.name}",
        prefill_tile_rows=donor.prefill_tile_rows if alike else own.prefill_tile_rows,
        prefill_packs_query_heads=donor.prefill_packs_query_heads if alike else own.prefill_packs_query_heads,
        shared_prefix_reads=donor.shared_prefix_reads,
        provenance=Provenance(
            kind="fitted",
            made_by="kvcliff fit --scale-from",
            date=donor.provenance.date,
            sources=[f"profile {donor.name}, scaled by data-sheet peaks", *donor.provenance.sources],
            notes=[f"every range is {widen:g} times wider on either side than {donor.name}'s"],
        ),
    )


def _ratio(name: str, donor: Gpu, gpu: Gpu) -> float:
    field = name.rsplit(".", maxsplit=1)[-1]
    if field.endswith("flops_per_s"):
        eight_bit = name.startswith(("linear.fp8", "experts.fp8"))
        peaks = [(card.fp8_flops if eight_bit else None) or card.bf16_flops for card in (donor, gpu)]
        return peaks[1] / peaks[0]
    if name.startswith("links."):
        rates = [card.nvlink_bytes_per_s or card.pcie_bytes_per_s for card in (donor, gpu)]
        return rates[1] / rates[0] if field == "bytes_per_s" else 1.0
    if field.endswith("bytes_per_s"):
        return gpu.bandwidth_bytes_per_s / donor.bandwidth_bytes_per_s
    return 1.0
