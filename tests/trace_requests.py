"""Traces for tests: written, opened, read; and the samples of public ones, where they are beside the checkout."""

from pathlib import Path
from typing import Any

import pytest

from workloads.span import Span, total_tokens
from workloads.traces.open import OpenTrace, open_trace
from workloads.traces.reading import ReadOptions
from workloads.traces.request import TraceRequest

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="shared/data/traces is not beside the checkout")


def opened(path: Path, **options: Any) -> OpenTrace:
    """Return a trace with options."""
    return open_trace(path, ReadOptions(**options))


def read(path: Path, **options: Any) -> list[TraceRequest]:
    """Return all requests of a trace."""
    return list(opened(path, **options))


def shared_tokens(one: TraceRequest, other: TraceRequest) -> int:
    """Return how many tokens two prompts of spans have in common from the front, token by token in effect."""
    tokens = 0
    mine, theirs = _spans(one), _spans(other)
    while mine and theirs:
        first, second = mine.pop(0), theirs.pop(0)
        if (first.content, first.start) != (second.content, second.start):
            break
        both = min(first.length, second.length)
        tokens += both
        if first.length > both:
            mine.insert(0, Span(first.content, first.start + both, first.length - both))
        if second.length > both:
            theirs.insert(0, Span(second.content, second.start + both, second.length - both))
    return tokens


def check_growth(requests: list[TraceRequest]) -> None:
    """Assert that spans fill prompts, and that each prompt of a session holds the last one and its answer."""
    last: dict[str, TraceRequest] = {}
    for request in requests:
        spans = _spans(request)
        assert total_tokens(spans) == request.prompt_tokens
        assert request.answer is not None
        assert request.answer.length == request.output_tokens
        if request.session in last:
            before = last[request.session]
            assert shared_tokens(before, request) == before.prompt_tokens
            assert before.answer is not None
            with_answer = before._replace(content=(*_spans(before), before.answer))
            assert shared_tokens(with_answer, request) == before.prompt_tokens + before.output_tokens
        if request.session is not None:
            last[request.session] = request


def _spans(request: TraceRequest) -> list[Span]:
    assert isinstance(request.content, tuple)
    return [span for span in request.content if isinstance(span, Span)]
