"""A scenario file as something that runs, in one call: for notebooks, scripts and tests."""

from collections.abc import Iterable
from pathlib import Path

from sim.scenario import Scenario
from sim.setup import Deployment, deploy
from sim.strict_yaml import apply_overrides, decode, load_yaml


def load_deployment(path: str | Path, overrides: Iterable[str] = ()) -> Deployment:
    """Read a scenario file, apply overrides such as `engine.kv_cache_dtype=fp8`, and look everything up.

    Raises a KvcliffError if the file, an override or a name in it is wrong, or the engine would not start.
    """
    return deploy(decode(apply_overrides(load_yaml(path), overrides), Scenario), str(path))
