"""Random requests and settings for a scheduler without a clock."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from sim.kv.content import ContentTree
from sim.scheduling.continuous import SchedulerConfig
from sim.scheduling.request import Request
from workloads.span import Span

MOST_TOKENS = 90


@dataclass(frozen=True)
class Asked:
    """A request to be made: how much of its prompt is shared, how much its own, and when it comes.

    Requests of one `line` say the same after what is shared, and are answered the same.
    """

    shared: int
    own: int
    output: int
    step: int
    priority: int
    line: int | None = None

    def spans(self, number: int) -> list[Span]:
        """Return the tokens of prompt and answer."""
        line = f"own {number}" if self.line is None else f"line {self.line}"
        return [Span("shared", 0, self.shared), Span(line, 0, self.own + self.output)]

    def request(self, tree: ContentTree, number: int) -> Request:
        """Make a request whose content is settled beforehand, its answer included."""
        return Request(
            f"r{number}",
            number,
            self.shared + self.own,
            self.output,
            tree.content(self.spans(number)),
            priority=self.priority,
            arrival=float(number),
        )


asked = st.builds(
    Asked,
    st.integers(0, 40),
    st.integers(1, 20),
    st.integers(1, 30),
    st.integers(0, 20),
    st.integers(0, 2),
    st.sampled_from([None, None, 0, 1]),
)
configs = st.builds(
    SchedulerConfig,
    max_num_batched_tokens=st.integers(1, 70),
    max_num_seqs=st.integers(1, 6),
    max_model_len=st.just(MOST_TOKENS + 1),
    block_size=st.sampled_from([1, 2, 4, 5, 16]),
    enable_chunked_prefill=st.booleans(),
    policy=st.sampled_from(["fcfs", "priority"]),
    long_prefill_token_threshold=st.sampled_from([0, 0, 1, 7]),
    long_prefill_token_threshold_adaptive=st.booleans(),
    watermark=st.sampled_from([0.0, 0.0, 0.1, 0.5]),
    scheduler_reserve_full_isl=st.booleans(),
    async_scheduling=st.booleans(),
).map(lambda config: config if config.enable_chunked_prefill else replace(config, max_num_batched_tokens=MOST_TOKENS))
