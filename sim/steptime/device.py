"""The device profile: what operations cost on one GPU, whatever the model. `compose.py` adds them up to steps.

A profile of one GPU, model and weight dtype (`profile.py`) is what a few end-to-end figures allow; this one is
what microbenchmarks allow. It is written by `kvcliff fit` and holds, like the other, a value, an origin and a
range for every number. A weight or KV dtype that nobody measured is derived from the nearest one that somebody did,
with the range widened, and says so in its source.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from sim.catalog import Gpu, load_gpu
from sim.errors import CatalogError, ProfileError
from sim.steptime.operations import AttentionTerms, ExpertTerms, GemmTerms, LinkTerms
from sim.steptime.profile import Frontend, Provenance, Term
from sim.strict_yaml import YamlDocument, decode

_T = TypeVar("_T", bound="_Terms")
ROUNDING = 1 + 1e-5  # profiles are written with six digits
SIXTEEN_BIT = ("bf16", "bfloat16", "fp16", "float16")


class _Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Named terms of one operation."""

    def values(self) -> dict[str, float]:
        """Return the numbers alone, by name."""
        return {name: getattr(self, name).value for name in self.__struct_fields__}


class GemmSpec(_Terms, frozen=True):
    """Linear layers in one weight dtype; see `operations.GemmTerms`."""

    overhead_s: Term
    bytes_per_s: Term
    flops_per_s: Term
    tile_elements: Term
    pipeline_depth: Term
    sharpness: Term


class AttentionSpec(_Terms, frozen=True):
    """Attention over a KV cache of one dtype; see `operations.AttentionTerms`."""

    prefill_overhead_s: Term
    prefill_flops_per_s: Term
    prefill_pairs_per_token: Term
    decode_overhead_s: Term
    decode_row_s: Term
    decode_bytes_per_s: Term
    sharpness: Term


class ExpertsSpec(_Terms, frozen=True):
    """Fused experts in one weight dtype; see `operations.ExpertTerms`."""

    overhead_s: Term
    bytes_per_s: Term
    flops_per_s: Term
    tile_rows: Term
    sharpness: Term


class LinkSpec(_Terms, frozen=True):
    """All-reduce among so many GPUs; see `operations.LinkTerms`."""

    latency_s: Term
    bytes_per_s: Term


class CompositionSpec(_Terms, frozen=True):
    """What a whole step costs beyond the sum of its operations timed alone."""

    step_s: Term  # once a step: preparing inputs, sampling, gaps between graphs
    sequence_s: Term  # per sampled sequence
    kernel_s: Term  # each small kernel between the products: norm, rotary, cache write, activation
    elementwise_bytes_per_s: Term  # what those kernels move per second
    eager_kernel_s: Term  # host time to launch one kernel where no CUDA graph holds the step
    flops_slowdown: Term  # sustained clocks: how much longer FLOPs take in a long step than in a short loop


class DeviceProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All operations of one GPU."""

    kind: Literal["device"]
    name: str
    gpu: str
    provenance: Provenance
    linear: dict[str, GemmSpec]  # by weight dtype
    attention: dict[str, AttentionSpec]  # by KV dtype family
    experts: dict[str, ExpertsSpec] = {}  # by weight dtype
    links: dict[str, LinkSpec] = {}  # by number of GPUs
    composition: CompositionSpec
    prefill_tile_rows: Annotated[int, Meta(ge=1, le=1024)]
    prefill_packs_query_heads: bool = False  # a tile's rows hold all query heads of a KV head, as FlashAttention 3 does
    shared_prefix_reads: Literal["per_sequence", "once_if_l2_holds_it"] = "per_sequence"
    frontend: Frontend

    def gemm(self, weight_dtype: str) -> GemmTerms:
        """Return the terms of linear layers; raises ProfileError for a dtype the profile does not have."""
        return GemmTerms(**_pick(self, self.linear, weight_family(weight_dtype), "linear").values())

    def attend(self, kv_family: str) -> AttentionTerms:
        """Return the terms of attention; raises ProfileError for a KV dtype the profile does not have."""
        return AttentionTerms(**_pick(self, self.attention, kv_family, "attention").values())

    def route(self, weight_dtype: str) -> ExpertTerms:
        """Return the terms of experts; raises ProfileError for a dtype the profile does not have."""
        return ExpertTerms(**_pick(self, self.experts, weight_family(weight_dtype), "experts").values())

    def link(self, gpus: int) -> LinkTerms:
        """Return the terms of an all-reduce; raises ProfileError for a size the profile does not have."""
        if str(gpus) not in self.links:
            known = ", ".join(sorted(self.links)) or "none"
            raise ProfileError(f"profile {self.name!r} has no links for tensor_parallel_size {gpus}; it has {known}")
        return LinkTerms(**self.links[str(gpus)].values())


def weight_family(weight_dtype: str) -> str:
    """Return the name a device profile files a weight dtype under."""
    if weight_dtype in SIXTEEN_BIT:
        return "bf16"
    return "int4" if weight_dtype in {"awq", "gptq"} else weight_dtype


def decode_device(document: YamlDocument) -> DeviceProfile:
    """Return the device profile that a YAML document holds.

    Raises ProfileError if it does not fit the schema or a rate is beyond its GPU's peak.
    """
    profile = decode(document, DeviceProfile, ProfileError)
    try:
        gpu = load_gpu(profile.gpu)
    except CatalogError as error:
        raise ProfileError(f"{document.source}: {error}") from None
    check_peaks(profile, gpu, document.source)
    return msgspec.structs.replace(profile, gpu=gpu.name)


def check_peaks(profile: DeviceProfile, gpu: Gpu, place: str) -> None:
    """Raise ProfileError if any rate is zero or beyond what the data sheet allows."""
    for dtype, gemm in profile.linear.items():
        peak = (gpu.fp8_flops if dtype == "fp8" else None) or gpu.bf16_flops
        _within(place, f"linear.{dtype}.flops_per_s", gemm.flops_per_s.value, peak, gpu)
        _within(place, f"linear.{dtype}.bytes_per_s", gemm.bytes_per_s.value, gpu.bandwidth_bytes_per_s, gpu)
    for family, attention in profile.attention.items():
        peak = (gpu.fp8_flops if family == "fp8" else None) or gpu.bf16_flops
        place_of = f"attention.{family}"
        _within(place, f"{place_of}.prefill_flops_per_s", attention.prefill_flops_per_s.value, peak, gpu)
        rate = attention.decode_bytes_per_s.value
        _within(place, f"{place_of}.decode_bytes_per_s", rate, gpu.bandwidth_bytes_per_s, gpu)


def _within(place: str, what: str, value: float, peak: float, gpu: Gpu) -> None:
    if not 0 < value <= peak * ROUNDING:
        raise ProfileError(f"{place}: {what} {value:.4g} must lie above 0 and at most at the {peak:.4g} of {gpu.name}")


def _pick(profile: DeviceProfile, table: Mapping[str, _T], name: str, what: str) -> _T:
    if name not in table:
        raise ProfileError(f"profile {profile.name!r} has no {what} for {name}; it has {', '.join(table) or 'none'}")
    return table[name]
