"""Random recorded-format scenarios, small enough for the slow scheduler and tight enough to hurt.

Pools hold hardly more than the largest request; prompts share prefixes, repeat each other, follow up on answers;
lengths sit on block boundaries more often than chance would have it.
"""

import random
from typing import Any, NamedTuple

from slow_scheduler import conversation_tokens, prompt_tokens


class _Taste(NamedTuple):
    reuse: float  # how much of a prompt is others' text
    longest: int  # of a part or an answer
    equal: int  # every part is this long and all arrive at once, so many need a block in one step; 0 = not so


def random_scenario(seed: int) -> dict[str, Any]:
    """Return a scenario in which every request fits an otherwise empty pool and one step's budget if it must."""
    rng = random.Random(seed)
    size = rng.choice([1, 2, 3, 4, 4, 5, 8, 8, 16, 16, 32])
    limit = rng.choice([24, 60, 60, 120, 200])
    scenario: dict[str, Any] = {
        "name": f"random {seed}",
        "num_gpu_blocks": 2,
        "block_size": size,
        "max_num_batched_tokens": rng.choice([1, 3, size, 2 * size + 1, 17, 64, 100, 256]),
        "max_num_seqs": rng.choice([1, 2, 3, 5, 8, 50]),
        "max_model_len": limit,
        "requests": [],
    }
    _settings(scenario, rng)
    longest = rng.choice([limit, limit // 2, limit // 4, 3 * size])
    equal = min(rng.randint(1, 2 * size), longest) if rng.random() < 0.25 else 0
    taste = _Taste(rng.random(), longest, equal)
    crowd = rng.choice([1, 4, 8, 14, 25])
    names = [f"r{index}" for index in range(rng.randint(1, crowd))]
    rng.shuffle(names)  # the id string decides ties
    for _ in names:
        scenario["requests"].append(_request(scenario, names, taste, rng))
    spare = rng.choice([0, 0, 1, 2, rng.randint(0, 12), rng.randint(0, 60)])
    largest = _largest(scenario)
    scenario["num_gpu_blocks"] = 1 + largest + (rng.randint(0, 2 * len(names)) if taste.equal else spare)
    if rng.random() < 0.2:
        rng.shuffle(scenario["requests"])
    return scenario


def _settings(scenario: dict[str, Any], rng: random.Random) -> None:
    if rng.random() < 0.5:
        scenario["async_scheduling"] = True
    if rng.random() < 0.4:
        scenario["policy"] = "priority"
    if rng.random() < 0.15:
        scenario["enable_prefix_caching"] = False
    if rng.random() < 0.5:
        scenario["scheduler_reserve_full_isl"] = False
    if rng.random() < 0.3:
        scenario["watermark"] = rng.choice([0.01, 0.05, 0.1, 0.3, 0.9])
    if rng.random() < 0.3:
        scenario["long_prefill_token_threshold"] = rng.choice([1, 2, 5, 16, 40])
        scenario["long_prefill_token_threshold_adaptive"] = rng.random() < 0.5
    if rng.random() < 0.2:
        scenario["enable_chunked_prefill"] = False
        scenario["max_num_batched_tokens"] = scenario["max_model_len"] + rng.choice([0, 1, 50])
    if rng.random() < 0.4:
        scenario["arrival_time_mode"] = "step"
    if rng.random() < 0.7:
        scenario["record_block_ids"] = True


def _request(scenario: dict[str, Any], names: list[str], taste: _Taste, rng: random.Random) -> dict[str, Any]:
    index = len(scenario["requests"])
    earlier = names[:index]
    request: dict[str, Any] = {
        "id": names[index],
        "output_len": taste.longest if taste.equal else _length(scenario, taste, rng),
    }
    if taste.equal:
        request["arrival_step"] = 0
    elif earlier and rng.random() < 0.4:
        request["after"] = rng.choice(earlier)
        if rng.random() < 0.5:
            request["delay_steps"] = rng.randint(0, 6)
    else:
        request["arrival_step"] = rng.choice([0, 0, rng.randint(0, 5), rng.randint(0, 60)])
    if rng.random() < 0.5:
        request["priority"] = rng.randint(-1, 2)
    if rng.random() < 0.3:
        request["output_token"] = rng.choice([7, 8, 1_000_000, 1_000_001])
    request["prompt"] = [_part(scenario, request, earlier, taste, rng)]
    request["prompt"] += [_part(scenario, request, [], taste, rng) for _ in range(rng.randint(0, 2))]
    _fit(scenario, request, rng)
    return request


def _part(
    scenario: dict[str, Any], request: dict[str, Any], earlier: list[str], taste: _Taste, rng: random.Random
) -> list[Any]:
    length = _length(scenario, taste, rng)
    if earlier and rng.random() < taste.reuse:
        return [rng.choice(["conv", "conv", "prompt"]), request.get("after") or rng.choice(earlier)]
    if rng.random() < 0.15:
        return ["tok", [rng.choice([7, 7, 7, 8]) for _ in range(length)]]
    seed = rng.randint(1, 3) if rng.random() < taste.reuse else 100 + len(scenario["requests"])
    start = [rng.choice([0, 1, scenario["block_size"]])] if rng.random() < 0.1 else []
    return ["seg", seed, length, *start]


def _fit(scenario: dict[str, Any], request: dict[str, Any], rng: random.Random) -> None:
    """Drop parts until max_model_len leaves room for an answer."""
    within = scenario | {"requests": [*scenario["requests"], request]}
    while len(prompt_tokens(within, request["id"])) >= scenario["max_model_len"]:
        request["prompt"].pop()
    if not request["prompt"]:
        request["prompt"] = [["seg", 1, rng.randint(1, scenario["max_model_len"] - 1)]]


def _length(scenario: dict[str, Any], taste: _Taste, rng: random.Random) -> int:
    if taste.equal:
        return taste.equal
    on_boundary = scenario["block_size"] * rng.randint(1, 4) + rng.choice([-1, 0, 0, 1])
    any_length = rng.choice([rng.randint(1, 4), rng.randint(1, 30), rng.randint(1, taste.longest)])
    return max(min(rng.choice([any_length, any_length, any_length, on_boundary, on_boundary]), taste.longest), 1)


def _largest(scenario: dict[str, Any]) -> int:
    """Blocks of the request that needs most; its last token has no KV."""
    most = 1
    for request in scenario["requests"]:
        tokens = len(conversation_tokens(scenario, request["id"])) - 1
        most = max(most, -(-tokens // scenario["block_size"]))
    return most
