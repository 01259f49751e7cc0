"""All formats by name; the first that recognises a file reads it. Adding one is a file with a `FORMAT`, and a line."""

from workloads.traces import mooncake
from workloads.traces.format import Format

_MODULES = (mooncake,)

FORMATS: dict[str, Format] = {module.FORMAT.name: module.FORMAT for module in _MODULES}
