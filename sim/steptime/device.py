"""The device profile: what operations cost on one GPU, whatever the model. `compose.py` adds them up to steps.

A profile of one GPU, model and weight dtype (`profile.py`) is what a few end-to-end figures allow; this one is
what microbenchmarks allow. It is written by `kvcliff fit` and holds, like the other, a value, an origin and a
range for every number. A weight or KV dtype that nobody measured is derived from the nearest one that somebody did,
with the range widened, and says so in its source.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from sim.catalog import Gpu, load_gpu
from sim.errors import CatalogError, ProfileError, one_of
from sim.steptime.costs import COST_TERMS
from sim.steptime.operations import AttentionTerms, ExpertTerms, GemmTerms, LinkTerms, SmallTerms
from sim.steptime.profile import Frontend, Provenance, Term
from sim.strict_yaml import YamlDocument, decode

_T = TypeVar("_T", bound="_Terms")
ROUNDING = 1 + 1e-5  # profiles are written with six digits
AT_LEAST_ONE = ("sharpness", "flops_slowdown")  # below it, work would cost more than its parts, or clocks beat the peak
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


class SmallSpec(_Terms, frozen=True):
    """One kind of small kernel, timed by itself; see `operations.SmallTerms`."""

    kernel_s: Term
    bytes_per_s: Term


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


class Hardware(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a device that is not in the catalog was seen to reach: takes the place of a data sheet."""

    memory_bytes: Annotated[int, Meta(ge=1)]
    bandwidth_bytes_per_s: Annotated[float, Meta(gt=0)]
    flops_per_s: Annotated[float, Meta(gt=0)]
    l2_bytes: Annotated[int, Meta(ge=1)] | None = None  # the last-level cache of a CPU
    source: str

    def gpu(self, name: str) -> Gpu:
        """Return the device as the catalog would describe it."""
        return Gpu(
            name=name,
            memory_bytes=self.memory_bytes,
            visible_bytes=self.memory_bytes,
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s,
            bf16_flops=self.flops_per_s,
            fp8_flops=None,
            compute_capability="",
            l2_bytes=self.l2_bytes,
            pcie_bytes_per_s=self.bandwidth_bytes_per_s,
            nvlink_bytes_per_s=None,
            source=self.source,
        )


class DeviceProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All operations of one GPU."""

    kind: Literal["device"]
    name: str
    gpu: str
    hardware: Hardware | None = None  # where the catalog does not know the device
    provenance: Provenance
    linear: dict[str, GemmSpec]  # by weight dtype
    attention: dict[str, AttentionSpec]  # by KV dtype family
    experts: dict[str, ExpertsSpec] = {}  # by weight dtype
    links: dict[str, LinkSpec] = {}  # by number of GPUs
    small: dict[str, SmallSpec] = {}  # by part; those nobody timed go by the composition's terms
    composition: CompositionSpec
    prefill_tile_rows: Annotated[int, Meta(ge=1, le=1024)]
    prefill_packs_query_heads: bool = False  # a tile's rows hold all query heads of a KV head, as FlashAttention 3 does
    decode_rows_beside_prefill: Literal["in_its_tiles", "on_their_own"] = "in_its_tiles"
    shared_prefix_reads: Literal["per_sequence", "once_if_l2_holds_it"] = "per_sequence"
    frontend: Frontend
    costs: dict[str, Term] = {}  # around the forward pass, by the names of costs.Costs

    def gemm(self, weight_dtype: str) -> GemmTerms:
        """Return the terms of linear layers; raises ProfileError for a dtype the profile does not have."""
        return GemmTerms(**_pick(self, self.linear, weight_family(weight_dtype), "linear").values())

    def attend(self, kv_family: str) -> AttentionTerms:
        """Return the terms of attention; raises ProfileError for a KV dtype the profile does not have."""
        return AttentionTerms(**_pick(self, self.attention, kv_family, "attention").values())

    def route(self, weight_dtype: str) -> ExpertTerms:
        """Return the terms of experts; raises ProfileError for a dtype the profile does not have."""
        return ExpertTerms(**_pick(self, self.experts, weight_family(weight_dtype), "experts").values())

    def small_kernel(self, part: str) -> SmallTerms:
        """Return the terms of a small kernel: its own, or those all of them share."""
        if part in self.small:
            return SmallTerms(**self.small[part].values())
        shared = self.composition
        return SmallTerms(shared.kernel_s.value, shared.elementwise_bytes_per_s.value)

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


def device_gpu(profile: DeviceProfile) -> Gpu:
    """Return the device of a profile: by its own hardware where it has some, else from the catalog."""
    return load_gpu(profile.gpu) if profile.hardware is None else profile.hardware.gpu(profile.gpu)


def decode_device(document: YamlDocument) -> DeviceProfile:
    """Return the device profile that a YAML document holds.

    Raises ProfileError if it does not fit the schema or a rate is beyond its GPU's peak.
    """
    profile = decode(document, DeviceProfile, ProfileError)
    try:
        gpu = device_gpu(profile)
    except CatalogError as error:
        raise ProfileError(f"{document.source}: {error}") from None
    check_peaks(profile, gpu, document.source)
    for name in profile.costs:
        if name not in COST_TERMS:
            raise ProfileError(f"{document.source}: costs: {one_of(name, COST_TERMS)}")
    return msgspec.structs.replace(profile, gpu=gpu.name)


def check_peaks(profile: DeviceProfile, gpu: Gpu, place: str) -> None:
    """Raise ProfileError if any rate is zero or beyond what the data sheet allows, or a factor is below 1."""
    for what, value in _numbers(profile):
        table, *_, field = what.split(".")
        if field in AT_LEAST_ONE and value < 1:
            raise ProfileError(f"{place}: {what} {value:g} must be at least 1")
        if not field.endswith("_per_s"):
            continue
        if field.endswith("flops_per_s"):
            peak = peak_flops(what, gpu)
        else:  # links are no memory, and small kernels may find all they need in the cache
            peak = gpu.bandwidth_bytes_per_s if table in {"linear", "attention", "experts"} else math.inf
        if not 0 < value <= peak * ROUNDING:
            most = "" if math.isinf(peak) else f" and at most at the {peak:.4g} of {gpu.name}"
            raise ProfileError(f"{place}: {what} {value:.4g} must lie above 0{most}")


def peak_flops(name: str, gpu: Gpu) -> float:
    """Return the most FLOPs a second that the term of that dotted name can mean.

    Kernels of 4-bit weights multiply in 16 bits, and where a card does that faster with 16-bit sums, as GeForce
    cards do, at the rate of its fp8.
    """
    if ".int8." in name:
        return gpu.fp8_flops or 2 * gpu.bf16_flops
    fast = ".fp8." in name or ".int4." in name
    return (gpu.fp8_flops if fast else None) or gpu.bf16_flops


def _numbers(profile: DeviceProfile) -> Iterator[tuple[str, float]]:
    """Yield every number of operations by its dotted name."""
    for table in ("linear", "attention", "experts", "small", "links"):
        for key, spec in getattr(profile, table).items():
            yield from ((f"{table}.{key}.{name}", value) for name, value in spec.values().items())
    yield from ((f"composition.{name}", value) for name, value in profile.composition.values().items())


def _pick(profile: DeviceProfile, table: Mapping[str, _T], name: str, what: str) -> _T:
    if name not in table:
        raise ProfileError(f"profile {profile.name!r} has no {what} for {name}; it has {', '.join(table) or 'none'}")
    return table[name]
