"""A trace's requests as columns, four or eight bytes a value: percentiles of a million rows stay exact."""

from array import array

import numpy as np
from numpy.typing import NDArray

from workloads.sharing.unlimited import Hit
from workloads.traces.request import HUMAN, TOOL, TraceRequest

NAN = float("nan")
DRIVERS = {HUMAN: 1, TOOL: 2}
_INTEGERS = ("prompt", "output", "hit", "session_hit", "session", "grown", "fresh")
_SECONDS = ("at_s", "gap_s")


class Columns:
    """Lengths, hits and times of all requests, in order, and what is known of each session."""

    def __init__(self) -> None:
        self._integers = {name: array("i") for name in _INTEGERS}
        self._seconds = {name: array("d") for name in _SECONDS}
        self._drivers = array("b")
        self._numbers: dict[str, int] = {}
        self._turns, self._last_prompt, self._last_output = array("i"), array("i"), array("i")  # of each session
        self._first_prompt, self._is_subagent, self._end_s = array("i"), array("b"), array("d")
        self.gaps_told = self.gaps_from_times = self.with_api = 0
        self._appends = [self._integers[name].append for name in _INTEGERS]

    def __len__(self) -> int:
        return len(self._drivers)

    def add(self, request: TraceRequest, hit: Hit) -> None:
        """Take a request, after those before it."""
        at_s, gap_s, number, grown, fresh = request.at_s, NAN, -1, 0, 0
        if request.session is not None:
            number = self._numbers.setdefault(request.session, len(self._numbers))
            if number == len(self._turns):
                self._open(request)
            else:
                gap_s = self._gap(request, number)
                grown = request.prompt_tokens - self._last_prompt[number]
                fresh = grown - self._last_output[number]
            self._turns[number] += 1
            self._last_prompt[number], self._last_output[number] = request.prompt_tokens, request.output_tokens
            self._end_s[number] = NAN if at_s is None else at_s + (request.api_s or 0.0)
        values = (request.prompt_tokens, request.output_tokens, hit.tokens, hit.of_session, number, grown, fresh)
        for append, value in zip(self._appends, values, strict=True):
            append(value)
        self._seconds["at_s"].append(NAN if at_s is None else at_s)
        self._seconds["gap_s"].append(gap_s)
        self._drivers.append(DRIVERS.get(request.driver or "", 0))
        self.with_api += request.api_s is not None

    def _open(self, request: TraceRequest) -> None:
        for column in (self._turns, self._last_prompt, self._last_output):
            column.append(0)
        self._first_prompt.append(request.prompt_tokens)
        self._is_subagent.append(request.parent is not None)
        self._end_s.append(NAN)

    def _gap(self, request: TraceRequest, number: int) -> float:
        if request.gap_s is not None:
            self.gaps_told += 1
            return request.gap_s
        if request.at_s is None:
            return NAN
        self.gaps_from_times += 1
        return max(request.at_s - self._end_s[number], 0.0)

    def integers(self, name: str) -> NDArray[np.int32]:
        """Return a column of every request: prompt, output, hit, session_hit, session, grown or fresh."""
        return np.frombuffer(self._integers[name], np.int32)

    def seconds(self, name: str) -> NDArray[np.float64]:
        """Return `at_s` or `gap_s` of every request; NaN where it is not told."""
        return np.frombuffer(self._seconds[name], np.float64)

    @property
    def drivers(self) -> NDArray[np.int8]:
        """Who drives each request, by DRIVERS; 0 where that is not told."""
        return np.frombuffer(self._drivers, np.int8)

    @property
    def turns(self) -> NDArray[np.int32]:
        """Requests of each session."""
        return np.frombuffer(self._turns, np.int32)

    @property
    def first_prompts(self) -> NDArray[np.int32]:
        """Prompt tokens of each session's first request."""
        return np.frombuffer(self._first_prompt, np.int32)

    @property
    def last_prompts(self) -> NDArray[np.int32]:
        """Prompt tokens of each session's last request."""
        return np.frombuffer(self._last_prompt, np.int32)

    @property
    def subagents(self) -> NDArray[np.bool_]:
        """Whether each session was started by another."""
        return np.frombuffer(self._is_subagent, np.int8).astype(np.bool_)
