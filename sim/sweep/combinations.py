"""`--over KEY=V,V`: the cross product of settings, each combination of them a deployment or the reason there is none.

A key or value that is misspelt is bad input. Valid settings that do not go together (the engine would not start, the
profile is of another GPU) are a combination that cannot exist: it says why, and the others are simulated.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import msgspec

from sim.errors import KvcliffError, MemoryLedgerError, ProfileError, ScenarioError
from sim.load import decode_scenario
from sim.setup import Deployment, Parts, assemble, look_up
from sim.strict_yaml import YamlDocument, apply_overrides, parse_yaml

MOST_COMBINATIONS = 10_000


@dataclass(frozen=True, slots=True)
class Combination:
    """One scenario with one value of each key; exactly one of `deployment` and `impossible` is there."""

    scenario: str
    settings: Mapping[str, Any]  # by key, as given to --over
    deployment: Deployment | None
    impossible: str | None = None  # why there is no deployment, in one line

    def label(self, scenarios: int) -> str:
        """Return what sets this combination apart, of so many scenarios: `kv_cache_dtype fp8, gpu L4`."""
        names = short_names(self.settings)
        parts = [f"{names[key]} {shown(value)}" for key, value in self.settings.items()]
        return ", ".join([self.scenario, *parts] if scenarios > 1 or not parts else parts)


def parse_over(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Return the values of each `key.path=value,value`; values are YAML, such as fp8, 16 or {kind: common}.

    Raises ScenarioError for one without values, a key or a value given twice.
    """
    over: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, listed = (part.strip() for part in text.partition("="))
        if not (name and equals and listed):
            raise ScenarioError(
                f"--over {text!r}: expected key.path=value,value, such as engine.kv_cache_dtype=fp8,auto"
            )
        values = parse_yaml(f"values: [{listed}]", f"--over {name}").data["values"]
        if name in over:
            raise ScenarioError(f"--over {name} is given twice: join its values by commas")
        if len({json.dumps(value) for value in values}) < len(values):
            raise ScenarioError(f"--over {name}: a value of {listed} is given twice")
        over[name] = values
    return over


def combinations(
    documents: Sequence[YamlDocument],
    over: Mapping[str, Sequence[Any]],
    *,
    overrides: Sequence[str] = (),
    seeds: int | None = None,
) -> list[Combination]:
    """Return every scenario with every combination of values, the last key changing fastest.

    `overrides` hold for all of them, as does a number of seeds.

    Raises a KvcliffError for a misspelt key or value, two scenarios of one name, over 10,000 combinations, or where
    none can exist.
    """
    chosen = [dict(zip(over, values, strict=True)) for values in product(*over.values())]
    if len(chosen) * len(documents) > MOST_COMBINATIONS:
        raise ScenarioError(
            f"--over makes {len(chosen) * len(documents):,} combinations, more than {MOST_COMBINATIONS:,}"
        )
    changed = [apply_overrides(document, overrides) for document in documents]
    found = [_combination(document, settings, overrides, seeds) for document in changed for settings in chosen]
    names = [one.scenario for one in found[:: len(chosen)]]
    for name in names:
        if names.count(name) > 1:
            raise ScenarioError(f"two of the scenarios are named {name!r}: their rows would look the same")
    if all(one.deployment is None for one in found):
        raise ScenarioError(f"no combination can be simulated; the first: {found[0].impossible}")
    return found


def _combination(
    document: YamlDocument, settings: Mapping[str, Any], overrides: Sequence[str], seeds: int | None
) -> Combination:
    texts = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    try:
        scenario = decode_scenario(apply_overrides(document, texts))
        if seeds is not None:
            scenario = msgspec.structs.replace(scenario, seeds=seeds)
        parts = look_up(scenario, document.source)
    except KvcliffError as error:
        raise type(error)(str(error).replace("--set ", "--over ")) from None
    try:
        deployment = assemble(parts, document.source)
    except (ScenarioError, ProfileError, MemoryLedgerError) as error:
        return Combination(scenario.name, settings, None, f"{error}{profile_hint(parts, error)}")
    told = [*overrides, *(f"{key}={shown(value)}" for key, value in settings.items())]
    return Combination(scenario.name, settings, replace(deployment, overrides=tuple(told)))


def profile_hint(parts: Parts, error: KvcliffError) -> str:
    """Return what helps where parts do not go together because the profile is of something else."""
    other = isinstance(error, ProfileError) and parts.scenario.profile != "auto"
    return "; --set profile=auto takes each GPU's own" if other else ""


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Return each key's last part, or the whole key where two would be the same."""
    last = {key: key.rpartition(".")[2] for key in keys}
    short = list(last.values())
    return {key: name if short.count(name) == 1 else key for key, name in last.items()}


def shown(value: object) -> str:
    """Return a value as a scenario would write it."""
    return value if isinstance(value, str) else json.dumps(value)
