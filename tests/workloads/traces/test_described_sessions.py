"""Sessions that a file describes: inference-perf's, vLLM's and the catalog's, drawn one by one."""

import json
from collections import defaultdict
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from trace_requests import SAMPLES, check_growth, needs_samples, opened, read, shared_tokens

from workloads.errors import WorkloadError
from workloads.traces.drawn_session import DrawnTurn, session_requests
from workloads.traces.inference_perf_spec import stages
from workloads.traces.request import TraceRequest

SPECS = SAMPLES / "workload_specs"
FIXED = {"type": "fixed", "mean": 4}


def sessions(requests: list[TraceRequest]) -> list[list[TraceRequest]]:
    """Return requests by session, in order."""
    found: dict[str | None, list[TraceRequest]] = defaultdict(list)
    for request in requests:
        found[request.session].append(request)
    return list(found.values())


def replay_file(path: Path, **keys: Any) -> Path:
    """Write a `conversation_replay` configuration."""
    path.write_text(yaml.safe_dump({"data": {"type": "conversation_replay", "conversation_replay": keys}}))
    return path


def multi_turn(path: Path, **distributions: Any) -> Path:
    """Write a `generate_multi_turn.json`, with some of its distributions of the prompt replaced."""
    constant = {"distribution": "constant", "value": 20}
    usual = {"num_turns": constant, "num_tokens": constant, "prefix_num_tokens": constant}
    whole = {
        "filetype": "generate_conversations",
        "num_conversations": 5,
        "text_files": ["x"],
        "prompt_input": usual | distributions,
        "prompt_output": {"num_tokens": constant},
    }
    path.write_text(json.dumps(whole))
    return path


@needs_samples
def test_the_quick_start_is_drawn_as_it_says() -> None:
    """200 conversations; means of unclipped draws are those of the file, clipped ones are below."""
    path = SPECS / "inference_perf" / "conversation_replay_quickstart.yaml"
    requests = read(path)
    by_session = sessions(requests)
    assert len(by_session) == 200
    counts = [len(one) for one in by_session]
    assert np.mean(counts) == pytest.approx(38, abs=3 * 6 / 200**0.5)
    assert 25 <= min(counts) <= max(counts) <= 57
    assert np.mean([one.output_tokens for one in requests]) == pytest.approx(585, rel=0.03)
    check_growth(requests)
    first, second = (one[0] for one in by_session[:2])
    assert shared_tokens(first, second) == 8359
    assert all(5000 <= one[0].prompt_tokens - 8359 <= 45_000 + 24_000 for one in by_session)
    new = [b.prompt_tokens - a.prompt_tokens - a.output_tokens for one in by_session for a, b in pairwise(one)]
    grown = [tokens for tokens in new if tokens > 0]  # where the limit dropped turns it is less
    assert np.mean(grown) == pytest.approx(1652, rel=0.1)


@needs_samples
@pytest.mark.parametrize("name", ["code-generation", "deep-research"])
def test_context_limits_hold_and_pauses_are_drawn(name: str) -> None:
    """No prompt with its answer is longer; pauses lie between their bounds."""
    path = SPECS / "inference_perf" / f"{name}.yaml"
    replay = yaml.safe_load(path.read_text())["data"]["conversation_replay"]
    requests = read(path)
    most = replay.get("max_model_len", 225_000) - 200
    assert len(sessions(requests)) == replay["num_conversations"]
    assert max(one.prompt_tokens + one.output_tokens for one in requests) <= most
    latency = replay["tool_call_latency_sec"]
    gaps = [one.gap_s for one in requests if one.gap_s is not None]
    assert len(gaps) == len(requests) - replay["num_conversations"]
    assert latency["min"] <= min(gaps) <= max(gaps) <= latency["max"]


