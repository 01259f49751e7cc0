"""Fits the profile `8gb-class` to what founding document 002 measured on single requests, and to nothing else.

    python -m calibrate.small_gpu_document > sim/steptime/profiles/8gb-class.yaml

The document does not name its GPU of 8 GB. Its decode steps read some 230 GB/s and its prefills do some 25 TFLOPS:
too much for an RTX 4060 (272 GB/s, 30 TFLOPS) with what kernels reach, right for an RTX 4060 Ti (288 GB/s, 44 TFLOPS).
So the start is the shipped profile of the RTX 4090, the same generation, scaled to that data sheet; the figures below
move its terms as far as each one's range lets them.

    66/64 tokens/s      Qwen3-1.7B alone, 512 tokens in and 128 out, with and without CUDA graphs
    168/108 tokens/s    the same of Qwen3-0.6B
    49/47 tokens/s      the same of Qwen3-4B with fp8 weights
    15 ms               Qwen3-1.7B: its ITL alone
    8,200 tokens/s      Qwen3-1.7B: a prefill of 2,048 tokens, the default step budget (the document says 250 ms)
    394/28 ms           TTFT of 3,032 tokens, and with 2,992 of them cached
"""

import math
import sys
from dataclasses import dataclass
from statistics import fmean

import msgspec
import numpy as np

from calibrate.fitting.device import signed
from calibrate.fitting.refine import FIGURE_SIGMA, refine
from calibrate.fitting.start import scaled_device
from calibrate.fitting.terms import with_terms
from calibrate.one_session import FrontendTimes, LoneTurn, decode_s, ttft_s
from calibrate.profile_file import profile_text
from sim.catalog import Model, load_gpu, load_model
from sim.errors import ProfileError
from sim.steptime.compose import device_step_time_model, layer_shape
from sim.steptime.costed import costed
from sim.steptime.costs import Costs
from sim.steptime.device import DeviceProfile, check_peaks, device_gpu
from sim.steptime.model import StepTimeModel
from sim.steptime.pricing import Engine, load_any
from sim.steptime.profile import Term

NAME, GPU, DONOR = "8gb-class", "RTX 4060 Ti 8GB", "rtx-4090"
BUDGET = 2048  # the document's max_num_batched_tokens
CHAT = LoneTurn(0, 512, 128)
UNCACHED, CACHED = LoneTurn(0, 3032, 1), LoneTurn(2992, 40, 1)  # a hit is of whole blocks
SMALL, MIDDLE, LARGE = ("Qwen3-0.6B", "bf16"), ("Qwen3-1.7B", "bf16"), ("Qwen3-4B", "fp8")
DTYPES = ("bf16", "fp8")


@dataclass(frozen=True, slots=True)
class Figure:
    """One published figure of a request without company, in seconds."""

    name: str
    model: tuple[str, str]  # and weight dtype
    given_s: float
    rounding: float  # the most it is off for having been rounded, as a share
    enforce_eager: bool = False

    @property
    def sigma(self) -> float:
        """How far off it may be: rounding spreads evenly."""
        return max(FIGURE_SIGMA, self.rounding / math.sqrt(3))


def alone(model: tuple[str, str], tokens_per_s: float, itl_ms: float, *, enforce_eager: bool = False) -> list[Figure]:
    """Return the figures of a throughput alone, as seconds of a whole answer, and of its ITL; both are rounded."""
    what = model[0] + (" without CUDA graphs" if enforce_eager else "")
    answer_s = CHAT.output_tokens / tokens_per_s
    return [
        Figure(f"{what}: answer", model, answer_s, 0.5 / tokens_per_s, enforce_eager),
        Figure(f"{what}: ITL", model, itl_ms / 1e3, 0.5 / itl_ms, enforce_eager),
    ]


PUBLISHED = (
    *alone(MIDDLE, 66, 15),
    *alone(MIDDLE, 64, 15, enforce_eager=True),
    *alone(SMALL, 168, 6),
    *alone(SMALL, 108, 9, enforce_eager=True),
    *alone(LARGE, 49, 19),
    *alone(LARGE, 47, 20, enforce_eager=True),
    Figure("Qwen3-1.7B: prefill", MIDDLE, BUDGET / 8200, 0.006),
    Figure("Qwen3-1.7B: TTFT, no hit", MIDDLE, 0.394, 0.001),
    Figure("Qwen3-1.7B: TTFT, hit", MIDDLE, 0.028, 0.018),
)


def predicted_s(profile: DeviceProfile) -> list[float]:
    """Return the figures as a profile has them."""
    return [_seconds(profile, figure) for figure in PUBLISHED]


