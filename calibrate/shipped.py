"""Makes the shipped device profiles again, from the public measurements in a folder.

    python -m calibrate.shipped ../shared/data/measurements [NAME...]

Each profile carries the `kvcliff fit` command that makes it singly. Order matters: a profile scaled from another
comes after it.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from calibrate.fitting.job import FitJob, run_job
from calibrate.profile_file import write_profile
from sim.steptime.profile import SHIPPED

FIGURES, MEASURED = Path(__file__).parent / "figures", Path(__file__).parent / "measured"
AICONFIGURATOR = (
    "micro_aic_gemm.csv",
    "micro_aic_attention_prefill.csv",
    "micro_aic_attention_decode.csv",
    "micro_aic_moe.csv",
    "micro_aic_allreduce.csv",
)
VLLM_STEPS = ("micro_vllm_step_times_qwen.csv",)
LLMSERVINGSIM = (
    "micro_llmservingsim_attention.csv",
    "micro_llmservingsim_dense.csv",
    "micro_llmservingsim_per_sequence.csv",
    "micro_llmservingsim_moe.csv",
)
HELIX = ("micro_helix_one_layer_l4_t4_v100_a100.csv",)
DATE = "2026-11-29"  # the day the public tables were read


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a shipped profile is made of."""

    name: str
    gpu: str
    tables: tuple[str, ...] = ()  # in the folder of public measurements
    measured: tuple[str, ...] = ()  # in this package: runs of our own
    scale_from: str | None = None
    anchors: str | None = None  # figures that start like this
    notes: tuple[str, ...] = ()


RECIPES = (
    Recipe("a100", "A100-80GB-SXM", AICONFIGURATOR + VLLM_STEPS),
    Recipe("h100", "H100-80GB-SXM", AICONFIGURATOR + VLLM_STEPS, anchors="h100-"),
    Recipe("h200", "H200", AICONFIGURATOR, scale_from="h100", anchors="h200-"),
    Recipe("b200", "B200", AICONFIGURATOR, scale_from="h200"),
    Recipe("l20", "L20", VLLM_STEPS, notes=("whole steps of one model only, on one GPU",)),
    Recipe("l40s", "L40S", AICONFIGURATOR, scale_from="l20"),
    Recipe("rtx-4090", "RTX 4090", LLMSERVINGSIM, scale_from="l40s", notes=("operations of one model only",)),
    Recipe("rtx-pro-6000", "RTX PRO 6000", LLMSERVINGSIM, scale_from="l40s"),
    Recipe("rtx-4070-super", "RTX 4070 Super", scale_from="rtx-4090", anchors="rtx-4070-super-"),
    Recipe("l4", "L4", HELIX, anchors="l4-", notes=("single layers in fp16, April 2024, times rounded",)),
    Recipe("cpu-epyc-1-thread", "", measured=("cpu-epyc-1-thread.csv",), notes=("the development machine",)),
    Recipe("t4", "T4", HELIX, notes=("single layers in fp16, April 2024, times rounded",)),
)


def make(folder: Path, names: Sequence[str] = (), out: Path = SHIPPED) -> Iterator[str]:
    """Fit and write the named profiles, or all; yield a line about each."""
    for recipe in RECIPES:
        if names and recipe.name not in names:
            continue
        found = sorted(FIGURES.glob(f"{recipe.anchors}*.yaml")) if recipe.anchors else []
        job = FitJob(
            tables=(*(folder / table for table in recipe.tables), *(MEASURED / table for table in recipe.measured)),
            gpu=recipe.gpu or None,
            scale_from=recipe.scale_from,
            anchors=tuple(found),
            name=recipe.name,
            date=DATE,
            notes=recipe.notes,
        )
        fitted = run_job(job)
        write_profile(out / f"{recipe.name}.yaml", fitted.profile)
        residuals = fitted.profile.provenance.residuals
        worst = max(residuals.items(), key=lambda item: abs(item[1]), default=("none", 0.0))
        yield f"{recipe.name}: {len(residuals)} residuals, largest {worst[1]:+.1%} ({worst[0]})"


if __name__ == "__main__":
    for line in make(Path(sys.argv[1]), sys.argv[2:]):
        sys.stdout.write(line + "\n")