@needs_samples
def test_vllm_counts_messages_of_both_roles() -> None:
    """12 to 18 messages, rounded up to even ones, are 6 to 9 requests; 500 tokens are everybody's."""
    path = SPECS / "vllm_multi_turn" / "generate_multi_turn.json"
    requests = read(path, sessions=400)
    check_growth(requests)
    by_session = sessions(requests)
    counts = [len(one) for one in by_session]
    assert set(counts) == {6, 7, 8, 9}
    assert np.mean(counts) == pytest.approx((6 + 7 + 7 + 8 + 8 + 9 + 9) / 7, abs=0.15)
    assert shared_tokens(by_session[0][0], by_session[1][0]) == 500
    prefixes = [one[0].prompt_tokens - 500 - 11 for one in by_session]
    assert np.mean(prefixes) == pytest.approx(1000, rel=0.06)
    assert max(prefixes) <= 5000
    new = [b.prompt_tokens - a.prompt_tokens - a.output_tokens for one in by_session for a, b in pairwise(one)]
    assert 120 == min(new) <= max(new) == 160
    assert 80 == min(one.output_tokens for one in requests) <= max(one.output_tokens for one in requests) == 120


@pytest.mark.parametrize(
    ("distribution", "mean"),
    [
        ({"distribution": "constant", "value": 64}, 64),
        ({"distribution": "uniform", "min": 100, "max": 200}, 150),
        ({"distribution": "poisson", "alpha": 50}, 50),
        ({"distribution": "zipf", "alpha": 3.0, "max": 100}, 11),
        ({"distribution": "lognormal", "average": 300}, 300),
        ({"distribution": "lognormal", "mean": 5.0, "sigma": 0.5}, np.exp(5.125)),
        ({"distribution": "lognormal", "average": 300, "median_ratio": 0.5, "max": 300}, None),
    ],
)
def test_vllms_distributions(tmp_path: Path, distribution: dict[str, Any], mean: float | None) -> None:
    """Means as vLLM's benchmark has them; a prompt is never below the sentence it begins with."""
    path = multi_turn(tmp_path / "a.json", num_tokens=distribution)
    requests = read(path, sessions=200)
    new = [b.prompt_tokens - a.prompt_tokens - a.output_tokens for a, b in pairwise(requests) if b.gap_s == 0]
    assert len(new) == 200 * 9
    if mean is None:
        assert max(new) == 300
    else:
        assert np.mean(new) == pytest.approx(mean, rel=0.06)


@needs_samples
@pytest.mark.parametrize("name", ["code-generation", "deep-research"])
def test_the_catalog_is_drawn_as_its_fields_say(name: str) -> None:
    """The system prompt is shared, the first input is the session's own, turns and pauses lie in their bounds."""
    path = SPECS / "workload_catalog" / f"{name}.config.json"
    config = json.loads(path.read_text())
    trace = opened(path, sessions=50)
    requests = list(trace)
    by_session = sessions(requests)
    assert len(by_session) == 50
    shared = config["system_prompt"]["mean"]
    assert shared_tokens(by_session[0][0], by_session[1][0]) == shared
    least = shared + config["input_sequence_length"]["min"] + config["input_sequence_length_per_turn"]["min"]
    assert all(one[0].prompt_tokens >= least for one in by_session)
    turns, gaps = config["number_of_turns"], [one.gap_s for one in requests if one.gap_s is not None]
    assert all(turns["min"] <= len(one) <= turns["max"] for one in by_session)
    assert config["time_between_turns"]["min"] <= min(gaps) <= max(gaps) <= config["time_between_turns"]["max"]
    assert any("input_sequence_length is each session's own start" in note for note in trace.notes)
    assert len(sessions(read(path))) == 100


def test_a_catalog_entry_of_single_prompts(tmp_path: Path) -> None:
    """Without turns the input is the prompt's."""
    one = {"min": 100, "max": 200, "mean": 150, "standard_deviation": 20, "distribution_type": "normal"}
    nothing = dict.fromkeys(("min", "max", "mean", "standard_deviation"), 0)
    path = tmp_path / "config.json"
    config = {"input_sequence_length": one, "output_sequence_length": one, "multi_turn": False}
    path.write_text(json.dumps(config | {"input_sequence_length_per_turn": nothing, "number_of_turns": one}))
    requests = read(path)
    assert len(sessions(requests)) == len(requests) == 100
    assert all(100 <= one.prompt_tokens <= 200 for one in requests)
    path.write_text(json.dumps(config | {"shared_prefix_tokens_per_call": nothing}))
    with pytest.raises(WorkloadError, match="statistics of a recorded corpus"):
        read(path)


