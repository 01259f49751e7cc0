"""Why one ledger holds more or fewer requests than another: each cause with what it does alone.

    concurrency of all replicas = replicas x KV memory / bytes of one request

so the changes of the three multiply up to the whole, and those that are small beside the largest are left out.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from sim.memory import Keeps, MemoryLedger, SglangPools
from sim.memory.binding import replicas_of, total_concurrency
from sim.memory.parts import ACTIVATION, GRAPHS, OUTSIDE_TORCH, WEIGHTS, parts_of
from sim.memory.verdict import verdict_of
from sim.memory.versions import is_v0, sampler_bytes_per_logit
from sim.units import gib

Ledger = MemoryLedger | SglangPools

_ALIKE = 0.005  # a change below this is none
_TWICE = 1.95  # times from which a change is a factor
_SMALL = 0.1  # of the largest cause: below this, none
_CHARGED = {"the weights": WEIGHTS, "the activation peak": ACTIVATION, "memory outside torch": OUTSIDE_TORCH}


class _Cause(NamedTuple):
    times: float  # what it alone multiplies concurrency by
    words: str

    @property
    def weight(self) -> float:
        return abs(math.log(self.times))


def percent(number: float, first: float) -> str | None:
    """Return `+23 %`, or `x 2.00` from twice on; None where there is no change to speak of, or nothing to divide by."""
    if first <= 0 or abs(number - first) <= _ALIKE * first:
        return None
    return f"x {number / first:,.2f}" if number >= _TWICE * first else f"{number / first - 1:+.0%}".replace("%", " %")


def main_cause(before: Ledger, after: Ledger) -> str:
    """Return what changes from one ledger to another in the whole deployment, and the reasons, the largest first."""
    if before.refusal or after.refusal:
        return _of_refusals(before, after)
    change = percent(total_concurrency(after), total_concurrency(before))
    many = max(replicas_of(before), replicas_of(after)) > 1
    said = f"concurrency{' of the whole deployment' if many else ''} {change or 'unchanged'}"
    if not isinstance(before, MemoryLedger) or not isinstance(after, MemoryLedger):
        return said
    causes = _causes(before, after)
    if not causes:
        return said
    if len(causes) == 1:
        return f"{said}: {causes[0].words}"
    shares = (f"{cause.words} ({percent(cause.times, 1)})" for cause in causes)
    return f"{said}: {'; '.join(shares)}"


def _of_refusals(before: Ledger, after: Ledger) -> str:
    if before.refusal and after.refusal:
        if not isinstance(before, MemoryLedger) or not isinstance(after, MemoryLedger):
            return "neither starts"
        first, then = before.largest_max_model_len, after.largest_max_model_len
        return f"neither starts; the longest that would is {then:,} instead of {first:,} tokens"
    verdict = "refused" if after.refusal else "starts"
    if not isinstance(before, MemoryLedger) or not isinstance(after, MemoryLedger):
        return verdict
    if verdict_of(after).is_open:
        verdict = f"probably {verdict}"
    if min(before.kv_bytes, after.kv_bytes) <= 0:  # no ratio to speak of
        return f"{verdict}: {_memory_reason(before, after)}"
    helping = [cause for cause in _causes(before, after) if (cause.times > 1) is (after.refusal is None)]
    return f"{verdict}: {helping[0].words}" if helping else verdict


def _causes(before: MemoryLedger, after: MemoryLedger) -> list[_Cause]:
    """Return what acts, the largest first; empty where nothing does."""
    replicas = replicas_of(after), replicas_of(before)
    found = [
        _Cause(
            replicas[0] / replicas[1],
            f"{replicas[0]} replica{'' if replicas[0] == 1 else 's'} instead of {replicas[1]}",
        ),
        _Cause(_request_bytes(before) / _request_bytes(after), " and ".join(_request_reasons(before, after))),
        _Cause(max(1, after.kv_bytes) / max(1, before.kv_bytes), _memory_reason(before, after)),
    ]
    acting = sorted((cause for cause in found if percent(cause.times, 1)), key=lambda cause: -cause.weight)
    return [cause for cause in acting if cause.weight >= _SMALL * acting[0].weight]


def _request_bytes(ledger: MemoryLedger) -> int:
    return ledger.blocks_per_request * ledger.layout.block_bytes


def _request_reasons(before: MemoryLedger, after: MemoryLedger) -> list[str]:
    """Return why a request of full length takes more or fewer bytes: what differs of all that can make it so."""
    return list(_known_request_reasons(before, after)) or ["the layout of the KV cache"]


def _known_request_reasons(before: MemoryLedger, after: MemoryLedger) -> Iterator[str]:
    one, two = before.settings, after.settings
    if before.model != after.model:
        yield f"{after.model}, {after.bytes_per_token:,.0f} instead of {before.bytes_per_token:,.0f} bytes a token"
        return
    if before.limits.max_model_len != after.limits.max_model_len:
        yield f"requests of {after.limits.max_model_len:,} instead of {before.limits.max_model_len:,} tokens"
    if one.kv_cache_dtype != two.kv_cache_dtype:
        yield f"the KV type, {after.bytes_per_token:,.0f} instead of {before.bytes_per_token:,.0f} bytes a token"
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size"):
        if getattr(one, name) != getattr(two, name):
            yield f"{name} {getattr(two, name)} instead of {getattr(one, name)}"
    states = [sum(group.state_blocks for group in ledger.layout.groups) for ledger in (before, after)]
    if states[0] != states[1]:
        yield f"{states[1]} instead of {states[0]} blocks a sequence for states"
    windows = any(group.keeps in {Keeps.WINDOW, Keeps.CHUNK} for group in after.layout.groups)
    if windows and before.in_flight_tokens != after.in_flight_tokens:
        yield (
            f"the window groups reserve {after.in_flight_tokens:,} instead of {before.in_flight_tokens:,} "
            "in-flight tokens"
        )


def _memory_reason(before: MemoryLedger, after: MemoryLedger) -> str:
    """Return which part of the budget makes most of the change of the KV memory."""
    change = after.kv_bytes - before.kv_bytes
    first, then = ({part.name: part.size_bytes.likely for part in parts_of(ledger)} for ledger in (before, after))
    taken = {label: first.get(name, 0) - then.get(name, 0) for label, name in _CHARGED.items()}
    charged = [
        sizes.get(GRAPHS, 0) if ledger.cuda_graphs_reduce_kv else 0
        for sizes, ledger in ((first, before), (then, after))
    ]
    taken["CUDA graphs"] = charged[0] - charged[1]
    taken["the budget"] = after.rank.budget_bytes - before.rank.budget_bytes
    main = max(taken, key=lambda label: taken[label] if change > 0 else -taken[label])
    if not taken[main] or (taken[main] > 0) is not (change > 0):
        return f"KV memory {gib(after.kv_bytes)} instead of {gib(before.kv_bytes)}"
    more = "more" if change > 0 else "less"
    said = f"{main} {'leave' if main.endswith('s') else 'leaves'} {gib(abs(taken[main]))} {more} for KV"
    return said + (_sampler(before, after) if main == "the activation peak" else "")


def _sampler(before: MemoryLedger, after: MemoryLedger) -> str:
    """Return the sampler's share in a changed activation peak, where the version changed what it takes."""
    one, two = before.settings.vllm_version, after.settings.vllm_version
    if is_v0(one) or is_v0(two) or sampler_bytes_per_logit(one) == sampler_bytes_per_logit(two):
        return ""
    return (
        f", for the sampler of {two} takes {sampler_bytes_per_logit(two):g} bytes a logit and that of {one} "
        f"{sampler_bytes_per_logit(one):g}"
    )
