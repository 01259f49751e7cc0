"""The profile: the numbers a step's cost is made of, for one GPU, model and weight dtype.

A profile is a YAML file; every number says where it comes from and between which bounds it lies. The file is
written by `calibrate`, but this schema is its owner, so that simulating needs neither torch nor calibrate.
"""

import math
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sim.catalog import Gpu, Model, kv_dtype, load_gpu, load_model
from sim.errors import CatalogError, MemoryLedgerError, ProfileError, did_you_mean
from sim.steptime.light_speed import bounds
from sim.strict_yaml import YamlDocument, decode, load_yaml

SHIPPED = Path(__file__).parent / "profiles"

Source = Literal["measured", "fitted", "assumed", "roofline", "datasheet"]
NonNegative = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One number, its origin, and the range it is believed to lie in."""

    value: NonNegative
    source: Source
    low: NonNegative | None = None
    high: NonNegative | None = None
    note: str = ""

    def __post_init__(self) -> None:
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        if not low <= self.value <= high:
            raise ValueError(f"low {low:g}, value {self.value:g}, high {high:g} are not in ascending order")


class Linear(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Seconds of the body's linear layers by tokens in the step: measured points, joined by straight lines.

    Below the first point the first value holds (weights are read whatever the batch), above the last one the
    last slope goes on.
    """

    tokens: list[Annotated[int, Meta(ge=1)]]
    seconds: list[Positive]
    source: Source
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.seconds) or len(self.tokens) < 2:
            raise ValueError(f"{len(self.tokens)} tokens and {len(self.seconds)} seconds: need two or more of each")
        if any(b <= a for a, b in zip(self.tokens, self.tokens[1:], strict=False)):
            raise ValueError("tokens must ascend")
        if any(b < a for a, b in zip(self.seconds, self.seconds[1:], strict=False)):
            raise ValueError("seconds must not descend: more tokens never take less time")


class KvAttention(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attention with one KV cache dtype."""

    prefill_s_per_pair: Term  # seconds per (query, key) pair over all layers
    decode_bytes_per_s: Term  # KV bytes read by decode rows per second


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Output head and sampling: once a step that samples, and per sampled sequence."""

    per_step_s: Term
    per_sequence_s: Term


class Frontend(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Work on a request off the GPU before the scheduler sees it: HTTP, tokenisation, hashing."""

    per_request_s: Term
    per_prompt_token_s: Term


class Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who made the profile, from what, and how well it fits."""

    kind: Literal["measured", "fitted", "roofline"]
    made_by: str
    date: str
    sources: list[str]
    residuals: dict[str, float] = {}  # figure -> predicted / given - 1
    notes: list[str] = []


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All terms of a step's cost; `model.py` adds them up."""

    name: str
    gpu: str
    model: str
    weight_dtype: str
    provenance: Provenance
    step_overhead_s: Term
    linear: Linear
    head: Head
    attention: dict[str, KvAttention]  # by KV cache dtype
    prefill_tile_rows: Annotated[int, Meta(ge=1, le=1024)]
    shared_prefix_reads: Literal["per_sequence", "once_if_l2_holds_it"]
    frontend: Frontend


def kv_family(kv_cache_dtype: str) -> str:
    """Return the name a profile's attention is filed under: aliases of one storage type share it."""
    return kv_dtype(kv_cache_dtype).family


def read_profile(name_or_path: str) -> YamlDocument:
    """Return the YAML of a shipped profile by name, or of a file; raises ProfileError if there is none."""
    path = Path(name_or_path)
    if path.suffix not in {".yaml", ".yml"}:
        path = SHIPPED / f"{name_or_path}.yaml"
        if not path.is_file():
            known = profile_names()
            raise ProfileError(
                f"profile {name_or_path!r} is not shipped; there are {', '.join(known)}, roofline, "
                f"or a path to a .yaml file{did_you_mean(name_or_path, [*known, 'roofline'])}"
            )
    return load_yaml(path, ProfileError)


def load_profile(name_or_path: str) -> Profile:
    """Return a shipped profile of one model by name, or the one in a YAML file.

    Raises ProfileError if there is none, it does not fit the schema, or it is faster than its GPU can be.
    """
    return decode_profile(read_profile(name_or_path))


def decode_profile(document: YamlDocument) -> Profile:
    """Return the profile of one model that a YAML document holds, checked."""
    place = document.source
    profile = decode(document, Profile, ProfileError)
    if not profile.attention:
        raise ProfileError(f"{place}: attention is empty; expected one entry a KV cache dtype")
    try:
        gpu, model = load_gpu(profile.gpu), load_model(profile.model)
        check_light_speed(profile, gpu, model, place)
    except (CatalogError, MemoryLedgerError) as error:  # a GPU, model or dtype that is not known
        raise ProfileError(f"{place}: {error}") from None
    return msgspec.structs.replace(profile, gpu=gpu.name, model=model.name)  # aliases become catalog names


def profile_names() -> list[str]:
    """Return the names of the shipped profiles."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def check_light_speed(profile: Profile, gpu: Gpu, model: Model, place: str) -> None:
    """Raise ProfileError if any term is below what the hardware's peaks allow."""
    light = bounds(gpu, model, profile.weight_dtype)
    for tokens, seconds in zip(profile.linear.tokens, profile.linear.seconds, strict=True):
        least = light.linear_s(tokens)
        if seconds < least:
            raise _too_fast(place, f"linear.seconds at {tokens} tokens", seconds, least, gpu)
    slope = (profile.linear.seconds[-1] - profile.linear.seconds[-2]) / (
        profile.linear.tokens[-1] - profile.linear.tokens[-2]
    )
    if slope < light.linear_s_per_token:
        raise _too_fast(place, "the last slope of linear, per token,", slope, light.linear_s_per_token, gpu)
    head = profile.head.per_step_s.value
    if head < light.head_read_s:
        raise _too_fast(place, "head.per_step_s", head, light.head_read_s, gpu)
    for dtype, attention in profile.attention.items():
        pair, rate = attention.prefill_s_per_pair.value, attention.decode_bytes_per_s.value
        least = light.prefill_s_per_pair(dtype)
        if pair < least:
            raise _too_fast(place, f"attention.{dtype}.prefill_s_per_pair", pair, least, gpu)
        if not rate or rate > gpu.bandwidth_bytes_per_s:
            raise ProfileError(
                f"{place}: attention.{dtype}.decode_bytes_per_s {rate:.4g} must lie above 0 and at most at the "
                f"{gpu.bandwidth_bytes_per_s:.4g} of {gpu.name}"
            )


def _too_fast(place: str, what: str, seconds: float, least: float, gpu: Gpu) -> ProfileError:
    short = math.nan if not least else 1 - seconds / least
    return ProfileError(
        f"{place}: {what} is {seconds:.4g} s, {short:.0%} below the {least:.4g} s that {gpu.name} needs at its peaks"
    )
