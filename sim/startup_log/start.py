"""One start of an engine as it is read, line by line: every number under the process that printed it."""

import re
from dataclasses import dataclass, field

from sim.startup_log.fields import Setting, settings_in
from sim.startup_log.lines import rank_of
from sim.startup_log.quantities import Value, value_of
from sim.startup_log.sglang_wordings import SGLANG_REFUSALS, SGLANG_WORDINGS
from sim.startup_log.vllm_wordings import VLLM_REFUSALS, VLLM_WORDINGS

Printed = dict[str, list[Value]]  # a fact, and its values in the order of printing

_ENGINE_CONFIG = re.compile(r"LLM [eE]ngine.{0,80}? with config: ")
_USER_ARGS = re.compile(r"non-default args: \{|args: Namespace\(|server_args=ServerArgs\(")
_READY = ("Application startup complete", "ready to roll", "init engine (profile", "Starting vLLM API server")
_OUT_OF_MEMORY = re.compile(r"OutOfMemoryError|(?:CUDA|HIP|NPU) (?:error: )?out of memory|^out of memory")
_WORDINGS = [("vllm", wording) for wording in VLLM_WORDINGS] + [("sglang", wording) for wording in SGLANG_WORDINGS]
_BEFORE_ALL = {"engine_version", "model", "gpu_name"}
_SHARED_FACTS = {"gpu_name"}  # either engine may print it
_POOL_FACTS = {"k_bytes", "v_bytes", "latent_bytes"}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A line that says why an engine will not start."""

    reason: str
    line: str
    line_number: int


@dataclass(slots=True)
class Start:
    """What was read of one start so far."""

    place: str
    first_line: int
    printed: dict[str, Printed] = field(default_factory=dict)  # by process
    engine_config: dict[str, Setting] = field(default_factory=dict)
    user_args: dict[str, Setting] = field(default_factory=dict)
    openers: set[str] = field(default_factory=set)  # which processes opened it
    engines: set[str] = field(default_factory=set)
    trouble: Trouble | None = None
    overcome: Trouble | None = None  # trouble, and yet the engine started
    is_ready: bool = False
    ends_unread: bool = False  # the last line holds the words of a fact, but not its number

    def has(self, fact: str) -> bool:
        """Whether any process printed a fact."""
        return any(fact in facts for facts in self.printed.values())

    def all_of(self, fact: str) -> list[Value]:
        """Return the values of a fact over all processes."""
        return [value for facts in self.printed.values() for value in facts.get(fact, ())]

    @property
    def has_begun(self) -> bool:
        """Whether anything was read that is not printed before an engine begins."""
        return bool(self.engine_config) or any(set(facts) - _BEFORE_ALL for facts in self.printed.values())

    @property
    def is_complete(self) -> bool:
        """Whether KV was sized or the engine refused."""
        sized = any(self.has(fact) for fact in ("tokens", "num_gpu_blocks", "max_concurrency", "pool_tokens"))
        return sized or self.trouble is not None

    def read(self, number: int, text: str) -> None:
        """Take in one line, cleaned by `lines.plain`; raise StartupLogError for a number that cannot be."""
        matches = [(engine, wording.pattern.search(text)) for engine, wording in _WORDINGS if wording.anchor in text]
        self.ends_unread = bool(matches) and not any(match for _, match in matches)
        for engine, match in matches:
            if match:
                self._keep(number, engine, rank_of(text), match)
        self._read_settings(text)
        self._read_fate(number, text)

    def _keep(self, number: int, engine: str, rank: str, match: re.Match[str]) -> None:
        printed = self.printed.setdefault(rank, {})
        pool_bytes = 0
        for group, raw in match.groupdict().items():
            if raw is None:
                continue
            fact, _, unit = group.rpartition("__")
            value = value_of(raw, unit, fact, f"{self.place}:{number}")
            printed.setdefault(fact, []).append(value)
            pool_bytes += int(value) if fact in _POOL_FACTS else 0
            self.engines |= set() if fact in _SHARED_FACTS else {engine}
        if pool_bytes:
            printed.setdefault("pool_bytes", []).append(pool_bytes)

    def _read_settings(self, text: str) -> None:
        if "config: " in text and (match := _ENGINE_CONFIG.search(text)):
            self.engine_config = settings_in(text[match.end() :]) | self.engine_config
        if "args" in text and (match := _USER_ARGS.search(text)):
            self.user_args = settings_in(text[match.end() :]) | self.user_args
            self.engines.add("sglang" if match[0].startswith("server_args") else "vllm")

    def _read_fate(self, number: int, text: str) -> None:
        if any(mark in text for mark in _READY):
            self.is_ready = True
            self.overcome, self.trouble = self.trouble or self.overcome, None
        if self.is_ready or self.trouble:
            return
        for words, reason in VLLM_REFUSALS + SGLANG_REFUSALS:
            if words in text:
                self.trouble = Trouble(reason, text, number)
                return
        if ("ut of memory" in text or "OutOfMemory" in text) and _OUT_OF_MEMORY.search(text):
            self.trouble = Trouble(f"out of memory {self._stage()}", text, number)

    def _stage(self) -> str:
        if self.has("tokens") or self.has("num_gpu_blocks") or self.has("pool_tokens"):
            return "after KV was sized: while graphs were captured or the engine warmed up"
        if self.has("weights_bytes") or self.has("loaded_bytes"):
            return "while memory was profiled"
        return "while the weights were loaded"
