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

import sys
from dataclasses import dataclass

import msgspec
import numpy as np

from calibrate.fitting.device import signed
from calibrate.fitting.refine import refine
from calibrate.fitting.start import scaled_device
from calibrate.one_session import FrontendTimes, LoneTurn, decode_s, ttft_s
from calibrate.profile_file import profile_text
from sim.catalog import load_gpu, load_model
from sim.errors import ProfileError
from sim.steptime.compose import device_step_time_model
from sim.steptime.device import DeviceProfile, check_peaks, device_gpu
from sim.steptime.model import StepTimeModel
from sim.steptime.pricing import Engine, load_any

NAME, GPU, DONOR = "8gb-class", "RTX 4060 Ti 8GB", "rtx-4090"
BUDGET = 2048  # the document's max_num_batched_tokens
CHAT = LoneTurn(0, 512, 128)
UNCACHED, CACHED = LoneTurn(0, 3032, 1), LoneTurn(2992, 40, 1)  # a hit is of whole blocks
SMALL, MIDDLE, LARGE = ("Qwen3-0.6B", "bf16"), ("Qwen3-1.7B", "bf16"), ("Qwen3-4B", "fp8")
DTYPES = ("bf16", "fp8")
SIGMA = 0.02


@dataclass(frozen=True, slots=True)
class Figure:
    """One published figure of a request without company, in seconds."""

    name: str
    model: tuple[str, str]  # and weight dtype
    given_s: float
    enforce_eager: bool = False


def answer(model: tuple[str, str], tokens_per_s: float, *, enforce_eager: bool = False) -> Figure:
    """Return the figure of a throughput alone: seconds of a whole answer."""
    name = f"{model[0]} answer{' without CUDA graphs' if enforce_eager else ''}"
    return Figure(name, model, CHAT.output_tokens / tokens_per_s, enforce_eager)


PUBLISHED = (
    answer(MIDDLE, 66),
    answer(MIDDLE, 64, enforce_eager=True),
    answer(SMALL, 168),
    answer(SMALL, 108, enforce_eager=True),
    answer(LARGE, 49),
    answer(LARGE, 47, enforce_eager=True),
    Figure("Qwen3-1.7B ITL", MIDDLE, 0.015),
    Figure("Qwen3-1.7B prefill", MIDDLE, BUDGET / 8200),
    Figure("Qwen3-1.7B TTFT, no hit", MIDDLE, 0.394),
    Figure("Qwen3-1.7B TTFT, hit", MIDDLE, 0.028),
)


def predicted_s(profile: DeviceProfile) -> list[float]:
    """Return the figures as a profile has them."""
    return [_seconds(profile, figure) for figure in PUBLISHED]


def _seconds(profile: DeviceProfile, figure: Figure) -> float:
    steps = _steps(profile, figure)
    own = profile.frontend
    frontend = FrontendTimes(own.per_request_s.value, own.per_prompt_token_s.value)
    match figure.name.removeprefix(figure.model[0] + " "):
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
    model, weights = figure.model
    engine = Engine(max_num_seqs=64, enforce_eager=figure.enforce_eager)
    return device_step_time_model(
        profile, device_gpu(profile), load_model(model), weights, "auto", cuda_graph_tokens=engine.cuda_graph_tokens
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
        attention={dtype: start.attention[dtype] for dtype in DTYPES},
        experts={},
        links={},
    )
    given_s = [one.given_s for one in PUBLISHED]
    refined = refine(start, gpu, lambda one: np.array(predicted_s(one)), given_s, sigmas=[SIGMA] * len(given_s))
    residuals = dict(zip((one.name for one in PUBLISHED), refined.residuals.tolist(), strict=True))
    profile = signed(
        refined.profile,
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
        ],
    )
    check_peaks(profile, gpu, NAME)
    return profile


def main() -> None:
    """Print the profile as YAML."""
    sys.stdout.write(profile_text(fit()))


if __name__ == "__main__":
    main()
