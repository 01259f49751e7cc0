"""What can go wrong, as one tree.

KvcliffError
├── ScenarioError      a scenario or a setting in it
│   └── RefusalError   settings with which the engine would not start
├── ProfileError       a step-time profile
├── CatalogError       an unknown or broken GPU or model
├── RecordingError     a recorded scheduler scenario
├── MeasurementError   a file of measured times
├── MemoryLedgerError  settings the ledger cannot account for
├── CommandError       a pasted start command (sim/serve_command)
├── StartupLogError    an engine's start-up log (sim/startup_log)
├── CalibrationError   a calibration that cannot start, or a file it cannot go on with
└── ClusterError       a cluster that cannot be reached, or whose workers cannot simulate

Each message is one line: place, key, value, rule and the nearest valid name. The command line prints it
and exits with 2. `workloads.WorkloadError` stands apart so that `workloads` stays a leaf.
"""

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class KvcliffError(Exception):
    """Anything a user can mend."""


class ScenarioError(KvcliffError):
    """A scenario file or a setting in it is wrong."""


class RefusalError(ScenarioError):
    """The engine would refuse to start with these settings."""


class ProfileError(KvcliffError):
    """A step-time profile is missing, empty, or breaks physics."""


class CatalogError(KvcliffError):
    """A GPU or model is unknown, or its entry is broken."""


class RecordingError(KvcliffError):
    """A recorded scheduler scenario cannot be read."""


class MeasurementError(KvcliffError):
    """A file of measured times cannot be read or written."""


class MemoryLedgerError(KvcliffError):
    """The memory ledger cannot account for these settings."""


class CalibrationError(KvcliffError):
    """A calibration cannot start, or its file cannot be gone on with."""


class ClusterError(KvcliffError):
    """A cluster cannot be reached, or its workers cannot simulate."""


def did_you_mean(word: str, valid: "Iterable[str]") -> str:
    """Return ` (did you mean 'x'?)` for the nearest valid name, or an empty string."""
    folded = {name.lower(): name for name in valid}
    near = get_close_matches(word.lower(), folded, n=1, cutoff=0.5)
    return f" (did you mean {folded[near[0]]!r}?)" if near else ""


def one_of(word: str, valid: "Iterable[str]") -> str:
    """Return `'x' is not one of a, b, c (did you mean 'a'?)`."""
    names = sorted(valid)
    return f"{word!r} is not one of {', '.join(names)}{did_you_mean(word, names)}"
