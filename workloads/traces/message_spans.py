"""Prompts as lists of messages, as spans: what two prompts share are the messages they begin with.

A message is known by all messages up to it, so the same words later in another conversation are other content. How
many tokens a message has is settled when it is first met: a prompt's known number of tokens less those of its known
messages, shared among the new ones by their characters. An answer becomes a message of the prompts that hold it.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from workloads.span import Span, joined

_FRAME_CHARACTERS = 16  # of role and marks around each message


class Message(NamedTuple):
    """Who said what."""

    role: str
    text: str


class MessageSpans:
    """All messages of a trace met so far: a hash and a number of tokens each, not their text."""

    __slots__ = ("_tokens",)

    def __init__(self) -> None:
        self._tokens: dict[bytes, int] = {}

    def prompt(self, messages: Sequence[Message], tokens: int) -> tuple[Span, ...]:
        """Return a prompt of so many tokens."""
        names = _names(messages)
        known = next((index for index, name in enumerate(names) if name not in self._tokens), len(names))
        left = max(tokens - sum(self._tokens[name] for name in names[:known]), 0)
        characters = [len(message.text) + _FRAME_CHARACTERS for message in messages[known:]]
        upto = given = 0
        for name, count in zip(names[known:], characters, strict=True):
            upto += count
            share = left * upto // sum(characters) - given
            given += share
            self._tokens[name] = share
        return self._spans(names, tokens)

    def answer(self, messages: Sequence[Message], text: str, tokens: int) -> Span:
        """Return the answer to a prompt, as later prompts hold it."""
        name = _names([*messages, Message("assistant", text)])[-1]
        self._tokens.setdefault(name, tokens)
        return Span(name, 0, tokens)

    def _spans(self, names: Sequence[bytes], tokens: int) -> tuple[Span, ...]:
        """Return messages as spans, cut at so many tokens; tokens no message accounts for are nobody else's."""
        spans, left = [], tokens
        for name in names:
            spans.append(Span(name, 0, min(self._tokens[name], left)))
            left -= spans[-1].length
        last = names[-1] if names else b""
        return joined([*spans, Span((last, "more", tokens), 0, left)])


def _names(messages: Sequence[Message]) -> list[bytes]:
    running, names = blake2b(digest_size=12), []
    for message in messages:
        for text in message:
            raw = text.encode(errors="surrogatepass")
            running.update(len(raw).to_bytes(8) + raw)
        names.append(running.digest())
    return names
