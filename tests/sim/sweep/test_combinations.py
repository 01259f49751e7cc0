"""The cross product of settings: what is misspelt is refused, what cannot exist says why."""

from typing import Any

import pytest
from small_scenario import SMALL

from sim.errors import CatalogError, KvcliffError, MemoryLedgerError, ProfileError, ScenarioError
from sim.strict_yaml import parse_yaml
from sim.sweep.combinations import Combination, combinations, parse_over, short_names

DOCUMENT = parse_yaml(SMALL, "small.yaml")


def made(*over: str, overrides: tuple[str, ...] = ()) -> list[Combination]:
    """Return the combinations of the small scenario."""
    return combinations([DOCUMENT], parse_over(over), overrides=overrides)


def test_values_are_yaml() -> None:
    """Words, numbers, nothing, mappings with commas of their own."""
    assert parse_over(["a=fp8,auto", "b.c = 1, 2.5, null, true", "d={kind: common}, {kind: staggered, over_s: 3}"]) == {
        "a": ["fp8", "auto"],
        "b.c": [1, 2.5, None, True],
        "d": [{"kind": "common"}, {"kind": "staggered", "over_s": 3}],
    }


def test_every_value_meets_every_other_and_the_last_key_changes_fastest() -> None:
    """Each with its settings applied, and named in what the result says of itself."""
    found = made("engine.kv_cache_dtype=fp8,auto", "engine.max_num_seqs=4,8", overrides=("seeds=3",))
    assert [tuple(one.settings.values()) for one in found] == [("fp8", 4), ("fp8", 8), ("auto", 4), ("auto", 8)]
    for one in found:
        assert one.deployment is not None
        assert one.deployment.engine.scheduler.max_num_seqs == one.settings["engine.max_num_seqs"]
        assert one.deployment.scenario.engine.kv_cache_dtype == one.settings["engine.kv_cache_dtype"]
        assert one.deployment.scenario.seeds == 3
    last = found[-1].deployment
    assert last is not None
    assert last.overrides == ("seeds=3", "engine.kv_cache_dtype=auto", "engine.max_num_seqs=8")


def test_without_values_there_is_the_scenario_itself() -> None:
    """A sweep of one, for its loads and seeds."""
    (one,) = made()
    assert (one.settings, one.label(1)) == ({}, "small")


def test_labels_name_what_differs() -> None:
    """The last part of a key is enough unless two share it; the scenario counts where there are several."""
    (one, *_) = made("engine.kv_cache_dtype=fp8", "workload.turns=2,3")
    assert one.label(1) == "kv_cache_dtype fp8, turns 2"
    assert one.label(2) == "small, kv_cache_dtype fp8, turns 2"
    assert short_names(["slo.ttft_p99_s", "a.turns", "b.turns"]) == {
        "slo.ttft_p99_s": "ttft_p99_s",
        "a.turns": "a.turns",
        "b.turns": "b.turns",
    }


@pytest.mark.parametrize(
    ("over", "error", "said"),
    [
        ("engine.kv_cache_dtyp=fp8", ScenarioError, "did you mean 'kv_cache_dtype'"),
        ("engine.kv_cache_dtype=fp8,fp9", ScenarioError, "'fp9' is not one of"),
        ("gpu=L4,A1000", CatalogError, "gpu 'A1000' is not in the catalog (did you mean 'A100"),
        ("model=Qwen3-4C", CatalogError, "did you mean 'Qwen3-4B'"),
        ("weight_dtype=fp8,fp9", MemoryLedgerError, "weight_dtype 'fp9' is not one of"),
        ("profile=auto,l5", ProfileError, "profile 'l5' is not shipped"),
        ("engine.block_size=16,0", ScenarioError, "--over engine.block_size"),
        ("engine.block_size", ScenarioError, "expected key.path=value,value"),
        ("engine.block_size=", ScenarioError, "expected key.path=value,value"),
        ("=1", ScenarioError, "expected key.path=value,value"),
        ("engine.block_size=16,32,16", ScenarioError, "a value of 16,32,16 is given twice"),
        ("engine.block_size=[16", ScenarioError, "--over engine.block_size"),
        ("load.sessions.9=1,2", ScenarioError, "load.sessions has 2 items"),
    ],
)
def test_what_is_misspelt_is_refused(over: str, error: type[KvcliffError], said: str) -> None:
    """In one line that speaks of --over, before anything is simulated."""
    with pytest.raises(error) as refused:
        made(over)
    assert said in str(refused.value)
    assert "--set" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_key_given_twice_and_scenarios_of_one_name_are_refused() -> None:
    """Their rows could not be told apart."""
    with pytest.raises(ScenarioError, match="given twice: join its values"):
        parse_over(["a=1", "a=2"])
    with pytest.raises(ScenarioError, match="two of the scenarios are named 'small'"):
        combinations([DOCUMENT, DOCUMENT], {})


def test_more_combinations_than_anybody_means_are_refused() -> None:
    """Before the first is looked up."""
    numbers: dict[str, list[Any]] = {key: list(range(1, 102)) for key in ("engine.max_num_seqs", "seeds")}
    with pytest.raises(ScenarioError, match="makes 10,201 combinations"):
        combinations([DOCUMENT], numbers)


@pytest.mark.parametrize(
    ("over", "overrides", "said"),
    [
        (
            "gpu=L4,A100",
            (),
            "is of gpu L4, the scenario asks for A100-80GB-SXM; --set profile=auto takes each GPU's own",
        ),
        ("engine.kv_cache_tokens=20000,2000", (), "the engine would not start"),
        ("engine.kv_cache_tokens=20000,9000000", (), "more than the 22.03 GiB of one L4"),
        ("engine.tensor_parallel_size=1,3", ("profile=l4",), "tensor_parallel_size 3"),
        (
            "workload.shared_prefix_tokens=100,4095",
            ("workload.stripped_share=0.1",),
            "workload: shared_prefix_tokens 4,095 leave nothing of max_model_len",
        ),
    ],
)
def test_what_cannot_exist_says_why_and_leaves_the_rest(over: str, overrides: tuple[str, ...], said: str) -> None:
    """Valid settings that do not go together are no typing error."""
    whole, broken = made(over, overrides=overrides)
    assert whole.deployment is not None
    assert whole.impossible is None
    assert broken.deployment is None
    assert said in str(broken.impossible)


def test_a_sweep_of_which_nothing_can_exist_is_refused() -> None:
    """There would be nothing to simulate."""
    with pytest.raises(ScenarioError, match=r"no combination can be simulated; the first: .*would not start"):
        made("engine.kv_cache_tokens=1000,2000")
