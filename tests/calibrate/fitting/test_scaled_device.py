"""A profile scaled to another GPU: by the ratio of what each term is a share of, wider, and possible there."""

import msgspec
import pytest
from device_profiles import ATTENTION, round_numbers, terms

from calibrate.fitting.limits import limits_of
from calibrate.fitting.start import assumed_device, scaled_device
from calibrate.fitting.terms import terms_of
from sim.catalog import gpu_names, load_gpu
from sim.steptime.device import AttentionSpec, DeviceProfile, check_peaks
from sim.steptime.pricing import load_any
from sim.steptime.profile import Term, profile_names

L4, A100, L40S, H100 = map(load_gpu, ("L4", "A100", "L40S", "H100"))
DONOR = round_numbers()
RATIOS = {  # from an L4 to an L40S
    "linear.bf16.bytes_per_s": 864 / 300,
    "linear.bf16.flops_per_s": 362.05 / 121,
    "linear.fp8.flops_per_s": 733 / 242,
    "attention.bf16.prefill_flops_per_s": 362.05 / 121,
    "attention.bf16.decode_bytes_per_s": 864 / 300,
    "experts.bf16.flops_per_s": 362.05 / 121,
    "composition.elementwise_bytes_per_s": 864 / 300,
    "links.2.bytes_per_s": 1.0,  # both have PCIe 4.0 x16
    "linear.bf16.overhead_s": 1.0,
    "linear.bf16.sharpness": 1.0,
    "attention.bf16.decode_row_s": 1.0,
    "composition.flops_slowdown": 1.0,
    "frontend.per_request_s": 1.0,
}


def named(profile: DeviceProfile) -> dict[str, Term]:
    """Return the terms of a profile by name."""
    return dict(terms_of(profile))


@pytest.mark.parametrize("name", RATIOS)
def test_a_term_goes_by_what_it_is_a_share_of(name: str) -> None:
    """Rates by peaks of the data sheets, overheads not at all; value and range alike."""
    old, new = named(DONOR)[name], named(scaled_device(DONOR, L4, L40S, widen=1.5))[name]
    assert old.low is not None
    assert old.high is not None
    assert new.value == pytest.approx(RATIOS[name] * old.value, rel=1e-3)
    assert new.low == pytest.approx(RATIOS[name] * old.low / 1.5, rel=1e-3)
    assert new.high == pytest.approx(RATIOS[name] * old.high * 1.5, rel=1e-3)
    assert new.source == "assumed"
    assert "from L4" in new.note


def test_links_go_by_nvlink_where_there_is_some() -> None:
    """From PCIe at 32 to NVLink at 450 GB/s; latency stays."""
    old, new = named(DONOR), named(scaled_device(DONOR, L4, H100))
    assert new["links.2.bytes_per_s"].value == pytest.approx(old["links.2.bytes_per_s"].value * 450 / 32)
    assert new["links.2.latency_s"].value == old["links.2.latency_s"].value


def test_scaling_to_the_same_gpu_changes_no_value_and_widens_every_range() -> None:
    """All else that decides a price is the donor's too."""
    donor = round_numbers(prefill_tile_rows=128, prefill_packs_query_heads=True)
    same = scaled_device(donor, L4, L4)
    for name, term in named(donor).items():
        assert named(same)[name].value == term.value
        assert named(same)[name].low < term.low  # type: ignore[operator]
        assert named(same)[name].high > term.high  # type: ignore[operator]
    assert (same.prefill_tile_rows, same.prefill_packs_query_heads) == (128, True)
    assert same.shared_prefix_reads == donor.shared_prefix_reads


def test_what_the_donor_lacks_is_assumed_and_what_the_card_lacks_goes_by_what_it_has() -> None:
    """int4 nobody measured on the donor; an A100 has no fp8 units and multiplies in 16 bits."""
    scaled, own = scaled_device(DONOR, L4, A100), assumed_device(A100)
    assert scaled.linear["int4"] == own.linear["int4"]
    fp8 = scaled.linear["fp8"].flops_per_s.value
    assert fp8 == pytest.approx(DONOR.linear["fp8"].flops_per_s.value * 312 / 242)
    assert scaled.gpu == A100.name


def test_a_term_without_a_range_gets_one() -> None:
    """A hand-written donor may leave ranges out."""
    bare = {name: Term(value=value, source="measured") for name, value in ATTENTION.items()}
    scaled = scaled_device(round_numbers(attention={"bf16": AttentionSpec(**bare)}), L4, L40S)
    term = named(scaled)["attention.bf16.decode_overhead_s"]
    assert term.low == pytest.approx(term.value / 1.25)
    assert term.high == pytest.approx(term.value * 1.25)


def test_an_fp8_rate_beyond_a_cards_only_peak_ends_there() -> None:
    """Attention that multiplies fp8 on Hopper, at 1,500 TFLOPS, cannot take its share to an A100."""
    fast = AttentionSpec(**terms(ATTENTION | {"prefill_flops_per_s": 1.5e15}))
    donor = round_numbers(gpu="H100-80GB-SXM", attention={"bf16": DONOR.attention["bf16"], "fp8": fast})
    scaled = scaled_device(donor, H100, A100)
    assert named(scaled)["attention.fp8.prefill_flops_per_s"].value == A100.bf16_flops
    check_peaks(scaled, A100, "scaled")


@pytest.mark.parametrize("gpu", gpu_names())
def test_any_card_can_be_assumed_and_scaled_to_from_any_shipped_profile(gpu: str) -> None:
    """Every term positive, in its range, and no rate beyond the card's peak."""
    card = load_gpu(gpu)
    shipped = [donor for donor in map(load_any, profile_names()) if isinstance(donor, DeviceProfile)]
    donors = [donor for donor in shipped if donor.hardware is None]  # a CPU is no donor
    assert donors
    for profile in (assumed_device(card), *(scaled_device(donor, load_gpu(donor.gpu), card) for donor in donors)):
        check_peaks(profile, card, profile.name)
        for name, term in terms_of(profile):
            low, high = limits_of(name, card)
            assert low <= term.value <= high * (1 + 1e-5), name
            assert term.value > 0 or name.startswith("frontend."), name
        assert msgspec.convert(msgspec.to_builtins(profile), DeviceProfile) == profile
