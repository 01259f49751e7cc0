"""A broken recording earns one line that names the place, the key and the rule, and never a record."""

import json
from typing import Any

import pytest

from sim.errors import RecordingError
from sim.scheduling.replay import decode_scenario, replay

PLACE = "some.scenario.json"


def scenario(*requests: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """Return a scenario that works until something in it is changed."""
    return {"name": "n", "num_gpu_blocks": 10, **settings, "requests": list(requests) or [request()]}


def request(**changes: Any) -> dict[str, Any]:
    """Return a request that works; None drops a key."""
    of = {"id": "a", "arrival_step": 0, "prompt": [["seg", 1, 5]], "output_len": 2, **changes}
    return {key: value for key, value in of.items() if value is not None}


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": (scenario(num_gpu_block=3), "num_gpu_block"),
    "unknown request key": (scenario(request(outputs=3)), "outputs"),
    "missing key": ({"name": "n", "requests": []}, "num_gpu_blocks"),
    "text for a number": (scenario(block_size="16"), "block_size"),
    "fraction for a count": (scenario(max_num_seqs=1.5), "max_num_seqs"),
    "number for a flag": (scenario(async_scheduling=1), "async_scheduling"),
    "a list for a prompt part": (scenario(request(prompt=["seg"])), "prompt"),
    "one block": (scenario(num_gpu_blocks=1), "num_gpu_blocks 1 must lie between 2"),
    "a slip of the pen": (scenario(num_gpu_blocks=10**12), "num_gpu_blocks 1000000000000 must lie between"),
    "no tokens in a block": (scenario(block_size=0), "block_size 0 must be at least 1"),
    "no budget": (scenario(max_num_batched_tokens=0), "max_num_batched_tokens 0"),
    "negative threshold": (scenario(long_prefill_token_threshold=-1), "long_prefill_token_threshold -1"),
    "negative watermark": (scenario(watermark=-0.1), "watermark -0.1"),
    "policy": (scenario(policy="fcsf"), "did you mean 'fcfs'?"),
    "arrival mode": (scenario(arrival_time_mode="steps"), "did you mean 'step'?"),
    "what a group keeps": (
        scenario(kv_groups=[{"keeps": "windows", "block_size": 16}]),
        "kv_groups[0]: keeps 'windows' is not one of",
    ),
    "no tokens in a group's block": (
        scenario(kv_groups=[{"keeps": "full", "block_size": 0}]),
        "kv_groups[0]: block_size 0 must be at least 1",
    ),
    "a window without a length": (
        scenario(kv_groups=[{"keeps": "full", "block_size": 16}, {"keeps": "window", "block_size": 16}]),
        "kv_groups[1]: span_tokens 0 must be at least 1",
    ),
    "a state without blocks": (
        scenario(kv_groups=[{"keeps": "state", "block_size": 16, "state_blocks": 1}]),
        "kv_groups[0]: state_blocks 1 must be at least 2",
    ),
    "an interval no hit can have": (
        scenario(kv_groups=[{"keeps": "full", "block_size": 16}], prefix_cache_retention_interval=24),
        "prefix_cache_retention_interval 24 must be a multiple of 16, 0 or null",
    ),
    "block numbers of several groups": (
        scenario(kv_groups=[{"keeps": "full", "block_size": 16}], record_block_ids=True),
        "record_block_ids is for models without kv_groups",
    ),
    "twice": (scenario(request(), request()), "request 'a' appears twice"),
    "neither arrival nor after": (scenario(request(arrival_step=None)), "needs one of arrival_step and after"),
    "both arrival and after": (scenario(request(after="a")), "needs one of arrival_step and after"),
    "after nobody": (scenario(request(arrival_step=None, after="b")), "after 'b' is not one of a"),
    "after itself": (scenario(request(arrival_step=None, after="a")), "leads back to itself"),
    "after each other": (
        scenario(*(request(id=x, arrival_step=None, after=y) for x, y in ("bc", "cb")), request()),
        "request 'b': its chain of after leads back to itself",
    ),
    "before time": (scenario(request(arrival_step=-1)), "arrival_step -1 must be at least 0"),
    "negative delay": (
        scenario(request(), request(id="b", arrival_step=None, after="a", delay_steps=-1)),
        "delay_steps",
    ),
    "no output": (scenario(request(output_len=0)), "output_len 0 must be at least 1"),
    "empty prompt": (scenario(request(prompt=[])), "prompt of 0 tokens must lie between 1 and max_model_len - 1"),
    "prompt of max_model_len": (scenario(request(), max_model_len=5), "prompt of 5 tokens must lie between 1 and"),
    "unknown part": (scenario(request(prompt=[["segment", 1, 2]])), "prompt part"),
    "negative length": (scenario(request(prompt=[["seg", 1, -2]])), "prompt part"),
    "text for a token": (scenario(request(prompt=[["tok", [1, "2"]]])), "prompt part"),
    "quotes nobody": (scenario(request(prompt=[["conv", "b"]])), "'b' is not one of a"),
    "quotes itself": (scenario(request(prompt=[["conv", "a"]])), "its prompt contains itself"),
    "quotes each other": (
        scenario(request(prompt=[["prompt", "b"]]), request(id="b", prompt=[["conv", "a"]])),
        "its prompt contains itself",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_scenario_is_one_line(case: str) -> None:
    """Place first, then what is wrong."""
    broken, says = BROKEN[case]
    with pytest.raises(RecordingError) as error:
        next(replay(decode_scenario(json.dumps(broken).encode(), PLACE), PLACE))
    message = str(error.value)
    assert message.startswith(PLACE + ": ")
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b'{"name": NaN}', b"\xff\xfe", b'{"name": "\xff"}'])
def test_what_is_not_json_is_one_line(text: bytes) -> None:
    """A truncated file, another type, bytes that are no text."""
    with pytest.raises(RecordingError, match=r"^some\.scenario\.json: [^\n]+$"):
        decode_scenario(text, PLACE)


def test_a_huge_part_is_quoted_in_short() -> None:
    """A line stays a line that can be read."""
    broken = scenario(request(prompt=[["tok", ["x"] * 100_000]]))
    with pytest.raises(RecordingError) as error:
        next(replay(decode_scenario(json.dumps(broken).encode(), PLACE), PLACE))
    assert len(str(error.value)) < 300


def test_the_smallest_scenario_takes_the_recordings_own_defaults() -> None:
    """Defaults are those of the recordings' README."""
    read = decode_scenario(json.dumps(scenario()).encode(), PLACE)
    config = read.scheduler_config()
    assert (read.block_size, config.max_num_batched_tokens, config.max_num_seqs) == (16, 2048, 128)
    assert (config.max_model_len, config.policy, config.async_scheduling) == (8192, "fcfs", False)
    assert config.scheduler_reserve_full_isl
