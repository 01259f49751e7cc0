"""Workload profiles: the shipped numbers against what was published, and how a scenario lays its own over them."""

import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from small_scenario import SMALL

from sim.errors import KvcliffError, ScenarioError
from sim.load import decode_scenario, load_deployment
from sim.scenario import Scenario
from sim.setup import look_up
from sim.strict_yaml import apply_overrides, parse_yaml
from sim.sweep.key import deployment_key
from sim.workload_drawn import drawn_summary
from sim.workload_profiles import built_in_names, load_profile, profile_path
from sim.workload_setup import workload
from sim.workload_spec import LognormalSpec, MixtureSpec, WorkloadSpec
from workloads import AgentWorkload, GrowingWorkload
from workloads.drawn import KEPT_FOR_S, DrawnSessions, drawn_sessions

ROOT = Path(__file__).parents[2]
NAMES = built_in_names()
PROFILED = re.sub(r"^workload: .*$", "workload: {profile: coding-agent}", SMALL, flags=re.MULTILINE)
PROFILED = PROFILED.replace("max_model_len: 4096", "max_model_len: 40960")


def scenario(*overrides: str, text: str = PROFILED, place: str = "a.yaml") -> Scenario:
    """Return a scenario with overrides applied."""
    return decode_scenario(apply_overrides(parse_yaml(text, place), overrides))


def spec(*overrides: str, text: str = PROFILED, place: str = "a.yaml") -> WorkloadSpec:
    """Return the workload of a scenario."""
    found = scenario(*overrides, text=text, place=place).workload
    assert found is not None
    return found


def shipped(name: str) -> WorkloadSpec:
    """Return the workload of a shipped profile."""
    return load_profile(profile_path(name)).workload


@pytest.fixture(scope="module")
def agents() -> DrawnSessions:
    """Draw coding agents without a limit of length, as they were recorded."""
    return drawn_sessions(workload(shipped("coding-agent")), seed=1, sessions=1500)


def test_the_promised_profiles_ship() -> None:
    """By name."""
    promised = {"simple", "coding-agent", "chat", "rag", "long-document-summary", "batch", "agentic-code-aiperf"}
    assert promised <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_is_named_after_its_file_and_says_where_each_number_is_from(name: str) -> None:
    """The sources are checked when it is read; here that they say something, and that a list shows it in one line."""
    profile = load_profile(profile_path(name))
    assert profile.name == name
    assert len(profile.description) <= 57
    assert all(len(source) > 3 for source in profile.sources.values())


@pytest.mark.parametrize("name", [name for name in NAMES if name != "simple"])
def test_profiles_have_distributions_and_not_constants(name: str) -> None:
    """Lengths vary in every service."""
    own = shipped(name)
    for key in ("first_tokens", "output_tokens"):
        assert isinstance(getattr(own, key), msgspec.Struct)
    assert drawn_summary(workload(own, 131072))["percentiles"]["prompt_tokens"]["p99"] > 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("most", [32768, 262144])
def test_no_prompt_of_a_profile_outgrows_the_model(name: str, most: int) -> None:
    """With its answer: a refusal would end the session."""
    if name == "agentic-code-aiperf" and most == 32768:
        pytest.skip("its shared prefix alone has 32,000 tokens")
    rng = np.random.default_rng(0)
    of = workload(shipped(name), most)
    for number in range(100):
        session = of.session(str(number), rng)
        pairs = zip(session.lengths(), session.turns, strict=True)
        assert max(length.tokens + turn.output_tokens for length, turn in pairs) <= most


def test_the_simple_profile_is_the_founding_document() -> None:
    """The same workload, key for key, as its scenario."""
    founding = load_deployment(ROOT / "scenarios" / "l4-qwen3-4b-fp8.yaml").scenario.workload
    assert shipped("simple") == founding
    assert isinstance(workload(shipped("simple")), AgentWorkload)


@pytest.mark.parametrize(
    ("what", "published", "within"),
    [  # kv-cache-tester's sessions: 25th, 50th, 75th, 90th percentile and mean
        ("turns", (18, 45, 94, 155, 68.5), 0.35),
        ("first", (18_600, 24_500, 104_000, 259_000, 91_000), 0.15),
        ("prompts", (67_700, 104_600, 139_000, 236_000, 123_000), 0.15),
        ("longest", (112_000, 148_000, 186_000, 340_000, 183_000), 0.15),
        ("outputs", (137, 216, 429, 899, 439), 0.35),
        ("growth", (331, 655, 1_551, 3_541, 1_784), 0.15),
        ("pauses", (6, 10, 34, 171, 177), 0.25),
    ],
)
def test_coding_agents_are_as_long_as_the_recorded_ones(
    agents: DrawnSessions, what: str, published: tuple[float, ...], within: float
) -> None:
    """Of which only turns, first prompts, answers and pauses are put in; prompts and growth follow."""
    values: list[Any] = {
        "turns": agents.turns,
        "first": [prompts[0] for prompts in agents.prompts],
        "prompts": [tokens for prompts in agents.prompts for tokens in prompts],
        "longest": [max(prompts) for prompts in agents.prompts],
        "outputs": agents.outputs,
        "growth": agents.growth,
        "pauses": agents.pauses_s,
    }[what]
    drawn = [*np.percentile(values, (25, 50, 75, 90)), np.mean(values)]
    assert drawn == pytest.approx(published, rel=within)


