"""Device profiles as files: every mistake is one line, no rate beats the hardware, and the shipped ones are sound."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from device_profiles import round_numbers

from sim.catalog import load_gpu, load_model
from sim.errors import ProfileError
from sim.steptime.batch import BatchShape
from sim.steptime.compose import device_step_time_model
from sim.steptime.device import DeviceProfile, check_peaks, device_gpu, weight_family
from sim.steptime.light_speed import bounds
from sim.steptime.pricing import load_any
from sim.steptime.profile import profile_names

Change = Callable[[dict[str, Any]], object]
L4 = load_gpu("L4")


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes the profile of round numbers with one value changed and returns its path."""

    def write(*path: str, value: Any) -> str:
        document: dict[str, Any] = msgspec.to_builtins(round_numbers())
        here = document
        for key in path[:-1]:
            here = here[key]
        if value is None:
            del here[path[-1]]
        else:
            here[path[-1]] = value
        file = tmp_path / "mine.yaml"
        file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        return str(file)

    return write


def test_what_is_written_is_what_is_read(written: Callable[..., str]) -> None:
    """Every term with value, range and origin; a GPU by any of its names."""
    assert load_any(written("name", value="round")) == round_numbers()
    read = load_any(written("gpu", value="NVIDIA L4"))
    assert read.gpu == "L4"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("gpu", "L44", "mine.yaml: gpu 'L44' is not in the catalog (did you mean 'L4'?)"),
        ("linear.bf16.bytes_per_s", None, "linear.bf16.bytes_per_s is required but missing"),
        ("linear.bf16.bytes_per_sec", {}, "did you mean 'bytes_per_s'?"),
        ("composition.step_s.value", float("nan"), "composition.step_s.value nan must be a finite number"),
        ("composition.step_s.value", -1.0, "composition.step_s.value -1.0 must be >= 0"),
        ("composition.step_s.low", 1.0, "are not in ascending order"),
        ("composition.step_s.source", "guessed", "'guessed'"),
        ("prefill_tile_rows", 0, "prefill_tile_rows 0 must be >= 1"),
        ("shared_prefix_reads", "never", "'never'"),
        ("kind", "devise", "kind"),
        ("provenance", None, "provenance is required but missing"),
    ],
)
def test_a_broken_device_profile_is_refused_in_one_line(
    written: Callable[..., str], path: str, value: Any, said: str
) -> None:
    """With file, key, value and rule."""
    with pytest.raises(ProfileError) as caught:
        load_any(written(*path.split("."), value=value))
    message = str(caught.value)
    assert said in message
    assert "mine.yaml" in message
    assert "\n" not in message


BANDWIDTH, SIXTEEN, EIGHT = L4.bandwidth_bytes_per_s, L4.bf16_flops, L4.fp8_flops or 0.0
AT_MOST = {
    "linear.bf16.flops_per_s": SIXTEEN,
    "linear.fp8.flops_per_s": EIGHT,
    "linear.bf16.bytes_per_s": BANDWIDTH,
    "attention.bf16.prefill_flops_per_s": SIXTEEN,
    "attention.fp8.prefill_flops_per_s": EIGHT,
    "attention.fp8.decode_bytes_per_s": BANDWIDTH,
    "experts.bf16.flops_per_s": SIXTEEN,
    "experts.bf16.bytes_per_s": BANDWIDTH,
}
ABOVE_ZERO = ("links.2.bytes_per_s", "composition.elementwise_bytes_per_s", *AT_MOST)
AT_LEAST_ONE = (
    "linear.bf16.sharpness", "attention.bf16.sharpness", "experts.bf16.sharpness", "composition.flops_slowdown",
)  # fmt: skip


def _term(value: float) -> dict[str, Any]:
    return {"value": value, "source": "assumed"}


@pytest.mark.parametrize("name", AT_MOST)
def test_a_rate_may_reach_its_peak_but_not_pass_it(written: Callable[..., str], name: str) -> None:
    """The data sheet's, dense, for the type that is multiplied."""
    load_any(written(*name.split("."), value=_term(AT_MOST[name])))
    with pytest.raises(ProfileError, match=rf"mine.yaml: {name} .* must lie above 0 and at most at the"):
        load_any(written(*name.split("."), value=_term(1.01 * AT_MOST[name])))


