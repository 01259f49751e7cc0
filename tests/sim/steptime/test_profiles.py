"""Profiles: every mistake is one line, no term beats the hardware, and a roofline says that it is one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.catalog import gpu_names, load_gpu, load_model
from sim.errors import ProfileError
from sim.scenario import Scenario
from sim.setup import deploy
from sim.steptime.light_speed import bounds
from sim.steptime.model import step_time_model
from sim.steptime.pricing import load_any
from sim.steptime.profile import SHIPPED, check_light_speed, load_profile, profile_names
from sim.steptime.roofline import roofline_profile
from sim.strict_yaml import apply_overrides, decode, load_yaml

SCENARIO = Path(__file__).parents[3] / "scenarios" / "l4-qwen3-4b-fp8.yaml"
L4_FILE = SHIPPED / "l4-qwen3-4b-fp8.yaml"
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Change], str]:
    """Return a function that writes the shipped L4 profile with something changed and returns its path."""

    def write(change: Change) -> str:
        document = yaml.safe_load(L4_FILE.read_text(encoding="utf-8"))
        change(document)
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        return str(path)

    return write


def refusal(name_or_path: str) -> str:
    """Return the message with which a profile is refused: one line."""
    with pytest.raises(ProfileError) as caught:
        load_profile(name_or_path)
    message = str(caught.value)
    assert len(message.splitlines()) == 1, message
    assert Path(name_or_path).name in message
    return message


@pytest.mark.parametrize("name", profile_names())
def test_every_shipped_profile_loads_under_its_own_name(name: str) -> None:
    """The file's stem is what scenarios write."""
    assert load_any(name).name == name


def test_an_unknown_name_gets_the_nearest(tmp_path: Path) -> None:
    """Shipped names and roofline are offered; a path that is not there is named."""
    assert "did you mean 'l4-qwen3-4b-fp8'?" in refusal("l4-qwen3-4b-fp9")
    assert "did you mean 'roofline'?" in refusal("rooflin")
    assert "mine.yaml: no such file" in refusal(str(tmp_path / "mine.yaml"))


def test_an_empty_file_is_no_profile(tmp_path: Path) -> None:
    """Nor is one with nothing but a comment."""
    for text in ("", "# nothing\n"):
        path = tmp_path / "empty.yaml"
        path.write_text(text, encoding="utf-8")
        assert f"{path}: is empty" in refusal(str(path))


