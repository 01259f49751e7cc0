"""Groups that keep a recurrent state: linear attention, Mamba (vLLM 0.32.0).

Without prefix caching a sequence has its state and one of each draft token, from its first step to its last. With it
(vLLM's mode "align") prompts are computed in chunks that end with a block, and the state there may be kept: each time
a sequence crosses the end of a block it goes on in a new one, and gives the old back one step later.

    row   | 0 | 0 | 5 | 8 | s |      5 holds the state at the end of its block, 8 the running one, s a draft token's
"""

from collections.abc import Iterable

from sim.kv.group_blocks import NEVER, GroupBlocks, GroupRules, GroupTable
from sim.kv.group_pool import GroupPool
from sim.kv.prefix import Place, Prefix
from sim.memory.kv_groups import KvGroup


class StateBlocks(GroupBlocks):
    """Groups with `state_blocks` a sequence: one for each draft token, one running, with caching also one before."""

    def __init__(self, pool: GroupPool, rules: GroupRules, group: KvGroup, indices: tuple[int, ...]) -> None:
        super().__init__(pool, rules, group, indices)
        if pool.enable_prefix_caching:
            self.scratch = max(group.state_blocks - 2, 0)
        else:
            self.scratch = group.state_blocks - 1
            self.size = NEVER  # no state but the running one is ever wanted
        self.fresh: set[Place] = set()  # states nobody may hit in this step: they are computed, or held back, in it

    def skipped_tokens(self, computed: int) -> int:
        """Return how many leading tokens the next one no longer looks at: it needs the state after the last one."""
        return max(0, computed - 1)

    def retires_at(self, table: GroupTable) -> int:
        """Return how many tokens must be settled before another place is of an earlier block.

        One token early, so that no step in which a state is held back counts as quiet.
        """
        return (table.retired + 1) * self.size

    def most_blocks(self, tokens: int) -> int:
        """Return the most blocks that a request of so many tokens holds at once: where steps overlap, one more.

        vLLM reserves for two states whether steps overlap or not; three are held while a long prompt is computed.
        """
        states = min(-(-tokens // self.size), 1 + self.rules.steps_in_flight)
        return (self.scratch + states) * len(self.indices)

    def kept(self, first: int, stop: int, resumable: Iterable[int]) -> Iterable[int]:
        """Keep the states where a hit may end: after every block, every so often, or at the lengths in `resumable`."""
        align, interval = self.rules.hit_tokens, self.rules.prefix_cache_retention_interval
        if interval is None or 0 < interval <= self.size:
            return range(first, stop)
        places = {tokens // align * align // self.size - 1 for tokens in resumable}
        if interval:
            segment = interval // self.size
            places.update(place for place in range(first, stop) if (place + 1) % segment == 0)
        return sorted(place for place in places if first <= place < stop)

    def _register_place(self, table: GroupTable, prefix: Prefix, place: int) -> None:
        super()._register_place(table, prefix, place)
        self.fresh.add(self._named(prefix, place))

    def hold_back(self, table: GroupTable, prefix: Prefix, tokens: int) -> None:
        """Let nobody hit in this step the state after the last block of a prompt, while its request still holds it."""
        place = tokens // self.size - 1
        if table.rows[0][place]:
            self.fresh.add(self._named(prefix, place))

    def is_fresh(self, prefix: Prefix, hit_tokens: int) -> bool:
        """Whether the state that a hit would start from is only computed in this very step."""
        return bool(self.fresh and hit_tokens) and self._named(prefix, hit_tokens // self.size - 1) in self.fresh

    def chunk(self, start: int, count: int, limits: tuple[int, int, int], junction: int) -> int:
        """Return how many of the next `count` tokens to compute, so that prompts are cut where states are kept.

        `limits` are where the prompt ends, where all known tokens do, and the most tokens a chunk may ever have. 0:
        what is left of the budget is not worth a chunk.
        """
        prefill_end, known, most = limits
        size = self.size
        if start >= prefill_end:
            return count
        end = start + count
        if end < prefill_end:
            aligned = end // size * size
            if aligned > start or size <= most:
                end = aligned
        stops = [(known - 1) // size * size]
        if start % size:
            stops.append((start // size + 1) * size)
        if start < junction < end:
            stops.append(start + (junction - start) // size * size)
        end = min((stop for stop in stops if start < stop < end), default=end)
        return max(end - start, 0)

    def entry_blocks(self, rows: list[list[int]], tokens: int, *, capped: bool) -> int:  # noqa: ARG002
        """Return how many free blocks a request takes that enters with these hits and gets so many tokens in all."""
        new = min(max(-(-tokens // self.size) + self.scratch - len(rows[0]), 0), 1 + self.scratch)
        return new * len(rows) + sum(self.pool.num_idle(row) for row in rows)

    def capacity(self, table: GroupTable) -> int:
        """Return for how many tokens there are blocks."""
        return (len(table.rows[0]) - self.scratch) * self.size

    def missing(self, table: GroupTable, tokens: int) -> int:
        """Return how many more blocks so many tokens need: never more than one state."""
        wanted = -(-tokens // self.size) + self.scratch - len(table.rows[0])
        return min(max(wanted, 0), 1 if table.started else 1 + self.scratch) * len(table.rows)

    def take(self, table: GroupTable, tokens: int, taker: int) -> None:
        """Go on in the block in which so many tokens end, past those that no chunk ends in."""
        current = -(-tokens // self.size) - 1
        for row in table.rows:
            length = len(row)
            if current + 1 + self.scratch <= length:
                continue
            row.extend([0] * (current - length))
            if table.started:
                for place in range(length - self.scratch, min(length, current)):
                    row.append(row[place])  # draft tokens' blocks move along
                    row[place] = 0
            self._take(row, current + 1 + self.scratch - len(row), taker)
        table.started = True