@pytest.mark.parametrize("name", ABOVE_ZERO)
def test_a_rate_of_zero_is_refused(written: Callable[..., str], name: str) -> None:
    """Not divided by."""
    with pytest.raises(ProfileError, match=rf"mine.yaml: {name} 0 must lie above 0"):
        load_any(written(*name.split("."), value=_term(0.0)))


@pytest.mark.parametrize("name", AT_LEAST_ONE)
def test_what_only_makes_slower_is_at_least_one(written: Callable[..., str], name: str) -> None:
    """A sharpness below 1 costs more than bytes and FLOPs one after the other; a slowdown below it beats the clock."""
    load_any(written(*name.split("."), value=_term(1.0)))
    for value in (0.0, 0.9):
        with pytest.raises(ProfileError, match=rf"mine.yaml: {name} {value:g} must be at least 1"):
            load_any(written(*name.split("."), value=_term(value)))


def test_weight_types_of_one_storage_share_their_terms() -> None:
    """16-bit names are bf16's, AWQ and GPTQ are int4's."""
    families = {name: weight_family(name) for name in ("fp16", "bfloat16", "awq", "gptq", "fp8")}
    assert families == {"fp16": "bf16", "bfloat16": "bf16", "awq": "int4", "gptq": "int4", "fp8": "fp8"}


DEVICES = [name for name in profile_names() if isinstance(load_any(name), DeviceProfile)]
DECODE = BatchShape(8, 8, 0.0, 8, 8 * 2000)
PREFILL = BatchShape(2048, 1, 2048 * 2049 / 2, 0, 0, holds_prefill=True)
MODELS = ("Qwen3-0.6B", "Qwen3-8B", "Llama-3.1-70B", "Qwen3-30B-A3B")


def shipped(name: str) -> DeviceProfile:
    """Return a shipped device profile."""
    profile = load_any(name)
    assert isinstance(profile, DeviceProfile)
    return profile


def test_there_are_shipped_device_profiles() -> None:
    """Or the tests below would hold of nothing."""
    assert {"h100", "a100", "l4"} <= set(DEVICES)


@pytest.mark.parametrize("name", DEVICES)
def test_a_shipped_profile_says_what_it_rests_on(name: str) -> None:
    """The command, a date, sources; an error by kind of evidence where something was fitted; ranges in order."""
    profile = shipped(name)
    provenance = profile.provenance
    assert provenance.made_by.startswith(("kvcliff fit ", "python -m calibrate."))
    assert len(provenance.date) == len("2026-01-01")
    assert provenance.sources
    document = msgspec.to_builtins(profile)
    fitted = [place for place, term in _terms_in(document) if term["source"] == "fitted"]
    assert bool(fitted) <= bool(provenance.residuals)
    for place, term in _terms_in(document):
        given = [bound for bound in (term["low"], term["value"], term["high"]) if bound is not None]
        assert given == sorted(given), place
        assert len(given) == 3 or term["source"] == "assumed", place


def _terms_in(node: Any, place: str = "") -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(node, dict):
        return []
    if {"value", "source"} <= node.keys():
        return [(place, node)]
    return [found for key, inner in node.items() for found in _terms_in(inner, f"{place}.{key}")]


@pytest.mark.parametrize("name", DEVICES)
def test_no_shipped_profile_beats_its_hardware(name: str) -> None:
    """Neither a rate, nor a decode step, nor a prefill, of any catalog model in any weight and KV type it has."""
    profile = shipped(name)
    gpu = device_gpu(profile)
    check_peaks(profile, gpu, name)
    for model in map(load_model, MODELS):
        for weights in profile.linear.keys() & {"bf16", "fp8", "int4"}:
            for kv in ("bf16", "fp8"):
                steps = device_step_time_model(profile, gpu, model, weights, kv)
                light = bounds(gpu, model, weights)
                read_s = DECODE.decode_kv_tokens * model.kv_bytes_per_token(kv) / gpu.bandwidth_bytes_per_s
                least = light.linear_read_s + light.head_read_s + read_s
                assert steps.seconds(DECODE) > least, (model.name, weights, kv)
                pairs_s = PREFILL.prefill_pairs * light.prefill_s_per_pair(kv)
                # a 4-bit product may run at the 8-bit peak: with 16-bit sums, where a card is faster at those
                peak = gpu.bf16_flops if weights == "bf16" else gpu.fp8_flops or gpu.bf16_flops
                least = PREFILL.tokens * model.linear_flops_per_token / peak + pairs_s
                assert steps.seconds(PREFILL) > least, (model.name, weights, kv)
