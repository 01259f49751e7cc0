"""What one `schedule` call decided, as far as anybody outside the scheduler needs it."""

from sim.scheduling.request import Request


class Scheduled:
    """One request's share of a batch."""

    __slots__ = ("computed_before", "request", "samples", "tokens")

    def __init__(self, request: Request, tokens: int, computed_before: int, samples: bool) -> None:  # noqa: FBT001
        self.request = request
        self.tokens = tokens
        self.computed_before = computed_before  # tokens of it that already have KV
        self.samples = samples  # reaches the end of what is known, so it yields a token


class Admission:
    """A request that entered the running list in this step."""

    __slots__ = ("hit_tokens", "lost_blocks", "lost_to", "request", "resumed")

    def __init__(self, request: Request, hit_tokens: int, resumed: bool, lost_blocks: int, lost_to: int) -> None:  # noqa: FBT001
        self.request = request
        self.hit_tokens = hit_tokens
        self.resumed = resumed
        self.lost_blocks = lost_blocks  # of its prompt: cached once and not now; of a resumed one not looked up
        self.lost_to = lost_to  # the number of whoever took the first of them, or -1


class Batch:
    """One forward pass: `rows` of the decode group with a token each, and the others one by one."""

    __slots__ = (
        "admitted",
        "evicted_blocks",
        "kv_tokens",
        "left",
        "padding_pairs",
        "padding_tokens",
        "preempted",
        "rows",
        "scheduled",
        "step",
    )

    def __init__(self, step: int = 0, rows: int = 0, kv_tokens: int = 0) -> None:
        self.step = step  # counts batches, from 1
        self.rows = rows
        self.kv_tokens = kv_tokens  # the rows attend to
        self.scheduled: list[Scheduled] = []
        self.admitted: list[Admission] = []
        self.preempted: list[Request] = []
        self.left: list[Request] = []  # were rows, and left the group before their token came back
        self.evicted_blocks = 0
        self.padding_tokens = 0  # of prompts that were made as long as the longest (static_batches.py)
        self.padding_pairs = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nobody got a token."""
        return not (self.rows or self.scheduled or self.left)
