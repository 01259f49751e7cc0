import csv
from pathlib import Path

import pytest

from sim.catalog import gpu_names, load_gpu
from sim.catalog.entries import read_entries
from sim.errors import CatalogError
from sim.units import GB, GIB, TERA

FACTS = Path(__file__).parents[4] / "shared" / "data" / "measurements" / "facts_gpu_specs.csv"
RENAMED = {
    "RTX 3060 12GB": "RTX 3060",
    "RTX 3070 8GB": "RTX 3070",
    "RTX 4060 8GB": "RTX 4060",
    "RTX 4070 Super 12GB": "RTX 4070 Super",
}


@pytest.mark.parametrize("name", gpu_names())
def test_every_gpu_loads_with_a_source_and_sane_peaks(name: str) -> None:
    """Each entry says where it comes from, and CUDA never sees more than the box says."""
    gpu = load_gpu(name)
    assert len(gpu.source) > 10
    assert gpu.usable_bytes <= gpu.memory_bytes
    assert gpu.usable_bytes > 0.9 * gpu.memory_bytes
    assert gpu.fp8_flops is None or gpu.fp8_flops > 1.9 * gpu.bf16_flops
    assert 100 * GB < gpu.bandwidth_bytes_per_s < 10_000 * GB


def test_every_fact_row_is_catalogued_with_its_figures() -> None:
    """Bandwidth and peaks equal the collected facts, row by row."""
    if not FACTS.exists():
        pytest.skip(f"{FACTS} is not here")
    with FACTS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 20
    for row in rows:
        gpu = load_gpu(RENAMED.get(row["gpu"], row["gpu"]))
        assert gpu.bandwidth_bytes_per_s == float(row["memory_bandwidth_gb_s"]) * GB
        bf16 = row["dense_bf16_tflops"] or row["dense_fp16_fp32acc_tflops"]
        assert gpu.bf16_flops == float(bf16) * TERA
        fp8 = row["dense_fp8_tflops"]
        assert gpu.fp8_flops == (float(fp8) * TERA if fp8 else None)
        assert gpu.memory_bytes == float(row["memory_gb"]) * GIB
        assert gpu.compute_capability == row["compute_capability"]
        assert gpu.pcie_bytes_per_s == float(row["pcie_gb_s_one_way"]) * GB


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("h100", "H100-80GB-SXM"),
        ("A100", "A100-80GB-SXM"),
        ("a100-40gb", "A100-40GB-SXM"),
        ("rtx4090", "RTX 4090"),
        ("RTX_4070_super", "RTX 4070 Super"),
        ("l4", "L4"),
    ],
)
def test_short_names_mean_one_documented_card(alias: str, name: str) -> None:
    """Case, spaces and underscores do not matter; an alias is one the file spells out."""
    assert load_gpu(alias).name == name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("RTX 3090 24GB", "RTX 3090"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("RTX 4090D 24GB", "RTX 4090 D"),
        ("RTX 5070 Ti 16GB", "RTX 5070 Ti"),
        ("RTX 5090 D 32GB", "RTX 5090 D"),
        ("RTX PRO 6000 Blackwell 96GB", "RTX PRO 6000"),
        ("Tesla T4", "T4"),
        ("V100 32GB", "V100-32GB"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("A100 80GB", "A100-80GB-SXM"),
        ("A100 80GB SXM", "A100-80GB-SXM"),
        ("H100 80GB", "H100-80GB-SXM"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-SXM"),
        ("NVIDIA H100 NVL", "H100-94GB-NVL"),
        ("GH200 96GB", "GH200-96GB"),
        ("GB10 (DGX Spark class)", "GB10"),
        ("Jetson AGX Thor 128GB unified", "Jetson AGX Thor"),
        ("MI300X 192GB", "MI300X"),
        ("Ascend 910B", "Ascend 910B"),
        ("TPU v5e", "TPU v5e"),
    ],
)
def test_what_people_and_drivers_write_is_found(written: str, name: str) -> None:
    """Names as public reports and `nvidia-smi` have them."""
    assert load_gpu(written).name == name


@pytest.mark.parametrize(
    ("name", "printed_gib"),
    [
        ("H100", 79.18),
        ("A100", 79.19),
        ("H200", 139.81),
        ("MI300X", 191.69),
        ("RTX 5090", 31.36),
        ("RTX 3090", 23.56),
        ("L4", 22.03),
        ("L40S", 44.40),
        ("V100-32GB", 31.73),
        ("H100-94GB-NVL", 93.10),
        ("GB200", 184.31),
        ("B300", 267.69),
        ("RTX PRO 6000", 95.01),
        ("GB10", 119.70),
    ],
)
def test_visible_memory_is_what_engines_print(name: str, printed_gib: float) -> None:
    """Start-up logs and out-of-memory messages, within what drivers differ by."""
    assert load_gpu(name).usable_bytes / GIB == pytest.approx(printed_gib, rel=2e-3)


def test_no_two_entries_answer_to_one_name() -> None:
    """An alias that two cards share would pick one behind the user's back."""
    called = [
        name.lower().replace(" ", "").replace("-", "").replace("_", "")
        for entry in read_entries("gpus.yaml")
        for name in (entry["name"], *entry["aliases"])
    ]
    assert len(called) == len(set(called))


def test_an_unknown_gpu_names_the_nearest_and_never_defaults() -> None:
    """A typo is one line with the name that was meant."""
    with pytest.raises(CatalogError, match=r"gpu 'RTX 4091' .*did you mean 'RTX 4090'") as caught:
        load_gpu("RTX 4091")
    assert "\n" not in str(caught.value)
    with pytest.raises(CatalogError, match="known: T4, L4"):
        load_gpu("")


def test_l2_sizes_are_the_known_ones() -> None:
    """The cache that a shared prefix may live in: from the measurements' README and the makers' papers."""
    known = {"L40S": 96, "RTX 4090": 72, "H100": 50, "H200": 50, "A100": 40, "L4": 48, "T4": 4, "L20": 96}
    for name, mib in known.items():
        assert load_gpu(name).l2_bytes == mib * 2**20
    assert load_gpu("A10G").l2_bytes is None
