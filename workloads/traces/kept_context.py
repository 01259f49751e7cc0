"""Sessions that say how much of what was said they keep, and how much is new: from that, what each prompt holds.

A session's tokens lie on lines of its own, one answer after its prompt, so that a session that only grows is one span;
where it drops the end of its context, what follows lies on a new line.
"""

from dataclasses import dataclass, field

from workloads.span import Span, joined


@dataclass(slots=True)
class KeptContext:
    """The last prompt and answer of a session; `held_tokens` of them."""

    session: str
    spans: tuple[Span, ...] = ()
    held_tokens: int = 0
    _line: tuple[str, int] = field(init=False)  # where the next tokens lie
    _point: int = 0

    def __post_init__(self) -> None:
        """Begin on the first line."""
        self._line = (self.session, 0)

    def prompt(self, kept_tokens: int, new_tokens: int) -> tuple[Span, ...]:
        """Return the content of a prompt that keeps so much of the front and adds new tokens.

        What it keeps beyond what is held was said before the trace begins, or is not told: that is new content too.
        """
        front = first_tokens(self.spans, kept_tokens)
        if kept_tokens < self.held_tokens:
            self._line, self._point = (self.session, self._line[1] + 1), 0
        more = new_tokens + max(0, kept_tokens - self.held_tokens)
        self.spans = joined((*front, self._next(more)))
        self.held_tokens = kept_tokens + new_tokens
        return self.spans

    def answer(self, tokens: int) -> Span:
        """Return the content of the answer to the last prompt, which the context now holds."""
        span = self._next(tokens)
        self.spans = joined((*self.spans, span))
        self.held_tokens += tokens
        return span

    def _next(self, tokens: int) -> Span:
        span = Span(self._line, self._point, tokens)
        self._point += tokens
        return span


def first_tokens(spans: tuple[Span, ...], tokens: int) -> tuple[Span, ...]:
    """Return so many tokens of the front, or all."""
    front = []
    for span in spans:
        if tokens <= 0:
            break
        front.append(span if span.length <= tokens else span._replace(length=tokens))
        tokens -= span.length
    return tuple(front)
