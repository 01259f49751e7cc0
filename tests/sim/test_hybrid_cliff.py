"""The cliff of a model that keeps states comes before its tokens run out, and is named after them."""

from pathlib import Path

from sim.run import run_scenario
from sim.scenario import Scenario
from sim.setup import deploy
from sim.strict_yaml import apply_overrides, decode, load_yaml

PATH = Path(__file__).parents[2] / "scenarios" / "hybrid-27b.yaml"


def test_states_fill_the_pool_before_tokens_do() -> None:
    """README: past the knee at a count that the printed tokens would hold; room for states alone mends it."""
    document = apply_overrides(load_yaml(PATH), ["load.sessions=[32,48]", "stop.sessions_per_client=1"])
    deployment = deploy(decode(document, Scenario), str(PATH))
    result = run_scenario(deployment)
    below, past = result.points
    assert deployment.arithmetic.sessions > past["sessions"]
    assert below["prefix_hit_rate"] > 0.9 > past["prefix_hit_rate"]
    assert result.knee.sessions == past["sessions"]
    assert result.cause is not None
    assert result.cause.name == "recurrent state slots"
