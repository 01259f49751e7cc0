"""How many tokens two prompts of a trace have in common from their front on."""

from collections.abc import Sequence

from workloads.span import Span
from workloads.traces.request import BlockIds, Content


def common_tokens(first: Content, second: Content) -> int:
    """Return the length of the common front; of block ids in whole blocks, of spans to the token."""
    if isinstance(first, BlockIds) or isinstance(second, BlockIds):
        if not (isinstance(first, BlockIds) and isinstance(second, BlockIds)):
            return 0
        if (first.block_tokens, first.scope) != (second.block_tokens, second.scope):
            return 0
        equal = 0
        for one, other in zip(first.ids, second.ids, strict=False):
            if one != other:
                break
            equal += 1
        return equal * first.block_tokens
    return _common_points(first, second)


def _common_points(first: Sequence[Span], second: Sequence[Span]) -> int:
    common = at = offset = 0  # token `offset` of second's span `at`
    for content, begins, length in first:
        start, left = begins, length
        while left:
            if at == len(second):
                return common
            other = second[at]
            if other.content != content or other.start + offset != start:
                return common
            run = min(left, other.length - offset)
            common, start, left, offset = common + run, start + run, left - run, offset + run
            if offset == other.length:
                at, offset = at + 1, 0
    return common