def _seconds(profile: DeviceProfile, figure: Figure) -> float:
    steps = _steps(profile, figure)
    own = profile.frontend
    frontend = FrontendTimes(own.per_request_s.value, own.per_prompt_token_s.value)
    match figure.name.rsplit(": ", 1)[1]:
        case "ITL":
            return decode_s(steps, CHAT) / (CHAT.output_tokens - 1)
        case "prefill":
            return ttft_s(steps, FrontendTimes(0.0, 0.0), LoneTurn(0, BUDGET, 1), BUDGET)
        case "TTFT, no hit":
            return ttft_s(steps, frontend, UNCACHED, BUDGET)
        case "TTFT, hit":
            return ttft_s(steps, frontend, CACHED, BUDGET)
    return ttft_s(steps, frontend, CHAT, BUDGET) + decode_s(steps, CHAT)


def _steps(profile: DeviceProfile, figure: Figure) -> StepTimeModel:
    name, weights = figure.model
    engine = Engine(max_num_seqs=64, enforce_eager=figure.enforce_eager)
    model = load_model(name)
    steps = device_step_time_model(
        profile, device_gpu(profile), model, weights, "auto", cuda_graph_tokens=engine.cuda_graph_tokens
    )
    prices = costed(
        steps,
        Costs(eager_kernel_s=profile.costs["eager_kernel_s"].value),
        kernels=_kernels(model),
        cuda_graph_tokens=engine.cuda_graph_tokens,
        async_scheduling=True,
    )
    assert isinstance(prices, StepTimeModel), "gaps are part of the model's own numbers"
    return prices


def _kernels(model: Model) -> int:
    return model.num_hidden_layers * layer_shape(model, 1).kernels


def eager_gap() -> Term:
    """Return what a kernel costs more where no graph holds it and the GPU, not the host, is the slower one."""
    gaps_s = [
        (1 / eager - 1 / graphs) / _kernels(load_model(name))
        for (name, _), graphs, eager in ((MIDDLE, 66, 64), (LARGE, 49, 47))
    ]
    low, high = sorted(gaps_s)
    return Term(
        value=fmean(gaps_s), source="fitted", low=low, high=high, note="Qwen3-1.7B and Qwen3-4B, of rounded figures"
    )


def fit() -> DeviceProfile:
    """Return the fitted profile; deterministic."""
    gpu, donor = load_gpu(GPU), load_any(DONOR)
    if not isinstance(donor, DeviceProfile):
        raise ProfileError(f"{DONOR} is no device profile")
    start = scaled_device(donor, device_gpu(donor), gpu)
    start = msgspec.structs.replace(
        start,
        linear={dtype: start.linear[dtype] for dtype in DTYPES},
        attention=dict.fromkeys(DTYPES, start.attention["bf16"]),
        experts={dtype: start.experts[dtype] for dtype in DTYPES},
        links={},
        costs={"eager_kernel_s": eager_gap()},
    )
    processors = gpu.bf16_flops / device_gpu(donor).bf16_flops  # a last wave of tiles is as wide as the GPU
    tiles = {f"linear.{dtype}.tile_elements": start.linear[dtype].tile_elements.value * processors for dtype in DTYPES}
    clocks = Term(value=1.0, source="assumed", note="as on the donor; products and attention have rates of their own")
    fixed = {name: assumed(value) for name, value in tiles.items()} | {"composition.flops_slowdown": clocks}
    start = with_terms(start, fixed)
    given_s = [one.given_s for one in PUBLISHED]
    refined = refine(
        start, gpu, lambda one: np.array(predicted_s(one)), given_s, sigmas=[one.sigma for one in PUBLISHED]
    )
    residuals = dict(zip((one.name for one in PUBLISHED), refined.residuals.tolist(), strict=True))
    attention = refined.profile.attention["bf16"]  # the document sees no other speed with fp8 KV, only more room
    profile = signed(
        msgspec.structs.replace(refined.profile, attention=dict.fromkeys(DTYPES, attention)),
        residuals,
        name=NAME,
        made_by="python -m calibrate.small_gpu_document",
        date="2026-11-30",
        sources=[
            "founding document 002: ten figures of single requests on an unnamed GPU of 8 GB, vLLM 0.31.0",
            *start.provenance.sources,
            f"data sheet of {gpu.name}",
        ],
        notes=[
            "the document names no GPU: the class is inferred from its decode and prefill rates",
            "no figure of more than one request was used",
            "attention over fp8 KV is priced as over bf16, byte for byte: alone, a request is as fast with either",
        ],
    )
    check_peaks(profile, gpu, NAME)
    return profile


def assumed(value: float) -> Term:
    """Return a term that was scaled like the GPU."""
    return Term(value=value, source="assumed", note="scaled by the number of processors")


def main() -> None:
    """Print the profile as YAML."""
    sys.stdout.write(profile_text(fit()))


if __name__ == "__main__":
    main()
