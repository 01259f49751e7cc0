"""One GPU: memory, bandwidth and arithmetic peaks, as catalogued in gpus.yaml with their sources."""

from dataclasses import dataclass

from sim.catalog.entries import find_entry, names_in
from sim.units import GB, GIB, TERA

_FILE = "gpus.yaml"
_MIB = 2**20
VISIBLE_SHARE_WHERE_UNKNOWN = 0.96  # 8 and 12 GiB consumer cards show 7.66 and 11.63 GiB


@dataclass(frozen=True, slots=True)
class Gpu:
    """What one device offers. Peaks are dense, with fp32 accumulation; links are one way."""

    name: str
    memory_bytes: int  # nominal
    visible_bytes: int | None  # as CUDA reports it, where a reading was found
    bandwidth_bytes_per_s: float
    bf16_flops: float  # the fp16 figure on cards without bf16
    fp8_flops: float | None  # None where the tensor cores have no fp8
    compute_capability: str
    l2_bytes: int | None
    pcie_bytes_per_s: float
    nvlink_bytes_per_s: float | None
    source: str
    visible_from: str = "catalog"  # or "log": an engine printed it

    @property
    def usable_bytes(self) -> int:
        """Memory an engine can see: the reading, or an estimate from the nominal size."""
        if self.visible_bytes is not None:
            return self.visible_bytes
        return round(self.memory_bytes * VISIBLE_SHARE_WHERE_UNKNOWN)


def gpu_names() -> tuple[str, ...]:
    """Return the catalogued names, without aliases."""
    return names_in(_FILE)


def load_gpu(name: str) -> Gpu:
    """Return the GPU of that name or alias; case, spaces and hyphens do not matter.

    Raises CatalogError with the nearest valid name when there is none.
    """
    entry = find_entry(_FILE, "gpu", name)
    visible_gib, fp8_tflops = entry["visible_gib"], entry["fp8_tflops"]
    l2_mib, nvlink = entry["l2_mib"], entry["nvlink_gb_per_s"]
    return Gpu(
        name=entry["name"],
        memory_bytes=round(entry["memory_gib"] * GIB),
        visible_bytes=None if visible_gib is None else round(visible_gib * GIB),
        bandwidth_bytes_per_s=float(entry["bandwidth_gb_per_s"] * GB),
        bf16_flops=entry["bf16_tflops"] * TERA,
        fp8_flops=None if fp8_tflops is None else fp8_tflops * TERA,
        compute_capability=entry["compute_capability"],
        l2_bytes=None if l2_mib is None else l2_mib * _MIB,
        pcie_bytes_per_s=float(entry["pcie_gb_per_s"] * GB),
        nvlink_bytes_per_s=None if nvlink is None else float(nvlink * GB),
        source=entry["source"],
    )
