"""Made-up coding agents in WEKA's format: `python tests/sim/agent_sessions.py` writes scenarios/traces/agents.jsonl.

Lengths and pauses are drawn around what recorded Claude Code sessions show (a median of 660 tokens appended and 216
answered, 9 s of tools, minutes of people), but sessions are short, and blocks of 1,024 tokens keep the file small.
"""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[2] / "scenarios" / "traces" / "agents.jsonl"
BLOCK_TOKENS = 1024
TOOLS, SYSTEM = 12_000, 2_900


class _Agent:
    """An agent whose context grows; ids are of its session."""

    def __init__(self, rng: np.random.Generator, ids: Iterator[int], front_tokens: int) -> None:
        self.rng, self.ids = rng, ids
        self.tokens = front_tokens + int(rng.lognormal(np.log(4000), 0.5))
        self.blocks: list[int] = []
        self.at_s = 0.0
        self.first = True

    def request(self) -> dict[str, Any]:
        """Return the next request."""
        rng = self.rng
        human = not self.first and rng.random() < 0.13
        think_s = 0.0 if self.first else float(rng.lognormal(np.log(100 if human else 9), 0.8))
        self.at_s += think_s
        out = max(int(rng.lognormal(np.log(216), 0.9)), 8)
        full = self.tokens // BLOCK_TOKENS
        self.blocks = [*self.blocks[:full], *(next(self.ids) for _ in range(full - len(self.blocks)))]
        api_s = round(1.5 + out / 60, 1)
        entry = {
            "t": round(self.at_s), "type": "s", "model": "made-up", "in": self.tokens, "out": out,
            "hash_ids": self.blocks, "input_types": ["text" if human or self.first else "tool_result"],
            "api_time": api_s, "think_time": round(think_s, 1),
        }  # fmt: skip
        self.at_s += api_s
        thinking = int(out * 0.6) if rng.random() < 0.1 else 0  # stripped from the next prompt
        self.tokens += out - thinking + (0 if thinking else int(rng.lognormal(np.log(660), 1.2)))
        self.first = False
        return entry

    def compact(self) -> None:
        """Replace what was said by a summary."""
        self.tokens = int(self.tokens * 0.38)
        self.blocks = self.blocks[: (TOOLS + SYSTEM) // BLOCK_TOKENS]


def session(number: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return one session: most grow only, some are compacted, some have subagents."""
    ids = itertools.count(1)
    agent = _Agent(rng, ids, TOOLS + SYSTEM)
    requests: list[dict[str, Any]] = []
    for turn in range(int(rng.integers(10, 26))):
        requests.append(agent.request())
        if number % 6 == 2 and turn == 6:
            requests += _subagents(rng, ids, agent)
        if number % 6 == 4 and turn == 9:
            agent.compact()
    return {
        "id": f"agent-{number:02d}", "models": ["made-up"], "block_size": BLOCK_TOKENS, "hash_id_scope": "local",
        "tool_tokens": TOOLS, "system_tokens": SYSTEM, "requests": requests,
    }  # fmt: skip


def _subagents(rng: np.random.Generator, ids: Iterator[int], parent: _Agent) -> list[dict[str, Any]]:
    longest_s = 0.0
    entries = []
    for name in ("search", "review"):
        agent = _Agent(rng, ids, 9_000)
        requests = [agent.request() for _ in range(4)]
        longest_s = max(longest_s, agent.at_s)
        entries.append({"type": "subagent", "agent_id": name, "t": round(parent.at_s), "requests": requests})
    parent.at_s += longest_s
    return entries


def lines(sessions: int = 12) -> Iterator[str]:
    """Yield the file's lines."""
    for number in range(sessions):
        yield json.dumps(session(number, np.random.default_rng([2026, number])), separators=(",", ":")) + "\n"


if __name__ == "__main__":
    FILE.write_text("".join(lines()), encoding="utf-8")
