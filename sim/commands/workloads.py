"""`kvcliff workloads`: the profiles of sessions that ship, and the numbers of one, as stated and as drawn."""

import json
from pathlib import Path
from typing import Any

import click
import msgspec

from sim.workload_drawn import drawn_summary
from sim.workload_profiles import WorkloadProfile, built_in_names, load_profile, profile_path
from sim.workload_setup import workload


def workloads_command(name: str | None, max_model_len: int | None, *, as_json: bool) -> None:
    """Print all profiles, a line each, or one."""
    if name is None:
        profiles = [load_profile(profile_path(one)) for one in built_in_names()]
        if as_json:
            click.echo(json.dumps({"workloads": [_listed(profile) for profile in profiles]}))
            return
        from sim.report.workload_tables import print_profiles

        print_profiles(profiles)
        return
    profile = load_profile(profile_path(name, Path()))
    drawn = drawn_summary(workload(profile.workload, max_model_len))
    if as_json:
        stated = msgspec.to_builtins(profile)
        click.echo(json.dumps(stated | {"max_model_len": max_model_len, "drawn": drawn}, allow_nan=False))
        return
    from sim.report.workload_tables import print_profile

    print_profile(profile, drawn, max_model_len)


def _listed(profile: WorkloadProfile) -> dict[str, Any]:
    return {"name": profile.name, "description": profile.description}