def test_coding_agents_pause_and_shrink_as_the_recorded_ones(agents: DrawnSessions) -> None:
    """19 % of pauses exceed a minute and 7.0 % five, 0.88 % of steps shrink; by request, fresh sessions grow so."""
    pauses = np.array(agents.pauses_s)
    assert np.mean(pauses > 60) == pytest.approx(0.19, abs=0.01)
    assert np.mean(pauses > 300) == pytest.approx(0.070, abs=0.01)
    assert agents.shrinks / len(pauses) == pytest.approx(0.0088, abs=0.003)
    fresh = [prompts for prompts in agents.prompts if prompts[0] < 40_000]
    for number, published in {1: 19_000, 5: 38_700, 12: 51_700, 20: 60_700, 45: 89_700, 90: 117_000}.items():
        lengths = [prompts[number - 1] for prompts in fresh if len(prompts) >= number]
        assert np.median(lengths) == pytest.approx(published, rel=0.2)


def test_coding_agents_forget_as_tracelab_measured(agents: DrawnSessions) -> None:
    """Published hits by how long an idle session is kept: 85.4 % at a minute, 94 % at five, 98.6 % at an hour.

    Counted by tokens, over a cache without a limit: a prompt finds what it shares with the last prompt and answer if
    the pause since that answer is no longer, else the shared prefix. First prompts of resumed sessions do not count.
    """
    for kept_for_s, published in zip(KEPT_FOR_S, (0.854, 0.94, 0.986), strict=False):
        assert agents.hit_rate(kept_for_s) == pytest.approx(published, abs=0.05)


def test_a_scenario_says_beside_its_profile_what_is_different() -> None:
    """Numbers replace distributions; parts of one that do not name a kind change it; null removes."""
    plain = spec()
    assert plain == msgspec.structs.replace(shipped("coding-agent"), profile="coding-agent")
    text = PROFILED.replace(
        "{profile: coding-agent}", "{profile: coding-agent, turns: 7, compaction: null, rewrites: {share: 0.5}}"
    )
    own = spec(text=text)
    assert (own.turns, own.compaction) == (7, None)
    assert own.rewrites is not None
    assert own.rewrites.share == 0.5
    assert own.new_tokens == plain.new_tokens
    named = spec("workload.output_tokens={kind: constant, value: 3}")
    assert msgspec.to_builtins(named.output_tokens) == {"kind": "constant", "value": 3.0}
    longer = spec("workload.output_tokens.median=400").output_tokens
    assert isinstance(longer, LognormalSpec)
    assert (longer.median, longer.p99) == (400, 3663)
    assert isinstance(plain.think_s, MixtureSpec)


def test_an_override_replaces_the_whole_workload_of_the_file() -> None:
    """By the profile it names; other overrides stay on top, in any order."""
    assert spec("workload.profile=chat", text=SMALL) == spec("workload.profile=chat")
    own = spec("workload.turns=3", "workload.profile=chat", text=SMALL)
    assert (own.turns, own.shared_prefix_tokens) == (3, 1000)
    whole = spec("workload={profile: chat, turns: 4}", text=SMALL)
    assert (whole.turns, whole.shared_prefix_tokens) == (4, 1000)


def test_background_sessions_have_profiles_too() -> None:
    """With a prefix of their own."""
    of = scenario("background={sessions: 2, workload: {profile: batch}}").background
    assert of is not None
    assert of.workload.output_tokens == shipped("batch").output_tokens


