"""The pool of KV blocks with its prefix cache, as vLLM V1 keeps it (0.32.0), at a cost per run of blocks.

A block is in use (references > 0) or waits in the free queue; a free block keeps its content, and can be hit, until
it is handed out again: being free and being evicted are different things. The free queue has three stretches,
because of where blocks may enter it:

    front  [ freed without content, last in first out | never used yet | freed with content, oldest first ]
            counted in `_blank` together                                 extents, linked from `_ends.newer` on

Block 0 is reserved, as in vLLM. Equal content may sit in several blocks; the one registered first is hit. Blocks are
alike until they hold content, so they are counted, and moved in extents; only a `numbered` pool says which is which.
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from operator import attrgetter

from sim.kv.content import Chain, Content
from sim.kv.extent import Extent, Loss, Table

_start = attrgetter("start")


class BlockPool:
    """`num_gpu_blocks` blocks, block 0 reserved; see the module for the order they are handed out in."""

    def __init__(self, num_gpu_blocks: int, *, enable_prefix_caching: bool = True, numbered: bool = False) -> None:
        self.num_gpu_blocks = num_gpu_blocks
        self.usable_blocks = num_gpu_blocks - 1  # what requests can have: all but the reserved one
        self.enable_prefix_caching = enable_prefix_caching
        self.numbered = numbered
        self.num_free = num_gpu_blocks - 1
        self.num_held = 0  # blocks in tables, shared ones once a table
        self.num_cached = 0
        self.num_evicted = 0
        self._blank = num_gpu_blocks - 1
        self._front: list[int] = []  # numbers of the first stretch
        self._next_unused = 1
        self._births = 0
        self._ends = Extent(Chain(), 0, 0, 0)  # newer than the newest and older than the oldest: closes the ring

    @property
    def usage(self) -> float:
        """Share of the usable blocks that are in use (vLLM's kv_cache_usage): cached idle ones count as free."""
        return 1.0 - self.num_free / self.usable_blocks if self.usable_blocks else 0.0

    def match(self, content: Content, limit: int) -> tuple[int, int]:
        """Return how many of the first `limit` blocks are cached without a gap, and how many of those are free."""
        found = free = 0
        for chain, blocks in content:
            got = chain.cached
            if not got or found == limit:
                break
            got = min(got, blocks)
            got = min(got, limit - found)
            found += got
            copies = chain.copies
            if len(copies) > 1:
                free += sum(stop - first for one, first, stop in self._first_copies(chain, got) if not one.references)
            elif not copies[0].references:
                free += got
            if got < blocks:
                break
        return found, free

    def use(self, table: Table, content: Content, blocks: int) -> None:
        """Put the first blocks of `content`, which are cached, into an empty table; free ones leave the queue."""
        left = blocks
        for chain, of_chain in content:
            if not left:
                break
            got = min(left, of_chain)
            left -= got
            for extent, first, stop in self._first_copies(chain, got):
                one = extent if first == extent.start else self._split(extent, first)
                if stop < one.start + one.blocks:
                    self._split(one, stop)
                if not one.references:
                    self._unlink(one)
                    self.num_free -= one.blocks
                one.references += 1
                table.entries.append((one, one.blocks))
        table.blocks = blocks
        self.num_held += blocks

    def take(self, table: Table, count: int, taker: int = -1) -> None:
        """Hand out `count` blocks from the front of the queue; those with content lose it (eviction).

        The caller has checked `num_free`. `taker` is remembered as who evicted what was lost.
        """
        table.blocks += count
        table.loose += count
        self.num_held += count
        self.num_free -= count
        blank = min(count, self._blank)
        if blank:
            self._blank -= blank
            if self.numbered:
                table.loose_numbers += self._take_numbers(blank)
        if blank < count:
            table.loose_numbers += self._evict(count - blank, taker, 0)

    def take_each(self, takers: list[int]) -> None:
        """Hand out one block to each of these in turn; their tables are the caller's business."""
        count = len(takers)
        self.num_held += count
        self.num_free -= count
        blank = min(count, self._blank)
        self._blank -= blank
        if blank < count:
            self._evict(count - blank, takers, blank)

    def release(self, table: Table) -> None:
        """Empty a table: drop a reference of each block, last block first.

        Blocks that become free and have content go to the tail, so a prefix outlives its own tail; those without go
        to the front, the last block first of all.
        """
        self.num_held -= table.blocks
        loose = table.loose
        if loose:
            self.num_free += loose
            self._blank += loose
            self._front += table.loose_numbers
        for extent in reversed(table.extents()):
            extent.references -= 1
            if not extent.references:
                self.num_free += extent.blocks
                self._append(extent)
        table.clear()

    def register(self, table: Table, content: Content, upto: int) -> None:
        """Give a table's full blocks before block `upto` their content, so that later requests can hit them."""
        first = table.blocks - table.loose
        if upto <= first or not self.enable_prefix_caching:
            return
        for chain, blocks in content:
            if first < blocks:
                self._register(table, chain, max(0, first), min(blocks, upto))
            if upto <= blocks:
                break
            first -= blocks
            upto -= blocks

    def lost(self, content: Content, first: int, stop: int) -> tuple[int, int]:
        """Return how many of blocks `first` to `stop` were cached once and are not now, and who took the first of them.

        The second is the `taker` given to `take`, or -1 where nothing was lost.
        """
        count, taker = 0, -1
        for chain, blocks in content:
            if stop <= 0:
                break
            low = max(chain.cached, first)
            high = min(stop, blocks, chain.seen)
            if low < high:
                if not count:
                    taker = self._taker(chain, low)
                count += high - low
            first -= blocks
            stop -= blocks
        return count, taker

    @staticmethod
    def _taker(chain: Chain, block: int) -> int:
        """Return who took a lost block; the latest losses are the first in the chain."""
        found = chain.losses[-1]
        for loss in reversed(chain.losses):
            if loss.start > block:
                break
            found = loss
        return found.taker_of(block)

    def _register(self, table: Table, chain: Chain, start: int, stop: int) -> None:
        count = stop - start
        table.loose -= count
        self.num_cached += count
        extent = self._extended(table, chain, start, count) if chain.cached <= start else None
        if extent is None:
            self._births += 1
            extent = Extent(chain, start, count, self._births)
            table.entries.append((extent, count))
            if chain.copies:
                insort(chain.copies, extent, key=_start)
            else:
                chain.copies.append(extent)
        if self.numbered:
            extent.numbers += table.loose_numbers[:count]
            del table.loose_numbers[:count]
        if stop > chain.cached:
            if chain.losses:
                self._recover(chain, stop)
            chain.cached = stop
            chain.seen = max(chain.seen, stop)

    @staticmethod
    def _extended(table: Table, chain: Chain, start: int, count: int) -> Extent | None:
        """Return the table's last extent made longer, if nobody else has it and it ends where these blocks start."""
        if table.entries:
            last, meant = table.entries[-1]
            if last.chain is chain and last.references == 1 and meant == last.blocks and last.start + meant == start:
                last.blocks += count
                table.entries[-1] = last, last.blocks
                return last
        return None

    @staticmethod
    def _recover(chain: Chain, stop: int) -> None:
        """Forget who evicted the blocks before `stop`: they are back."""
        losses = chain.losses
        while losses and losses[-1].start < stop:
            loss = losses.pop()
            end = losses[-1].start if losses else chain.seen
            if end > stop:
                losses.append(loss.beyond(stop))

    @staticmethod
    def _first_copies(chain: Chain, stop: int) -> Iterator[tuple[Extent, int, int]]:
        """Yield the extents that hold the first `stop` blocks, and from where to where: of copies the first made."""
        copies = chain.copies
        if len(copies) == 1:
            yield copies[0], 0, stop
            return
        at = 0
        while at < stop:
            best = min((one for one in copies if one.start <= at < one.end), key=lambda one: one.born)
            until = min(stop, best.end)
            for one in copies:
                if one.born < best.born and at < one.start < until:
                    until = one.start
            yield best, at, until
            at = until

    def _split(self, extent: Extent, at: int) -> Extent:
        """Cut an extent before block `at` of its chain; return the part from there on."""
        rest = Extent(extent.chain, at, extent.end - at, extent.born, extent.references)
        extent.blocks = at - extent.start
        insort(extent.chain.copies, rest, key=_start)
        if self.numbered:
            rest.numbers = extent.numbers[extent.blocks :]
            del extent.numbers[extent.blocks :]
        if extent.references:
            rest.after, extent.after = extent.after, rest
        else:
            self._link(rest, extent.older, extent)
        return rest

    def _evict(self, count: int, takers: list[int] | int, index: int) -> list[int]:
        """Take blocks of the oldest free extents; `index` is the first taker's. Return their numbers."""
        self.num_cached -= count
        self.num_evicted += count
        numbers: list[int] = []
        ends = self._ends
        while count:
            extent = ends.newer
            chain = extent.chain
            taken = min(count, extent.blocks)
            count -= taken
            index += taken
            extent.blocks -= taken
            if self.numbered:
                numbers += extent.numbers[extent.blocks :][::-1]
                del extent.numbers[extent.blocks :]
            lowest = left = extent.start + extent.blocks
            copies = chain.copies
            if len(copies) > 1:
                left = max(one.end for one in copies)
            if not extent.blocks:
                self._unlink(extent)
                copies.remove(extent)
            if left < chain.cached:
                chain.losses.append(Loss(left, takers, index - 1 - (left - lowest)))
                chain.cached = left
        return numbers

    def _take_numbers(self, count: int) -> list[int]:
        """Return the numbers of the next blocks without content."""
        freed = self._front[-count:][::-1]
        del self._front[len(self._front) - len(freed) :]
        fresh = range(self._next_unused, self._next_unused + count - len(freed))
        self._next_unused = fresh.stop
        return [*freed, *fresh]

    def _append(self, extent: Extent) -> None:
        """Put an extent at the queue's tail, as one with what was freed just before it if that follows in the chain."""
        extent.after = None
        newest = self._ends.older
        chain = extent.chain
        if (
            newest.chain is chain
            and newest.start == extent.start + extent.blocks
            and self._are_all(chain, extent, newest)
        ):
            newest.start = extent.start
            newest.blocks += extent.blocks
            newest.numbers = extent.numbers + newest.numbers
            chain.copies.remove(extent)
            return
        self._link(extent, newest, self._ends)

    @staticmethod
    def _are_all(chain: Chain, one: Extent, other: Extent) -> bool:
        """Whether no copy of any block of two neighbours exists, so that their ages do not matter."""
        return all(
            copy is one or copy is other or copy.end <= one.start or copy.start >= other.end for copy in chain.copies
        )

    @staticmethod
    def _link(extent: Extent, older: Extent, newer: Extent) -> None:
        extent.older, extent.newer = older, newer
        older.newer = newer.older = extent

    @staticmethod
    def _unlink(extent: Extent) -> None:
        extent.older.newer, extent.newer.older = extent.newer, extent.older

    def check_integrity(self, tables: Iterable[Table]) -> None:
        """Raise AssertionError unless free and held blocks add up, and every chain agrees with its copies.

        `tables` are all that hold blocks, up to date.
        """
        free: list[Extent] = []
        extent = self._ends.newer
        while extent is not self._ends:
            assert not extent.references, "an extent in use waits in the queue"
            free.append(extent)
            extent = extent.newer
        held = [extent for table in tables for extent in table.extents()]
        in_use = {id(extent): extent for extent in held}
        for extent in in_use.values():
            assert extent.references == sum(one is extent for one in held), "references and tables disagree"
        loose = sum(table.loose for table in tables)
        cached = sum(extent.blocks for extent in [*free, *in_use.values()])
        assert self._blank + sum(extent.blocks for extent in free) == self.num_free, "free blocks miscounted"
        assert cached + loose + self._blank == self.usable_blocks, "a block is lost or counted twice"
        assert cached == self.num_cached, "cached blocks miscounted"
        assert sum(table.blocks for table in tables) == self.num_held, "held blocks miscounted"
        for chain in {id(extent.chain): extent.chain for extent in [*free, *in_use.values()]}.values():
            covered = {block for one in chain.copies for block in range(one.start, one.end)}
            assert covered == set(range(chain.cached)), "a block outlived the one before it"
            assert {id(one) for one in chain.copies} <= {id(one) for one in free} | in_use.keys(), "a copy nobody has"
            starts = [loss.start for loss in chain.losses]
            assert starts == sorted(starts, reverse=True), "losses out of order"
            assert (starts[-1] if starts else chain.seen) == chain.cached <= chain.seen, "losses and cache disagree"
