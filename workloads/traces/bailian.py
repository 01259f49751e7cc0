"""Bailian's chat traces (qwen-bailian-usagetraces): JSON Lines whose rows name the chat they follow.

`timestamp` is in seconds; `hash_ids` are of 16-token blocks over the whole file, the last may be partial (ceil); rows
hold the whole prompt. A session is the tree of chats below one root, and has the root's name. Windows cut from a longer
trace begin in the middle: a chat whose parent the file does not have is a root. One entry a chat stays in memory.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from workloads.traces.format import Format, Head
from workloads.traces.json_rows import Row, json_rows
from workloads.traces.reading import Reading, shown
from workloads.traces.request import MOST_SECONDS, MOST_TOKENS, BlockIds, TraceRequest

BLOCK_TOKENS = 16
Chat = int | str
_NO_PARENT = {-1, "-1", None, ""}


class _Row(Row, frozen=True, gc=False):
    chat_id: Chat
    timestamp: Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS * 100)]  # clocks since 1970 count too
    input_length: Annotated[int, msgspec.Meta(ge=1, le=MOST_TOKENS)]
    output_length: Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
    parent_chat_id: Chat | None = None
    hash_ids: list[int] | None = None


class _Chats:
    """Which session each chat seen so far is of, and which parents were waited for in vain."""

    def __init__(self) -> None:
        self._root: dict[Chat, Chat] = {}
        self._missing: dict[Chat, tuple[int, Chat]] = {}  # a parent not seen: row and id of its first child

    def fault(self, row: _Row) -> str | None:
        """Return what is wrong with a row's links, or None."""
        chat, parent = row.chat_id, row.parent_chat_id
        if chat in self._root:
            return f"chat_id {shown(chat)} is there twice"
        if parent == chat:
            return f"chat {shown(chat)} is its own parent"
        if chat in self._missing:
            below, child = self._missing[chat]
            if parent is not None and self._root.get(parent) == child:
                return f"chats {shown(chat)} and {shown(child)} (row {below}) are each other's ancestors: a cycle"
            return f"chat {shown(chat)} comes after {shown(child)} (row {below}), whose parent it is"
        return None

    def session_of(self, number: int, row: _Row) -> tuple[Chat, bool]:
        """Return the root of a chat, and whether that is for want of its parent."""
        parent = row.parent_chat_id
        if parent in _NO_PARENT or parent is None:
            root, orphan = row.chat_id, False
        else:
            root, orphan = self._root.get(parent, row.chat_id), parent not in self._root
            if orphan:
                self._missing.setdefault(parent, (number, row.chat_id))
        self._root[row.chat_id] = root
        return root, orphan


def recognises(head: Head) -> bool:
    """Tell rows with links to parents."""
    return head.keys >= {"chat_id", "parent_chat_id", "timestamp", "input_length"}


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the requests; a row's parents must be above it."""
    block_tokens, chats = reading.options.block_tokens or BLOCK_TOKENS, _Chats()
    reading.note(f"rows hold whole prompts; ids are of {block_tokens}-token blocks, the last may be partial")
    for number, row in json_rows(reading, _Row):
        blocks, ids = -(-row.input_length // block_tokens), row.hash_ids
        fault = chats.fault(row)
        if fault is None and ids is not None and len(ids) > blocks:
            fault = (
                f"{len(ids)} hash_ids, where {row.input_length:,} tokens are {blocks} blocks of {block_tokens} tokens"
            )
        if fault:
            reading.bad(number, fault)
            continue
        session, orphan = chats.session_of(number, row)
        if orphan:
            reading.note("some chats follow one that the file does not have: they are roots of sessions begun earlier")
        if ids is not None and len(ids) < blocks:
            reading.note("some rows have fewer hash_ids than blocks: nothing of their tails can be hit")
        if ids is None:
            reading.note("some rows have no hash_ids: nothing of theirs can be hit")
        if not row.output_length:
            reading.note("answers of 0 tokens count as 1")
        content = None if ids is None else BlockIds(ids, block_tokens)
        yield TraceRequest(number, row.input_length, row.output_length or 1, row.timestamp, str(session), content)


FORMAT = Format("bailian", "Bailian JSONL", recognises, read)
