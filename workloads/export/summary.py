"""What was written, counted on its way out."""

from dataclasses import dataclass, field
from typing import Any

from workloads.traces.request import TraceRequest


@dataclass(slots=True)
class Summary:
    """Totals of an export, and in words what the format could not hold."""

    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    hit_tokens: int = 0  # of prompts, in blocks met before: what a cache without limit finds
    sessions: set[tuple[str | None, str]] = field(default_factory=set)
    last_s: float = 0.0
    notes: dict[str, None] = field(default_factory=dict)

    def add(self, request: TraceRequest, hit_tokens: int = 0) -> None:
        """Count a request."""
        self.requests += 1
        self.prompt_tokens += request.prompt_tokens
        self.output_tokens += request.output_tokens
        self.hit_tokens += hit_tokens
        self.last_s = max(self.last_s, request.at_s or 0.0)
        if request.session is not None:
            self.sessions.add((request.file, request.session))

    def note(self, text: str) -> None:
        """Take note of something once."""
        self.notes.setdefault(text)

    def as_dict(self) -> dict[str, Any]:
        """Return the totals as JSON has them."""
        share = self.hit_tokens / self.prompt_tokens if self.prompt_tokens else None
        return {
            "requests": self.requests,
            "sessions": len(self.sessions) or None,
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.output_tokens,
            "infinite_cache_hit_rate": share,
            "notes": list(self.notes),
        }


def counted(share: int, whole: int, what: str) -> str:
    """Return `3 of 20 turns` for notes."""
    return f"{share:,} of {whole:,} {what}"