def shared_prefix_file(path: Path, load: dict[str, Any] | None = None, **keys: Any) -> Path:
    """Write a `shared_prefix` configuration."""
    path.write_text(yaml.safe_dump({"load": load, "data": {"type": "shared_prefix", "shared_prefix": keys}}))
    return path


def test_groups_share_their_system_prompt(tmp_path: Path) -> None:
    """And nothing else; lengths are numbers or distributions, counts have two names."""
    length = {"type": "uniform", "min": 100, "max": 900}
    path = shared_prefix_file(
        tmp_path / "a.yaml", num_groups=3, num_users_per_system_prompt=4, system_prompt_len=length, question_len=7
    )
    requests = read(path)
    assert len(sessions(requests)) == len(requests) == 12
    system = [requests[group].prompt_tokens - 7 for group in range(3)]
    assert len(set(system)) == 3
    assert all(one.prompt_tokens == system[place % 3] + 7 for place, one in enumerate(requests))
    assert shared_tokens(requests[0], requests[3]) == system[0]
    assert shared_tokens(requests[0], requests[1]) == 0
    assert read(path, sessions=5) == requests[:5]


def test_chats_of_shared_prefixes_grow(tmp_path: Path) -> None:
    """As many rounds as the longest stage has requests for each."""
    load = {"type": "constant", "stages": [{"rate": 2, "duration": 30}, {"rate": 1, "duration": 10}]}
    keys = {"num_unique_system_prompts": 2, "num_users_per_system_prompt": 5, "enable_multi_turn_chat": True}
    path = shared_prefix_file(tmp_path / "a.yaml", load, **keys)
    requests = read(path)
    assert [len(one) for one in sessions(requests)] == [6] * 10
    check_growth(requests)
    assert [one.rate for one in stages(path)] == [2, 1]


@needs_samples
def test_stages_are_read_for_who_replays() -> None:
    """Concurrency levels, in order."""
    found = stages(SPECS / "inference_perf" / "conversation_replay_quickstart.yaml")
    assert [(one.concurrency_level, one.num_requests) for one in found] == [(5, 2000), (10, 2000), (20, 2000)]


def test_the_seed_decides_and_counts_may_be_any(tmp_path: Path) -> None:
    """A million million conversations are drawn as they are asked for."""
    path = replay_file(tmp_path / "a.yaml", num_conversations=10**12, turns_per_conversation=FIXED)
    one, same, other = (list(islice(opened(path, seed=seed), 500)) for seed in (1, 1, 2))
    assert repr(one) == repr(same)
    assert one == same
    defaults = {"type": "lognormal", "min": 1, "max": 99, "mean": 9, "std_dev": 9}
    path = replay_file(tmp_path / "b.yaml", num_conversations=10**12, input_tokens_per_turn=defaults)
    one, other = (list(islice(opened(path, seed=seed), 500)) for seed in (1, 2))
    assert one != other
    assert [request.row for request in one] == list(range(1, 501))
    assert len(sessions(read(path, sessions=3))) == 3


def test_defaults_are_inference_perfs(tmp_path: Path) -> None:
    """Ten turns of 512 and 256 tokens behind 8,359."""
    (first, *_), *_ = sessions(read(replay_file(tmp_path / "a.yaml", num_conversations=2)))
    assert first[1:3] == (8359 + 512, 256)
    assert len(read(tmp_path / "a.yaml")) == 20


