"""BLIS's clients as populations that send alike: when each is active, at what rate, and what its requests are.

`aggregate_rate` is split by `rate_fraction` among all that are active at overlapping times. Cohorts' patterns are on
and off in each hour (a day), or shrinking pieces of time (a drain), as BLIS has them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from workloads.errors import WorkloadError
from workloads.traces.blis_lengths import Draw, Lengths
from workloads.traces.blis_spec import Arrival, Client, Diurnal, Drain, InferencePerf, MultiTurn, Spec, Window

_DEFAULT_PREFIX_TOKENS = 50
_HOUR_US = 3.6e9
_DRAIN_PIECES = 10


@dataclass(frozen=True, slots=True)
class Active:
    """A time in which all members of a population send, `rate` requests a second together."""

    start_s: float
    end_s: float
    weight: float  # of a rate that is shared
    arrival: Arrival
    input_tokens: Draw
    output_tokens: Draw
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Sender:
    """A population; `prefix` and how many members share one."""

    name: str
    members: int
    active: tuple[Active, ...]
    prefix: str | None = None
    prefix_tokens: int = 0
    members_per_prefix: int | None = None  # None: all
    turns: MultiTurn | None = None
    concurrency: int = 0
    think_s: float = 0.0


def senders(spec: Spec, where: str) -> list[Sender]:
    """Return all populations with their rates; raises WorkloadError, which begins with `where`."""
    if spec.inference_perf is not None:
        return list(_short_form(spec.inference_perf))
    named = [(f"clients[{index}]", one) for index, one in enumerate(spec.clients or [])]
    named += [(f"cohorts[{index}]", one) for index, one in enumerate(spec.cohorts or [])]
    if not named:
        raise WorkloadError(f"{where}: no clients, cohorts or inference_perf in it")
    lengths: dict[str, int] = {}  # of prefixes: the first client of a group that gives one decides
    for _, one in named:
        if one.prefix_group and one.prefix_length:
            lengths.setdefault(one.prefix_group, one.prefix_length)
    found = [_sender(f"{where}: {key}", key, one, lengths) for key, one in named]
    return [
        _with_rates(f"{where}: {key}", one, found, spec.aggregate_rate)
        for (key, _), one in zip(named, found, strict=True)
    ]


def _sender(where: str, key: str, one: Client, lengths: dict[str, int]) -> Sender:
    windows = _windows(one)
    inputs = one.input_distribution.draw(f"{where}.input_distribution")
    outputs = one.output_distribution.draw(f"{where}.output_distribution")
    arrival = one.arrival or Arrival()
    active = []
    for index, window in enumerate(windows):
        place = f"{where}.lifecycle.windows[{index}]"
        if window.end_us <= window.start_us:
            raise WorkloadError(f"{place}: end_us {window.end_us:g} must be above start_us {window.start_us:g}")
        active.append(
            Active(
                window.start_us / 1e6,
                window.end_us / 1e6,
                one.rate_fraction if window.trace_rate is None else window.trace_rate,
                window.arrival or arrival,
                _or(window.input_distribution, f"{place}.input_distribution", inputs),
                _or(window.output_distribution, f"{place}.output_distribution", outputs),
                window.trace_rate or 0.0,
            )
        )
    group = one.prefix_group or None
    return Sender(
        one.id or key,
        one.population,
        tuple(active),
        group,
        lengths.get(group, _DEFAULT_PREFIX_TOKENS) if group else 0,
        1 if one.prefix_sharing == "per_member" else None,
        one.reasoning.multi_turn if one.reasoning else None,
        one.concurrency,
        one.think_time_us / 1e6,
    )


def _or(lengths: Lengths | None, where: str, otherwise: Draw) -> Draw:
    return otherwise if lengths is None else lengths.draw(where)


def _windows(one: Client) -> list[Window]:
    """Return when a client is active; always, if it does not say."""
    windows = list(one.lifecycle.windows) if one.lifecycle else []
    if one.diurnal is not None:
        windows += _day(one.diurnal)
    if one.spike is not None:
        end_us = one.spike.start_time_us + one.spike.duration_us
        windows.append(Window(one.spike.start_time_us, end_us, one.spike.trace_rate))
    if one.drain is not None:
        windows += _draining(one.drain)
    return list(_apart(sorted(windows, key=lambda window: window.start_us))) or [Window(0, math.inf)]


def _apart(windows: list[Window]) -> Iterator[Window]:
    """Yield windows so that each begins where the one before is over: being active twice is being active."""
    over_us = 0.0
    for window in windows:
        if window.end_us > over_us or window.end_us <= window.start_us:  # the latter is refused later, by its number
            yield msgspec.structs.replace(window, start_us=max(window.start_us, min(over_us, window.end_us)))
        over_us = max(over_us, window.end_us)


def _day(day: Diurnal) -> Iterator[Window]:
    least = 1 / day.peak_to_trough_ratio
    for hour in range(24):
        share = (1 + math.cos(2 * math.pi * (hour - day.peak_hour) / 24)) / 2 * (1 - least) + least
        yield Window(hour * _HOUR_US, (hour + share) * _HOUR_US)


def _draining(drain: Drain) -> Iterator[Window]:
    if drain.start_time_us > 0:
        yield Window(0, drain.start_time_us)
    piece_us = max(drain.ramp_duration_us / _DRAIN_PIECES, 1.0)
    for piece in range(_DRAIN_PIECES):
        start_us = drain.start_time_us + piece * piece_us
        yield Window(start_us, start_us + piece_us * (1 - piece / _DRAIN_PIECES))


def _with_rates(where: str, one: Sender, all_senders: list[Sender], aggregate_rate: float) -> Sender:
    if one.concurrency:
        return one
    active = []
    for time in one.active:
        rate = time.rate
        if aggregate_rate:
            beside = [other for sender in all_senders if not sender.concurrency for other in _beside(sender, time)]
            rate = aggregate_rate * time.weight / (sum(beside) or 1.0)
        if not rate:
            raise WorkloadError(
                f"{where}: no rate: rate_fraction of aggregate_rate, or a window's trace_rate is needed"
            )
        active.append(replace(time, rate=rate))
    return replace(one, active=tuple(active))


def _beside(sender: Sender, time: Active) -> list[float]:
    """Return the weight of a sender that is active at some part of a time: once, however many parts."""
    weights = [one.weight for one in sender.active if one.start_s < time.end_s and time.start_s < one.end_s]
    return weights[:1]


def _short_form(form: InferencePerf) -> Iterator[Sender]:
    """Yield the stages, one after another; chats send again and again without what came before, as BLIS has it."""
    shape, start_s = form.shared_prefix, 0.0
    members = shape.num_unique_system_prompts * shape.num_users_per_system_prompt
    for index, stage in enumerate(form.stages):
        turns = None
        if shape.enable_multi_turn_chat:
            rounds = max(int(stage.rate * stage.duration) // members, 1)
            turns = MultiTurn(rounds, members / stage.rate * 1e6, None, single_session=True)
        active = Active(
            start_s,
            start_s + stage.duration,
            1.0,
            Arrival(),
            _always(shape.question_len),
            _always(shape.output_len),
            stage.rate,
        )
        yield Sender(
            f"stage {index}",
            members,
            (active,),
            "prompt",
            shape.system_prompt_len,
            shape.num_users_per_system_prompt,
            turns,
        )
        start_s += stage.duration


def _always(tokens: int) -> Draw:
    return lambda _rng: max(tokens, 1)
