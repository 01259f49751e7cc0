"""An anchor file: a few figures of the target system, and what a profile says to each.

    gpu: L4
    model: Qwen3-4B
    weight_dtype: fp8
    kv_cache_dtype: fp8
    max_num_batched_tokens: 2048
    figures:
      - {kind: ttft, cached_tokens: 10000, new_tokens: 12800, seconds: 2.5}
      - {kind: tpot, context_tokens: 8000, decode_rows: 4, seconds: 0.021}
      - {kind: session, shared_prefix_tokens: 10000, turns: 12, new_tokens: 1067, output_tokens: 75, ttft_p50_s: 0.388}
      - {kind: steady, requests_per_s: 5, input_tokens: 590, uncached_tokens: 16, output_tokens: 247, tpot_s: 0.0076}
      - {kind: step, prefill_requests: 1, new_tokens: 512, past_tokens: 4096, decode_rows: 8, seconds: 0.06}

TTFT and session figures are those of a request or a session without company; they hold the frontend's time too.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from calibrate.fitting.robust import Vector
from calibrate.one_session import FrontendTimes, LoneTurn, session_figures, ttft_s
from sim.catalog import Gpu, Model, kv_dtype, linear_weight_bytes, load_gpu, load_model
from sim.errors import CatalogError, MemoryLedgerError, ProfileError
from sim.steptime.batch import BatchShape
from sim.steptime.compose import device_step_time_model
from sim.steptime.device import DeviceProfile
from sim.steptime.model import StepTimeModel
from sim.steptime.pricing import Engine
from sim.strict_yaml import decode, load_yaml

STEADY_ROUNDS, SETTLED = 100, 1e-7  # of the loop from time per token to sequences and back; share of a change
MOST_ROWS = 1024.0  # that decode at once, lest an overload have no end
MOST_STEPS = 100_000  # a fit prices every figure some thousand times
LEAST_SHARE = 0.05  # of time left for decoding, lest an overload divide by nothing

Tokens = Annotated[int, Meta(ge=0, le=10_000_000)]
Count = Annotated[int, Meta(ge=1, le=10_000_000)]
Positive = Annotated[float, Meta(gt=0, le=1e4)]


class _Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    error: Annotated[float, Meta(ge=0.001, le=1)] = 0.03  # how far the figure may be off, as a share: one sigma

    @property
    def name(self) -> str:
        """What the figure is, in the words of the file."""
        return str(self.__struct_config__.tag)

    def parts(self) -> list[str]:
        """Tell apart several figures of one entry."""
        return [""]

    def steps_priced(self, budget: int) -> int:
        """Return how many steps the figure's prediction takes, about."""
        sizes = {name: getattr(self, name, 0) for name in ("new_tokens", "uncached_tokens", "output_tokens", "turns")}
        chunks = -(-max(sizes["new_tokens"], sizes["uncached_tokens"]) // budget)
        turns = sizes["turns"]
        return turns * (chunks + sizes["output_tokens"]) if turns else chunks


class Ttft(_Figure, tag_field="kind", tag="ttft", kw_only=True, frozen=True):
    """Time to first token of one request alone."""

    cached_tokens: Tokens = 0
    new_tokens: Count
    seconds: Positive
    frontend_s: Annotated[float, Meta(ge=0)] | None = None  # instead of the profile's, where the figure leaves it out

    def predicted(self, steps: StepTimeModel, frontend: FrontendTimes, budget: int) -> list[float]:
        """Return the figures in the order of `given`."""
        own = frontend if self.frontend_s is None else FrontendTimes(self.frontend_s, 0.0)
        return [ttft_s(steps, own, LoneTurn(self.cached_tokens, self.new_tokens, 1), budget)]

    def given(self) -> list[float]:
        """Return the published seconds."""
        return [self.seconds]


class Tpot(_Figure, tag_field="kind", tag="tpot", kw_only=True, frozen=True):
    """Time per output token with so many sequences on so much context each."""

    context_tokens: Count
    decode_rows: Count = 1
    seconds: Positive

    def predicted(self, steps: StepTimeModel, frontend: FrontendTimes, budget: int) -> list[float]:  # noqa: ARG002 - as every figure
        """Return the figures in the order of `given`."""
        rows = self.decode_rows
        return [steps.seconds(BatchShape(rows, rows, 0.0, rows, rows * self.context_tokens))]

    def given(self) -> list[float]:
        """Return the published seconds."""
        return [self.seconds]


class Step(_Figure, tag_field="kind", tag="step", kw_only=True, frozen=True):
    """One forward pass."""

    prefill_requests: Tokens = 0
    new_tokens: Tokens = 0  # each
    past_tokens: Tokens = 0  # each
    decode_rows: Tokens = 0
    decode_past_tokens: Tokens = 0  # each
    seconds: Positive

    def __post_init__(self) -> None:
        if not self.prefill_requests * self.new_tokens + self.decode_rows:
            raise ValueError("holds neither prefill tokens nor decode rows")

    def predicted(self, steps: StepTimeModel, frontend: FrontendTimes, budget: int) -> list[float]:  # noqa: ARG002 - as every figure
        """Return the figures in the order of `given`."""
        prefill = self.prefill_requests * self.new_tokens
        pairs = prefill * (self.past_tokens + (self.new_tokens + 1) / 2)
        rows = self.decode_rows
        sampled = self.prefill_requests + rows
        kv = rows * (self.decode_past_tokens + 1)
        reads = self.prefill_requests * (self.past_tokens + self.new_tokens) if prefill else 0
        batch = BatchShape(prefill + rows, sampled, pairs, rows, kv, holds_prefill=prefill > 0, prefill_kv_tokens=reads)
        return [steps.seconds(batch)]

    def given(self) -> list[float]:
        """Return the published seconds."""
        return [self.seconds]


class LoneSession(_Figure, tag_field="kind", tag="session", kw_only=True, frozen=True):
    """A closed loop of one session: prefix cached, turns that grow by input and output, no think time."""

    shared_prefix_tokens: Tokens = 0
    turns: Annotated[int, Meta(ge=1, le=1000)]
    new_tokens: Count
    output_tokens: Count
    ttft_p50_s: Positive | None = None
    ttft_p95_s: Positive | None = None
    ttft_p99_s: Positive | None = None
    requests_per_s: Positive | None = None

    def __post_init__(self) -> None:
        if not self.given():
            raise ValueError("needs one of ttft_p50_s, ttft_p95_s, ttft_p99_s, requests_per_s")

    def predicted(self, steps: StepTimeModel, frontend: FrontendTimes, budget: int) -> list[float]:
        """Return the figures in the order of `given`."""
        grows = self.new_tokens + self.output_tokens
        turns = [
            LoneTurn(self.shared_prefix_tokens + turn * grows, self.new_tokens, self.output_tokens)
            for turn in range(self.turns)
        ]
        figures = session_figures(steps, frontend, turns, budget)
        return [getattr(figures, name) for name in self._named()]

    def given(self) -> list[float]:
        """Return the published figures."""
        return [getattr(self, name) for name in self._named()]

    def parts(self) -> list[str]:
        """Tell apart the figures of the session."""
        return [f" {name.removesuffix('_s').replace('_per', '/s')}" for name in self._named()]

    def _named(self) -> list[str]:
        names = ("ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "requests_per_s")
        return [name for name in names if getattr(self, name) is not None]


class Steady(_Figure, tag_field="kind", tag="steady", kw_only=True, frozen=True):
    """Time per output token under a steady stream of requests, well below any knee.

    As many sequences decode as Little's law says, each arrival prefills what is not cached of its prompt in their
    midst, and every step that does so makes all of them wait.
    """

    requests_per_s: Positive
    input_tokens: Count
    uncached_tokens: Count  # of the input: a whole hit still computes its last block
    output_tokens: Annotated[int, Meta(ge=2, le=10_000_000)]
    tpot_s: Positive

    def __post_init__(self) -> None:
        if self.uncached_tokens > self.input_tokens:
            raise ValueError(f"uncached_tokens {self.uncached_tokens} are more than input_tokens {self.input_tokens}")

    def predicted(self, steps: StepTimeModel, frontend: FrontendTimes, budget: int) -> list[float]:  # noqa: ARG002 - as every figure
        """Return the figures in the order of `given`."""
        rows, tpot_s = 1.0, 0.0
        for _ in range(STEADY_ROUNDS):
            below, share = int(rows), rows % 1  # on a line between whole rows: a fit needs slopes
            tpot_s = (1 - share) * self._tpot_s(steps, budget, below) + share * self._tpot_s(steps, budget, below + 1)
            before, rows = rows, min(MOST_ROWS, max(1.0, self.requests_per_s * self.output_tokens * tpot_s))
            if abs(rows - before) < SETTLED * rows:
                break
        return [tpot_s]

    def _tpot_s(self, steps: StepTimeModel, budget: int, rows: int) -> float:
        """Return the time per output token while so many rows decode."""
        kv = rows * (self.input_tokens + self.output_tokens // 2)
        decode_s = steps.seconds(BatchShape(rows, rows, 0.0, rows, kv))
        waits_s, done = 0.0, self.input_tokens - self.uncached_tokens
        while done < self.input_tokens:
            new = min(budget, self.input_tokens - done)
            pairs, reads = new * (done + (new + 1) / 2), done + new
            mixed = BatchShape(new + rows, rows + 1, pairs, rows, kv, holds_prefill=True, prefill_kv_tokens=reads)
            waits_s += steps.seconds(mixed) - decode_s
            done += new
        return decode_s / max(LEAST_SHARE, 1 - self.requests_per_s * waits_s)

    def given(self) -> list[float]:
        """Return the published figures."""
        return [self.tpot_s]


class Anchor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Figures of one system."""

    gpu: str
    model: str
    source: str = ""
    weight_dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: Annotated[int, Meta(ge=1, le=64)] = 1
    max_num_batched_tokens: Count = 2048
    max_num_seqs: Count = 256
    enforce_eager: bool = False
    figures: Annotated[list[Ttft | Tpot | Step | LoneSession | Steady], Meta(min_length=1)]

    def __post_init__(self) -> None:
        priced = sum(figure.steps_priced(self.max_num_batched_tokens) for figure in self.figures)
        if priced > MOST_STEPS:
            raise ValueError(
                f"its figures take {priced:,} steps to price, more than {MOST_STEPS:,}: smaller sizes say it too"
            )

    def given(self) -> list[float]:
        """Return every published figure."""
        return [value for figure in self.figures for value in figure.given()]

    def sigmas(self) -> list[float]:
        """Return how far each may be off, as a share."""
        return [figure.error for figure in self.figures for _ in figure.given()]

    def labels(self) -> list[str]:
        """Name every figure."""
        return [f"{self.model} {figure.name}{what}" for figure in self.figures for what in figure.parts()]

    def predicted(self, profile: DeviceProfile) -> Vector:
        """Return every figure as a profile has it."""
        gpu, model = load_gpu(self.gpu), load_model(self.model)
        steps = self.steps(profile, gpu, model)
        frontend = FrontendTimes(profile.frontend.per_request_s.value, profile.frontend.per_prompt_token_s.value)
        budget = self.max_num_batched_tokens
        return np.array([value for figure in self.figures for value in figure.predicted(steps, frontend, budget)])

    def steps(self, profile: DeviceProfile, gpu: Gpu, model: Model) -> StepTimeModel:
        """Return the step times of the anchor's system under a profile."""
        engine = Engine(max_num_seqs=self.max_num_seqs, enforce_eager=self.enforce_eager)
        return device_step_time_model(
            profile,
            gpu,
            model,
            self.weight_dtype,
            self.kv_cache_dtype,
            tensor_parallel_size=self.tensor_parallel_size,
            cuda_graph_tokens=engine.cuda_graph_tokens,
        )


def load_anchor(path: Path) -> Anchor:
    """Return the anchor in a YAML file; raises ProfileError, with the line, if it does not fit or a name is unknown."""
    document = load_yaml(path, ProfileError)
    anchor = decode(document, Anchor, ProfileError)
    look_up: dict[str, Callable[[str], object]] = {
        "gpu": load_gpu,
        "model": load_model,
        "weight_dtype": _weights,
        "kv_cache_dtype": kv_dtype,
    }
    for key, find in look_up.items():
        try:
            find(getattr(anchor, key))
        except (CatalogError, MemoryLedgerError) as error:
            raise ProfileError(f"{document.place((key,))}: {error}") from None
    return anchor


def _weights(dtype: str) -> float | None:
    return None if dtype == "auto" else linear_weight_bytes(dtype)


def of_gpu(anchors: Mapping[Path, Anchor], gpu: Gpu) -> None:
    """Raise ProfileError if any anchor is of another GPU."""
    for path, anchor in anchors.items():
        if load_gpu(anchor.gpu).name != gpu.name:
            raise ProfileError(f"{path}: the anchor is of gpu {anchor.gpu}, the profile of {gpu.name}")
