"""The content of single requests as spans, ids as they stand: nothing is remembered from one request to the next.

Blocks of one scope lie on one line, block `id` at the point `id * block_tokens`: runs of ids that follow each other,
as first sight numbers them, are one span. A tail without an id, or a prompt without content, is nobody else's.
"""

from collections.abc import Hashable, Iterator

from workloads.session import Prompt
from workloads.span import Span, joined
from workloads.traces.request import BlockIds, TraceRequest


def prompt_of(request: TraceRequest, number: int, turn: int = 0) -> Prompt:
    """Return a request as the engine sees it.

    `number` names what is its own. Times round do not share content: `turn` is which one it is.
    """
    tokens = request.prompt_tokens
    answer = Span(number, tokens, request.output_tokens)
    if request.content is None:
        return Prompt((Span(number, 0, tokens),), answer, 0)
    if isinstance(request.content, BlockIds):
        return Prompt(joined(_blocks(request.content, tokens, number, turn)), answer, tokens)
    spans = tuple(_renamed(span, turn) for span in request.content)
    if request.answer is None:
        return Prompt(spans, answer, tokens)
    return Prompt(spans, _renamed(request.answer, turn))


def _renamed(span: Span, turn: int) -> Span:
    return Span(("text", turn, span.content), span.start, span.length)


def _blocks(blocks: BlockIds, tokens: int, number: int, turn: int) -> Iterator[Span]:
    ids, size, scope = blocks
    line: Hashable = ("ids", turn, scope)
    left = tokens
    for one in ids:
        length = min(size, left)
        left -= length
        yield Span(line, one * size, length) if isinstance(one, int) else Span((line, one), 0, length)
    if left:
        yield Span(number, 0, left)