def test_a_profile_may_be_a_file_beside_the_scenario_or_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path in the file counts from its folder; a typed one may count from the working directory."""
    (tmp_path / "mine.yaml").write_text((profile_path("rag")).read_text(), encoding="utf-8")
    text = PROFILED.replace("coding-agent", "./mine.yaml")
    assert spec(text=text, place=str(tmp_path / "a.yaml")).turns == 1
    monkeypatch.chdir(tmp_path)
    assert spec("workload.profile=mine.yaml", place="elsewhere/a.yaml").turns == 1


def test_profiles_change_the_key_of_a_simulation_by_their_numbers_alone(tmp_path: Path) -> None:
    """A copy under another name is the same simulation; another number is not."""
    (tmp_path / "copy.yaml").write_text(profile_path("chat").read_text(), encoding="utf-8")
    place = str(tmp_path / "a.yaml")
    keys = [
        deployment_key(look_up(scenario(*overrides, place=place), place))
        for overrides in (
            ["workload.profile=chat"],
            ["workload.profile=copy.yaml"],
            ["workload.profile=chat", "workload.turns=3"],
        )
    ]
    assert keys[0] == keys[1] != keys[2]


GOOD = """name: mine
description: mine
workload: {shared_prefix_tokens: 1, turns: 2, new_tokens: 3, output_tokens: 4}
sources: {shared_prefix_tokens: me, turns: me, new_tokens: me, output_tokens: me}
"""


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["workload.profile=coding-agnet"],
            "--set workload.profile: workload.profile: profile 'coding-agnet' is not one",
        ),
        (["workload.profile=coding-agnet"], r"\(did you mean 'coding-agent'\?\), nor the path of a .yaml file"),
        (["workload.profile=no/such.yaml"], "no such file"),
        (["workload.trns=3"], "workload.trns is not a known key .did you mean 'turns'"),
        (["workload.profile=3"], "workload.profile 3|expected text"),
        (["workload.turns=20000"], "turns up to 20000 are more than the 10,000"),
        (["workload.stripped_share=0.999"], "sum to 1.009, more than 1"),
        (["workload.compaction.left=2"], "left up to 2 is a share"),
        (["workload.rewrites.kept={kind: uniform, low: 0, high: 1.5}"], "kept up to 1.5 is a share"),
        (["workload.compaction.shre=0.1"], "did you mean 'share'"),
        (["workload.output_tokens={kind: lognormal, median: 5}"], "needs one of sigma, p75, p90, p95, p99"),
        (["workload.output_tokens={kind: lognormal, median: 5, p90: 6, p95: 7}"], "got p90 and p95"),
        (["workload.output_tokens={kind: lognormal, median: 5, p90: 4}"], "p90 4 must be at least median 5"),
        (["workload.output_tokens={kind: lognormal, mean: 5}"], "mean and std"),
        (["workload.output_tokens={kind: lognormal, median: 1, p75: 9e6}"], "sigma of the logarithm 23.7 must be at"),
        (["workload.output_tokens={kind: normal, mean: 5, std: 1, min: 4, max: 3}"], "max 3 must be at least min 4"),
        (["workload.output_tokens={kind: quantiles, shares: [0, 1], values: [1, 2, 3]}"], "as many values as shares"),
        (["workload.output_tokens={kind: quantiles, shares: [0, 0.9], values: [1, 2]}"], "end at 1, not 0 and 0.9"),
        (["workload.output_tokens={kind: quantiles, shares: [0, 1], values: [3, 2]}"], "2 follows 3"),
        (["workload.output_tokens={kind: mixture, parts: []}"], "at least 1 item"),
        (["workload.output_tokens={kind: mixture, parts: [{weight: 0, of: 3}]}"], "weight 0 must be > 0"),
        (["workload.output_tokens={kind: mixtrue, parts: []}"], "did you mean 'mixture'"),
        (["workload.think_s={kind: mixture, parts: []}"], "^--set workload.think_s: .*at least 1 item"),
        (["workload.think_s={kind: mixture, parts: [{weight: 0, of: 3}]}"], "^--set workload.think_s: "),
        (["workload.new_tokens.median=1e300"], "^--set workload.new_tokens.median: .*must be <= 10000000"),
        (["workload.compaction.left.values=3"], "^--set workload.compaction.left.values: .*expected a list"),
    ],
)
def test_what_is_wrong_is_one_line(overrides: list[str], message: str) -> None:
    """With the nearest valid name."""
    with pytest.raises(ScenarioError, match=message) as caught:
        scenario(*overrides)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("turns: me, ", ""), "sources must say where turns is from"),
        (("turns: me", "trns: me"), "'trns' is not one of .*did you mean 'turns'"),
        (("turns: 2", "turns: 0"), "mine.yaml:3: workload: turns 0 must be at least 1"),
        (("turns: 2", "turns: .nan"), "mine.yaml:3: .*finite"),
        (("turns: 2", "turns: 2, profile: chat"), "has no place in a profile"),
        (("workload:", "wrkload:"), "did you mean 'workload'"),
        ((GOOD, ""), "is empty"),
        ((GOOD, "\x00"), "not allowed in YAML"),
    ],
)
def test_a_broken_profile_is_named_with_its_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    """And by who asked for it."""
    (tmp_path / "mine.yaml").write_text(GOOD.replace(*change), encoding="utf-8")
    with pytest.raises(KvcliffError, match=message) as caught:
        scenario("workload.profile=./mine.yaml", place=str(tmp_path / "a.yaml"))
    assert str(caught.value).startswith("--set workload.profile: ")


def test_a_prefix_that_fills_the_model_is_said(tmp_path: Path) -> None:
    """In the words of the settings."""
    path = tmp_path / "a.yaml"
    path.write_text(PROFILED.replace("max_model_len: 40960", "max_model_len: 15001"), encoding="utf-8")
    said = "a.yaml: workload: shared_prefix_tokens 15,000 leave nothing of max_model_len 15,001"
    with pytest.raises(ScenarioError, match=said):
        load_deployment(path)


def test_profiles_draw_growing_sessions_within_the_models_length() -> None:
    """The deployment passes its own max_model_len."""
    of = workload(spec(), 40960)
    assert isinstance(of, GrowingWorkload)
    assert of.most_tokens == 40960
