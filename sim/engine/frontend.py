"""Work on a request before the scheduler sees it: HTTP, tokenisation, hashing. Off the GPU, sessions overlap."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FrontendTimes:
    """Seconds a request spends before it is queued."""

    per_request_s: float = 0.0
    per_prompt_token_s: float = 0.0

    def seconds(self, prompt_tokens: int) -> float:
        """Return the time for a prompt of this length."""
        return self.per_request_s + self.per_prompt_token_s * prompt_tokens