def set_term(*path: str | int, value: object) -> Change:
    """Return a change that sets one value."""

    def change(document: dict[str, Any]) -> None:
        here: Any = document
        for key in path[:-1]:
            here = here[key]
        here[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (set_term("attention", value={}), "attention is empty; expected one entry a KV cache dtype"),
        (lambda d: d.pop("attention"), "attention is required but missing"),
        (lambda d: d.pop("linear"), "linear is required but missing"),
        (lambda d: d["attention"]["fp8"].pop("decode_bytes_per_s"), "attention.fp8.decode_bytes_per_s is required"),
        (set_term("step_overhead_s", "value", value=float("nan")), "step_overhead_s.value nan must be a finite number"),
        (set_term("head", "per_step_s", "value", value=float("inf")), "head.per_step_s.value inf must be a finite"),
        (set_term("linear", "seconds", 1, value=float("nan")), "linear.seconds[1] nan must be a finite number"),
        (set_term("step_overhead_s", "value", value=-0.001), "step_overhead_s.value -0.001 must be >= 0"),
        (set_term("linear", "seconds", 0, value=-1.0), "linear.seconds[0] -1.0 must be > 0"),
        (set_term("linear", "seconds", 0, value=0.5), "seconds must not descend"),
        (set_term("linear", "tokens", 1, value=1), "tokens must ascend"),
        (set_term("linear", "tokens", value=[1]), "1 tokens and 3 seconds: need two or more of each"),
        (set_term("step_overhead_s", "low", value=0.01), "low 0.01, value 0.003, high 0.006"),
        (set_term("step_overhead_s", "valeu", value=1.0), "did you mean 'value'?"),
        (set_term("step_overhead_s", "source", value="guessed"), "'guessed'"),
        (set_term("prefill_tile_rows", value=0), "prefill_tile_rows 0 must be >= 1"),
        (set_term("gpu", value="L44"), "did you mean 'L4'?"),
        (set_term("model", value="Qwen3-4C"), "did you mean 'Qwen3-4B'?"),
        (set_term("weight_dtype", value="fp9"), "did you mean 'fp8'?"),
        (set_term("attention", "fp8", "decode_bytes_per_s", "value", value=0.0), "must lie above 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_profile_is_refused_in_one_line(written: Callable[[Change], str], change: Change, said: str) -> None:
    """With the key, the value and the rule; the file is named."""

    def widened(document: dict[str, Any]) -> None:
        document["attention"]["fp8"]["decode_bytes_per_s"]["low"] = 0.0
        change(document)

    assert said in refusal(written(widened))


def light_speed_terms() -> dict[str, tuple[tuple[str | int, ...], float]]:
    """Return, for each term that light speed bounds, where it stands and its bound in seconds (or bytes a second)."""
    gpu, model = load_gpu("L4"), load_model("Qwen3-4B")
    light = bounds(gpu, model, "fp8")
    pair = ("prefill_s_per_pair", "value")
    rate = ("decode_bytes_per_s", "value")
    return {
        "linear read": (("linear", "seconds", 0), light.linear_read_s),
        "linear slope": (("linear", "seconds", 2), 0.0152728 + (16384 - 269) * light.linear_s_per_token),
        "head": (("head", "per_step_s", "value"), light.head_read_s),
        "fp8 pair": (("attention", "fp8", *pair), light.pair_8bit_s),
        "bf16 pair": (("attention", "bf16", *pair), light.pair_16bit_s),
        "4-bit pair": (("attention", "turboquant", *pair), light.pair_16bit_s),
        "fp8 bytes": (("attention", "fp8", *rate), gpu.bandwidth_bytes_per_s),
        "bf16 bytes": (("attention", "bf16", *rate), gpu.bandwidth_bytes_per_s),
    }


@pytest.mark.parametrize("term", light_speed_terms())
def test_a_term_at_light_speed_is_accepted_and_a_tenth_faster_is_not(
    written: Callable[[Change], str], term: str
) -> None:
    """A GPU cannot beat its peaks, but may reach them."""
    path, bound = light_speed_terms()[term]
    is_rate = path[-2] == "decode_bytes_per_s"

    def at(value: float) -> Change:
        def change(document: dict[str, Any]) -> None:
            here: Any = document
            for key in path[:-1]:
                here = here[key]
            here[path[-1]] = value
            if path[-1] == "value":
                here |= {"low": None, "high": None}

        return change

    hair = 1e-9  # floats of the bound itself
    load_profile(written(at(bound * (1 - hair if is_rate else 1 + hair))))
    said = refusal(written(at(bound * 1.1 if is_rate else bound * 0.9)))
    assert "mine.yaml" in said
    assert "L4" in said
    if not is_rate and term != "linear slope":
        assert "10% below" in said


def test_a_point_of_linear_between_others_is_held_to_the_bound(written: Callable[[Change], str]) -> None:
    """Not only its ends: 8,192 tokens in 10 ms are beyond 242 TFLOPS."""

    def change(document: dict[str, Any]) -> None:
        document["linear"] |= {"tokens": [1, 8192, 16384], "seconds": [0.0152728, 0.0152729, 0.929554]}

    assert "linear.seconds at 8192 tokens" in refusal(written(change))


@pytest.mark.parametrize(("share", "refuses"), [(1.001, False), (0.9, True)])
def test_the_last_slope_is_held_to_the_bound_where_no_point_gives_it_away(
    written: Callable[[Change], str], *, share: float, refuses: bool
) -> None:
    """Points far above the bound, but joined by a slope that would beat it some way beyond them."""
    slope = share * bounds(load_gpu("L4"), load_model("Qwen3-4B"), "fp8").linear_s_per_token

    def change(document: dict[str, Any]) -> None:
        document["linear"] |= {"tokens": [1, 1000, 2000], "seconds": [1.0, 1.0, 1.0 + 1000 * slope]}

    path = written(change)
    if refuses:
        assert "the last slope of linear, per token, is" in refusal(path)
    else:
        load_profile(path)


@pytest.mark.parametrize(
    ("gpu", "model", "kv_cache_dtype", "said"),
    [
        ("A100", "Qwen3-4B", "fp8", "is of gpu L4, the scenario asks for A100-80GB-SXM"),
        ("L4", "Qwen3-8B", "fp8", "is of model Qwen3-4B, the scenario asks for Qwen3-8B"),
    ],
)
def test_a_profile_of_something_else_is_refused(*, gpu: str, model: str, kv_cache_dtype: str, said: str) -> None:
    """Step times of one GPU or model say nothing of another."""
    with pytest.raises(ProfileError, match=said):
        step_time_model(load_profile("l4-qwen3-4b-fp8"), load_gpu(gpu), load_model(model), kv_cache_dtype)


@pytest.mark.parametrize("weight_dtype", ["bf16", "auto", "int4"])
def test_a_profile_of_other_weights_is_refused(weight_dtype: str) -> None:
    """fp8 linear layers say nothing of 16-bit ones."""
    changes = [f"weight_dtype={weight_dtype}", "engine.max_model_len=2048", "engine.kv_cache_tokens=20000"]
    document = apply_overrides(load_yaml(SCENARIO), changes)
    with pytest.raises(ProfileError, match=f"is of weight_dtype fp8, the scenario asks for {weight_dtype}"):
        deploy(decode(document, Scenario), "l4.yaml")


def test_a_kv_dtype_without_attention_is_refused(written: Callable[[Change], str]) -> None:
    """The profile says which it has."""
    profile = load_profile(written(lambda document: document["attention"].pop("fp8")))
    with pytest.raises(ProfileError, match=r"attention for kv_cache_dtype 'fp8' is not one of bf16, turboquant"):
        step_time_model(profile, load_gpu("L4"), load_model("Qwen3-4B"), "fp8_e4m3")


@pytest.mark.parametrize("alias", ["fp8", "fp8_e4m3", "fp8_e5m2", "int8"])
def test_aliases_of_a_kv_dtype_cost_the_same(alias: str) -> None:
    """One storage type, one price."""
    profile, gpu, model = load_profile("l4-qwen3-4b-fp8"), load_gpu("L4"), load_model("Qwen3-4B")
    one, other = (step_time_model(profile, gpu, model, dtype) for dtype in ("fp8", alias))
    assert one.decode_s_per_kv_token == other.decode_s_per_kv_token
    assert one.prefill_s_per_pair == other.prefill_s_per_pair


@pytest.mark.parametrize("weight_dtype", ["auto", "fp8", "int4"])
@pytest.mark.parametrize("model", ["Qwen3-0.6B", "Qwen3-4B", "Llama-3.1-70B", "Qwen3-30B-A3B", "Mixtral-8x7B"])
@pytest.mark.parametrize("gpu", gpu_names())
def test_a_roofline_never_beats_light_speed_and_is_labelled(*, gpu: str, model: str, weight_dtype: str) -> None:
    """For every GPU, dense and mixture of experts; no number of it claims to be measured or fitted."""
    profile = roofline_profile(load_gpu(gpu), load_model(model), weight_dtype)
    check_light_speed(profile, load_gpu(gpu), load_model(model), "roofline")
    assert profile.provenance.kind == "roofline"
    assert profile.name.startswith("roofline-")
    assert "nothing measured" in profile.provenance.notes[0]
    terms = [profile.step_overhead_s, profile.head.per_step_s, profile.head.per_sequence_s]
    terms += [term for one in profile.attention.values() for term in (one.prefill_s_per_pair, one.decode_bytes_per_s)]
    assert {term.source for term in terms} | {profile.linear.source} <= {"roofline", "assumed"}


@pytest.mark.parametrize("gpu", ["L4", "A100", "H100", "MI300X"])
def test_a_roofline_prices_every_kv_dtype(gpu: str) -> None:
    """fp8 KV halves what a decode row reads."""
    profile = roofline_profile(load_gpu(gpu), load_model("Qwen3-8B"), "auto")
    times = {
        dtype: step_time_model(profile, load_gpu(gpu), load_model("Qwen3-8B"), dtype).decode_s_per_kv_token
        for dtype in ("auto", "bf16", "fp8", "tq4", "turboquant_4bit_nc")
    }
    assert times["auto"] == times["bf16"] == pytest.approx(2 * times["fp8"])
    assert times["tq4"] < times["turboquant_4bit_nc"] < times["fp8"]


def test_aliases_of_gpu_and_model_become_catalog_names(written: Callable[[Change], str]) -> None:
    """A profile written by hand may say `NVIDIA L4`; it is the L4's all the same."""
    assert load_profile(written(set_term("gpu", value="NVIDIA L4"))).gpu == "L4"
