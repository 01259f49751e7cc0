"""Profiles as YAML files: six significant digits, a head line that says what made them, whole or absent."""

from pathlib import Path

import msgspec

from sim.errors import ProfileError
from sim.report.atomic import replacing
from sim.steptime.device import DeviceProfile
from sim.steptime.profile import Profile

DIGITS = 6


def profile_text(profile: Profile | DeviceProfile) -> str:
    """Return the profile as YAML, without what is empty."""
    import yaml

    head = f"# Made by `{profile.provenance.made_by}`; edit that, not this.\n"
    return head + str(yaml.safe_dump(_tidy(msgspec.to_builtins(profile)), sort_keys=False, width=110))


def write_profile(path: Path, profile: Profile | DeviceProfile) -> None:
    """Write the profile; the file is whole or absent. Raises ProfileError where it cannot be written."""
    try:
        with replacing(path) as partial:
            partial.write_text(profile_text(profile), encoding="utf-8")
    except OSError as error:
        raise ProfileError(f"--out {path}: {error.strerror or error}") from None


def _tidy(node: object) -> object:
    if isinstance(node, float):
        return float(f"{node:.{DIGITS}g}")
    if isinstance(node, dict):
        return {key: _tidy(value) for key, value in node.items() if value not in (None, "", {}, [])}
    return [_tidy(value) for value in node] if isinstance(node, list) else node


def check_suffix(path: Path) -> None:
    """Raise ProfileError if the file would not be read back as YAML."""
    if path.suffix not in {".yaml", ".yml"}:
        raise ProfileError(f"--out {path}: a profile is a .yaml file")
