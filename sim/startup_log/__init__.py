"""Read what an inference engine prints about memory while it starts.

`read_startup_log` opens a file, `parse_lines` takes lines; both return StartupFacts. Read vllm_wordings.py and
sglang_wordings.py first (which fragments are known), then start.py (lines to facts) and assemble.py (one answer).
"""

from sim.startup_log.errors import StartupLogError
from sim.startup_log.facts import RankFacts, Refusal, StartupFacts
from sim.startup_log.parse import parse_lines
from sim.startup_log.read import read_startup_log

__all__ = ["RankFacts", "Refusal", "StartupFacts", "StartupLogError", "parse_lines", "read_startup_log"]
