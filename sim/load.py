"""A scenario file as something that runs, in one call: for notebooks, scripts and tests."""

from collections.abc import Iterable
from pathlib import Path

from sim.scenario import Scenario
from sim.setup import Deployment, deploy
from sim.strict_yaml import YamlDocument, apply_overrides, decode, load_yaml
from sim.workload_profiles import with_profiles


def load_deployment(path: str | Path, overrides: Iterable[str] = ()) -> Deployment:
    """Read a scenario file, apply overrides such as `engine.kv_cache_dtype=fp8`, and look everything up.

    Raises a KvcliffError if the file, an override or a name in it is wrong, or the engine would not start.
    """
    return deploy(decode_scenario(apply_overrides(load_yaml(path), overrides)), str(path))


def decode_scenario(document: YamlDocument) -> Scenario:
    """Return the scenario in a document, the workload profiles that it names filled in.

    Raises a KvcliffError with the place of what is wrong.
    """
    return decode(with_profiles(document), Scenario)
