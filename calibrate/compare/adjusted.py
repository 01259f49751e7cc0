"""Writes what a re-fitted term amounts to, so that it can be used: a profile, or the scenario with overrides.

KV blocks, and a client's time where the scenario states one, are the scenario's; all else is the profile's. Either says
what it was refitted to, by which factor, and no date.
"""

import copy
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from calibrate.compare.refit import Refitted
from calibrate.compare.terms import KV_BLOCKS, changed, in_scenario
from calibrate.profile_file import profile_text
from sim.errors import ProfileError
from sim.report.atomic import replacing
from sim.setup import Deployment
from sim.strict_yaml import YamlDocument
from sim.trace_setup import found_path
from sim.workload_profiles import built_in_names

_PATHS = (  # of a scenario that count from its folder
    ("load", "path"),
    ("replay", "path"),
    ("workload", "profile"),
    ("background", "workload", "profile"),
    ("engine", "startup_log"),
)


def check_refit_path(path: Path) -> None:
    """Raise ProfileError now if the file could not be written later."""
    if path.suffix not in {".yaml", ".yml"}:
        raise ProfileError(f"--refit {path}: a profile or scenario is a .yaml file")
    if path.is_dir():
        raise ProfileError(f"--refit {path}: is a directory")
    nearest = next(one for one in path.absolute().parents if one.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise ProfileError(f"--refit {path}: {nearest} cannot be written")


def write_adjusted(
    path: Path, base: Deployment, document: YamlDocument, refitted: Refitted, measured: Sequence[Path]
) -> str:
    """Write the adjusted profile or scenario and return how it is used; the file is whole or absent.

    Raises ProfileError where it cannot be written.
    """
    files = ", ".join(dict.fromkeys(map(str, measured)))
    said = f"{refitted.term.title} {refitted.shown}, refitted to {files}"
    if in_scenario(base.parts, refitted.term.name):
        text, use = _scenario_text(base, document, refitted, said), f"kvcliff run {path}"
    else:
        text, use = _profile_text(path, base, refitted, said, files), f"--set profile={path}"
    try:
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ProfileError(f"--refit {path}: {error.strerror or error}") from None
    return use


def _profile_text(path: Path, base: Deployment, refitted: Refitted, said: str, files: str) -> str:
    profile = changed(base, refitted.change).profile
    assert profile is not None
    own = profile.provenance
    provenance = msgspec.structs.replace(
        own,
        kind="fitted",
        made_by="kvcliff compare --refit",
        date=own.date or "none",  # of what it was first made from
        sources=[*own.sources, f"refitted to {files}"],
        notes=[*own.notes, f"{profile.name} with {said}; residuals are those before"],
    )
    return profile_text(msgspec.structs.replace(profile, name=path.stem, provenance=provenance))


def _scenario_text(base: Deployment, document: YamlDocument, refitted: Refitted, said: str) -> str:
    import yaml

    data: dict[str, Any] = copy.deepcopy(document.data)
    scenario = changed(base, refitted.change).scenario
    if refitted.term.name == KV_BLOCKS:
        engine = data.setdefault("engine", {})
        for name in ("kv_cache_tokens", "kv_cache_memory_bytes", "startup_log"):
            engine.pop(name, None)
        engine["num_gpu_blocks_override"] = scenario.engine.num_gpu_blocks_override
    else:
        data["frontend"] = msgspec.to_builtins(scenario.frontend)
    for *sections, key in _PATHS:
        here: Any = data
        for section in sections:
            here = here.get(section) if isinstance(here, dict) else None
        named = here.get(key) if isinstance(here, dict) else None
        if isinstance(named, str) and not (key == "profile" and named in built_in_names()):
            here[key] = str(found_path(named, document.source).absolute())
    head = f"# {document.source} with {said}. Made by `kvcliff compare --refit`.\n"
    return head + str(yaml.safe_dump(data, sort_keys=False, width=110))