@pytest.mark.parametrize("most", [156, 300, 1_000, 10_000_000])
def test_a_limit_drops_the_oldest_turns(most: int) -> None:
    """What is shared stays, and every request fits, however long its turn."""
    turns = [DrawnTurn(40, 20, 1.0)] * 20 + [DrawnTurn(5_000, 5_000, 1.0), DrawnTurn(1, 1, 1.0)]
    shared = next(session_requests("x", (), 100, turns[:1])).content
    assert isinstance(shared, tuple)
    requests = list(session_requests("y", shared[:1], 50 if most > 300 else 0, turns, most_tokens=most))
    assert len(requests) == len(turns)
    limit = max(most, 0)
    assert all(one.prompt_tokens + one.output_tokens <= limit for one in requests)
    assert all(one.prompt_tokens >= 1 and one.output_tokens >= 1 for one in requests)
    if most == 10_000_000:
        check_growth(requests)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"num_conversations": 0}, "data.conversation_replay.num_conversations: expected int >= 1"),
        ({"num_conversations": "many"}, "data.conversation_replay.num_conversations: expected int, got str"),
        ({"shared_system_prompt_len": -1}, "shared_system_prompt_len: expected int >= 0"),
        ({"shared_system_prompt_len": 10**15}, "shared_system_prompt_len: expected int <= 10000000"),
        ({"shared_system_prompt_len": 225_000}, "leaves no room in a max_model_len of 225,000"),
        ({"turns_per_conversation": {"type": "lognorm"}}, "turns_per_conversation: distribution 'lognorm' is not one"),
        ({"turns_per_conversation": {"mean": float("nan")}}, "turns_per_conversation.mean: expected float >= 0"),
        ({"turns_per_conversation": {"mean": float("inf")}}, "turns_per_conversation.mean: expected float <= 10"),
        ({"turns_per_conversation": {"min": 50, "max": 5}}, "turns_per_conversation: min 50 is above max 5"),
        ({"turns_per_conversation": 5}, "turns_per_conversation: expected object | null, got int"),
        ({"output_tokens_per_turn": {"type": "lognormal", "mean": 0}}, "mean 0 of a lognormal must be above 0"),
    ],
)
def test_numbers_out_of_bounds_are_named_by_their_key(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    """File, path of the key, value and rule."""
    path = replay_file(tmp_path / "a.yaml", **keys)
    with pytest.raises(WorkloadError) as raised:
        read(path)
    assert str(path) in str(raised.value)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        ({"distribution": "uniforme", "min": 1, "max": 2}, "'uniforme' is not one of .*did you mean 'uniform'"),
        ({"distribution": "uniform", "min": 1}, "prompt_input.num_tokens: key missing: max, which uniform needs"),
        ({"distribution": "uniform", "min": 3, "max": 2}, "min 3 must be above 0 and at most max 2"),
        ({"distribution": "uniform", "min": 0, "max": 2}, "min 0 must be above 0"),
        ({"distribution": "zipf", "alpha": 1}, "alpha 1 of zipf must be above 1"),
        ({"distribution": "lognormal", "mean": 1}, "key missing: sigma"),
        ({"distribution": "lognormal", "mean": 1e9, "sigma": 1}, "num_tokens.mean: expected float <= 100"),
        ({"distribution": "lognormal", "average": 0.5}, "average 0.5 of lognormal must be at least 1"),
        ({"distribution": "constant", "value": None}, "key missing: value"),
        ({"distribution": "constant", "value": 1e300}, "num_tokens.value: expected float <= 1"),
        ({"distribution": None}, "num_tokens.distribution: expected str, got null"),
    ],
)
def test_vllms_file_is_checked(tmp_path: Path, distribution: dict[str, Any], message: str) -> None:
    """Each kind needs its own numbers."""
    path = multi_turn(tmp_path / "a.json", num_tokens=distribution)
    with pytest.raises(WorkloadError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"num_groups": 0}, "data.shared_prefix.num_groups 0 must be from 1"),
        ({"num_groups": 10**13}, "num_groups 10,000,000,000,000 must be from 1"),
        ({"system_prompt_len": {"type": "norm"}}, "system_prompt_len: distribution 'norm' is not one of"),
        ({"question_len": -5}, "question_len: expected int >= 0"),
        ({"enable_multi_turn_chat": 7}, "enable_multi_turn_chat: expected bool"),
    ],
)
def test_shared_prefixes_are_checked(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    """Before anything is drawn."""
    with pytest.raises(WorkloadError, match=message):
        read(shared_prefix_file(tmp_path / "a.yaml", None, **keys))
