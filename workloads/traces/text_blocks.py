"""Texts as prompts without a tokenizer: so many tokens a character, and blocks known by all text up to their end.

    | block 0: 64 characters | block 1: 64 characters | the rest |
      id = hash of it          id = hash of both        id = hash of all

Two texts have as many ids in common as they have whole blocks in common from the front on, which is all a cache of
blocks of that size can share. Ids are 64 bits of BLAKE2: a trace of a million blocks has two alike by chance once in
37 million traces.
"""

import math
from hashlib import blake2b

from workloads.traces.reading import Reading
from workloads.traces.request import BlockIds

BLOCK_TOKENS = 16
_MOST_PER_CHARACTER = 16.0


def tokens_per_character(reading: Reading) -> float:
    """Return what the user says, noted; raises WorkloadError for what cannot be."""
    value = reading.options.tokens_per_character
    if not 0 < value <= _MOST_PER_CHARACTER:
        raise reading.error(f"tokens_per_character {value:g} must be above 0 and at most {_MOST_PER_CHARACTER:g}")
    return value


def text_tokens(text: str, per_character: float) -> int:
    """Return the estimated tokens of a text; 0 of an empty one."""
    return math.ceil(len(text) * per_character)


def text_blocks(text: str, per_character: float, block_tokens: int = BLOCK_TOKENS) -> BlockIds:
    """Return a text's blocks, the last of which may be partial."""
    blocks = math.ceil(text_tokens(text, per_character) / block_tokens)
    ids, running, before = [], blake2b(digest_size=8), 0
    for block in range(1, blocks + 1):
        upto = len(text) if block == blocks else int(block * block_tokens / per_character)
        running.update(text[before:upto].encode(errors="surrogatepass"))
        before = upto
        ids.append(int.from_bytes(running.digest()))
    return BlockIds(ids, block_tokens)
