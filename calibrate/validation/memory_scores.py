"""How the ledger's answers compare with what engines printed, and with the formula people use.

Where a case prints the KV memory, tokens, concurrency and verdict follow from it (the layout is judged); the same case
is also asked without it, from GPU, model and flags alone (the reserves are judged).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from calibrate.validation.memory_cases import MemoryCase
from sim.catalog import Gpu, kv_dtype, load_gpu
from sim.memory import ByteRange, MemoryLedger, memory_ledger
from sim.memory.settings import batch_limits

_MUCH = 10**14  # bytes besides KV: none is left
_ANY_GPU = "RTX 4090"  # for cases that print their KV memory and no GPU: only the default step budget depends on it
_ROOMY_BYTES = 10**13  # of a GPU that holds any printed KV memory


@dataclass(frozen=True, slots=True)
class Score:
    """One case, answered."""

    case: MemoryCase
    given: MemoryLedger | None  # with the printed KV memory
    at_low: MemoryLedger | None  # with the least and the most that rounds to it
    at_high: MemoryLedger | None
    predicted: MemoryLedger | None  # from GPU, model and flags

    @property
    def ledger(self) -> MemoryLedger | None:
        """The best answer there is."""
        return self.given or self.predicted

    @property
    def is_uniform(self) -> bool:
        """Whether every layer keeps every token."""
        return self.ledger is not None and self.ledger.layout.is_uniform

    @property
    def token_error(self) -> float | None:
        """Of tokens that follow from the printed KV memory."""
        if self.given is None or self.case.tokens is None:
            return None
        return self.given.kv_cache_tokens / self.case.tokens - 1

    @property
    def concurrency_as_printed(self) -> bool | None:
        """Whether the concurrency that follows from the printed KV memory rounds to the printed one."""
        printed = self.case.max_concurrency
        if self.given is None or printed is None:
            return None
        return bool(abs(self.given.max_concurrency - printed) <= 0.5 * 10**-self.case.concurrency_digits + 1e-9)

    @property
    def concurrency_within_rounding(self) -> bool | None:
        """Whether some KV memory that rounds to the printed one gives the printed concurrency."""
        printed = self.case.max_concurrency
        if self.given is None or self.at_low is None or self.at_high is None or printed is None:
            return self.concurrency_as_printed
        half = 0.5 * 10**-self.case.concurrency_digits + 1e-9
        return bool(self.at_low.max_concurrency - half <= printed <= self.at_high.max_concurrency + half)

    @property
    def same_verdict(self) -> bool | None:
        """Whether the ledger starts and refuses as the engine did."""
        if self.case.starts is None or self.ledger is None or not (self.given or self.case.says_budget):
            return None
        return self.ledger.starts is self.case.starts

    @property
    def blocks_off(self) -> float | None:
        """How far the largest max_model_len is from the printed one, in blocks, beyond the KV memory's rounding."""
        printed = self.case.estimated_max_model_len
        if printed is None or self.given is None or self.at_low is None or self.at_high is None:
            return None
        nearest = min(max(printed, self.at_low.largest_max_model_len), self.at_high.largest_max_model_len)
        return abs(nearest - printed) / self.given.layout.block_size

    @property
    def kv_error(self) -> float | None:
        """Of the KV memory predicted from GPU, model and flags."""
        seen = self.seen_kv_bytes
        if self.predicted is None or seen is None or seen <= 0:
            return None
        return self.predicted.kv_bytes / seen - 1

    @property
    def kv_range(self) -> ByteRange | None:
        """What the ledger says the KV memory lies between."""
        return None if self.predicted is None else self.predicted.rank.kv_bytes

    @property
    def seen_kv_bytes(self) -> int | None:
        """KV memory a GPU, printed or from printed tokens where those are blocks."""
        case = self.case
        if case.kv_bytes is not None:
            return case.kv_bytes
        if case.tokens is None or self.predicted is None or not self.predicted.layout.is_uniform:
            return None
        return round(case.tokens * self.predicted.bytes_per_token)

    @property
    def formula_error(self) -> float | None:
        """Of the one-line formula: KV memory / (2 x layers x KV heads x head_dim x bytes), against what fits.

        What fits is the printed concurrency x max_model_len, or the printed tokens of a uniform model.
        """
        kv, ledger, case = self.case.kv_bytes, self.given, self.case
        if kv is None or kv <= 0 or ledger is None:
            return None
        if case.max_concurrency is not None:
            fits: float = case.max_concurrency * ledger.limits.max_model_len
        elif case.tokens is not None and self.is_uniform:
            fits = case.tokens
        else:
            return None
        return kv / formula_bytes_per_token(case) / fits - 1


def formula_bytes_per_token(case: MemoryCase) -> float:
    """Return what the one-line formula says of a token on one GPU."""
    model, settings = case.model, case.settings
    heads = max(1, model.num_key_value_heads // settings.tensor_parallel_size)
    head_bytes = kv_dtype(settings.kv_cache_dtype).head_bytes(model.head_dim)
    return model.num_hidden_layers * heads * head_bytes / settings.pipeline_parallel_size


def score(case: MemoryCase) -> Score:
    """Answer a case with its printed KV memory and without."""
    gpus = case.gpus or (load_gpu(_ANY_GPU),)
    given = low = high = predicted = None
    if case.kv_bytes is not None:
        asked = _asked(case, gpus)
        given, low, high = (
            asked(case.kv_bytes + more) for more in (0, -case.kv_rounding_bytes, case.kv_rounding_bytes)
        )
    elif case.settings.kv_override is not None:
        given = memory_ledger(gpus[0], case.model, case.settings)
    if case.gpus and case.settings.kv_override is None and case.is_predictable:
        predicted = memory_ledger(_each_stage(case, gpus), case.model, case.settings)
    return Score(case, given, low, high, predicted)


def _asked(case: MemoryCase, gpus: Sequence[Gpu]) -> Callable[[int], MemoryLedger]:
    """Return the ledger of a case by its KV memory; below zero it is what the rest leaves."""
    limits = batch_limits(min(gpus, key=lambda gpu: gpu.usable_bytes), case.model, case.settings)
    roomy = replace(gpus[0], visible_bytes=_ROOMY_BYTES)

    def at(kv_bytes: int) -> MemoryLedger:
        settings = replace(
            case.settings,
            kv_cache_memory_bytes=None,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            max_num_seqs=limits.max_num_seqs,
        )
        if settings.kv_override is None and kv_bytes > 0:
            settings = replace(settings, kv_cache_memory_bytes=kv_bytes)
        elif settings.kv_override is None:
            settings = replace(settings, non_kv_bytes=_MUCH)
        return memory_ledger(roomy, case.model, settings)

    return at


def _each_stage(case: MemoryCase, gpus: Sequence[Gpu]) -> Gpu | tuple[Gpu, ...]:
    return gpus[0] if len(gpus) != case.settings.pipeline_parallel_size else tuple(gpus)
