"""Results in sentences, the same in the terminal and under charts: assumptions first, then answers."""

from collections.abc import Iterator

from sim.report.refusals import share_refused, turns_word, why_refused
from sim.report.trace_lines import replay_lines, trace_lines
from sim.run import Result
from sim.scenario import EngineSpec
from sim.scheduling.policies import VLLM_V1
from sim.scheduling.replay import POLICY_VERSION
from sim.scheduling.reserving import PAGED
from sim.setup import Deployment
from sim.units import gib, seconds

UNFINISHED_SHARE = 0.1


def description(deployment: Deployment) -> str:
    """Return the scenario's own words; not those of a trace that was made another one, for they may name its rate."""
    changed = deployment.trace is not None and any(text.startswith("load") for text in deployment.overrides)
    return "" if changed else deployment.scenario.description


def assumptions(deployment: Deployment) -> Iterator[str]:
    """Yield where the numbers come from."""
    ledger, limits = deployment.ledger, deployment.ledger.limits
    yield step_times(deployment)
    costs = dict(cost_sources(deployment))
    if costs:
        yield f"costs: {', '.join(f'{name} {text}' for name, text in costs.items())}"
    if deployment.overrides:
        yield f"changed by --set: {', '.join(deployment.overrides)}"
    yield (
        f"engine: max_num_batched_tokens {limits.max_num_batched_tokens:,}, max_num_seqs {limits.max_num_seqs:,}, "
        f"max_model_len {limits.max_model_len:,}{_beyond_positions(deployment)}"
    )
    span = ledger.num_gpu_blocks_range
    spread = "" if span.low == span.high else f", {span.low:,} to {span.high:,} possible"
    yield (
        f"KV cache: {ledger.kv_cache_tokens:,} tokens in {ledger.num_gpu_blocks:,} blocks, {gib(ledger.kv_bytes)} "
        f"({ledger.provenance['kv_bytes']}{spread})"
    )
    if deployment.trace is not None:
        yield from trace_lines(deployment.trace)
        return
    if deployment.replay is not None:
        yield from replay_lines(deployment.replay)
    by_hand = deployment.arithmetic
    yield (
        f"by hand: ({by_hand.kv_cache_tokens:,} - {by_hand.shared_prefix_tokens:,}) / "
        f"{by_hand.unique_tokens_per_session:,} tokens a session = "
        f"{by_hand.tokens_for_sessions / by_hand.unique_tokens_per_session:.1f} sessions"
    )


def cost_sources(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """Yield what is priced around the forward pass: each term with its value, and who says so."""
    given, known = deployment.scenario.costs, deployment.step_times.costs
    for name in given.__struct_fields__:
        value = getattr(deployment.engine.costs, name)
        if value:
            term = known.get(name) if getattr(given, name) is None else None
            yield name, f"{value:g} ({'given' if term is None else term.source})"


def step_times(deployment: Deployment) -> str:
    """Say which profile priced the steps and whose rules scheduled them."""
    profile = deployment.step_times
    assumed = f" (assumed: {', '.join(profile.assumed)})" if profile.assumed else ""
    how = "asynchronous" if deployment.scenario.engine.async_scheduling else "synchronous"
    return (
        f"step times: {profile.provenance.kind}, profile {profile.name}{assumed}; "
        f"scheduling: {scheduling_policy(deployment.scenario.engine)}, {how}"
    )


def scheduling_policy(engine: EngineSpec) -> str:
    """Name the batching policy and the queue's order, where they are not vLLM's defaults."""
    name = f"vLLM V1 as of {POLICY_VERSION}" if engine.scheduler == VLLM_V1 else engine.scheduler.replace("_", " ")
    order = "" if engine.scheduling_policy == "fcfs" else f", {engine.scheduling_policy.replace('_', ' ')}"
    areas = "" if engine.kv_reservation == PAGED else f", KV reserved by {engine.kv_reservation}"
    return name + order + areas


def answers(result: Result) -> Iterator[str]:
    """Yield the knee, its cause, the SLO capacity, and what to doubt."""
    yield knee_sentence(result)
    yield from _doubts(result)
    cause = result.cause
    if cause is not None:
        relieved = ", ".join(f"{name} {seconds(value)}" for name, value in cause.relieved_ttft_p99_s.items())
        what = "Cause" if result.knee.sessions is not None else "What breaks the SLO"
        yield (
            f"{what}{_at(result, cause.sessions)}: {cause.name or 'no single limit'}. p99 TTFT "
            f"{seconds(cause.ttft_p99_s)}; with one limit lifted at a time: {relieved}."
        )
    slo = result.deployment.slo
    if slo.ttft_p99_s is not None or slo.tpot_p99_s is not None:
        yield slo_sentence(result)
    if any(point["ttft_p99_rests_on_few"] for point in result.points):
        yield _few_sentence(result)


def _at(result: Result, count: float) -> str:
    """Return ` at 14 sessions`; a trace is one load, and which goes without saying."""
    return "" if result.deployment.trace is not None else f" at {amount(count, result.load_unit)}"


def _few_sentence(result: Result) -> str:
    few = [point["requests"] for point in result.points if point["ttft_p99_rests_on_few"]]
    if result.deployment.trace is not None:
        return (
            f"The p99 is of {few[0]:,.0f} {turns_word(result, few[0])}. Nothing is drawn at random, so it has no "
            "interval; the profile's error and the block count's remain."
        )
    return (
        f"A p99 here rests on {min(few):,.0f} to {max(few):,.0f} turns a seed ({amount(result.seeds, 'seeds')}): "
        "intervals are those of the mean over seeds, and contain neither the profile's error nor the block count's."
    )


def _beyond_positions(deployment: Deployment) -> str:
    positions = deployment.model.max_position_embeddings
    if deployment.ledger.limits.max_model_len <= positions:
        return ""
    return f" (beyond the model's {positions:,} positions: vLLM wants rope scaling or an override)"


def _doubts(result: Result) -> Iterator[str]:
    """Yield what makes the figures mean less than they seem to."""
    share = share_refused(result)
    if share:
        yield f"{share}, {why_refused(result)}."
    cut = [point for point in result.points if point["unfinished"] > UNFINISHED_SHARE * point["requests"]]
    if cut:
        counts = ", ".join(f"{point['sessions']:g}" for point in cut)
        where = "" if result.deployment.trace is not None else f"At {counts} {result.load_unit} "
        many = f"{where}many {turns_word(result, 0)}"
        yield (
            f"{many[0].upper()}{many[1:]} were unfinished when the run stopped; percentiles leave them "
            "out, so the truth is worse. Let it run longer (stop)."
        )
    spans = [
        (point["ttft_p99_s_low"], point["ttft_p99_s_high"]) for point in result.points if "ttft_p99_s_low" in point
    ]
    if spans and all(low == high for low, high in spans):
        yield "All seeds gave the same: nothing in this scenario is random, so there is no interval."


def amount(count: float, unit: str) -> str:
    """Return `14 sessions`, `1 session`, `1 session per burst`: a unit is plural in its first word."""
    first, *rest = unit.split(" ", 1)
    return " ".join([f"{count:g}", first.removesuffix("s") if count == 1 else first, *rest])


def knee_sentence(result: Result) -> str:
    """Say where the KV knee is and how sure that is."""
    knee = result.knee
    if not any(point["requests"] for point in result.points):
        return "Nothing was answered at any load: there is no knee to speak of."
    if result.deployment.trace is not None:
        (point,) = result.points
        slows = "slows this trace more than 3x" if knee.sessions is not None else "does not slow this trace"
        p99_s, free_s = point["ttft_p99_s"], point["unlimited_kv_ttft_p99_s"]
        return f"The KV cache {slows} (p99 TTFT {seconds(p99_s)}, with unlimited KV {seconds(free_s)})."
    if knee.sessions is None:
        last = result.points[-1]["sessions"]
        return f"No KV knee up to {amount(last, result.load_unit)}: p99 TTFT stays within 3x of an unlimited KV cache."
    text = f"KV knee: {amount(knee.sessions, result.load_unit)}, the first of the tested counts past it"
    if knee.refined_sessions != knee.sessions:
        text += f" ({knee.refined_sessions} by bisection)"
    if knee.low != knee.high:
        text += f"; {knee.low} to {knee.high} over single seeds"
    point = next(point for point in result.points if point["sessions"] == knee.sessions)
    unlimited_s = point["unlimited_kv_ttft_p99_s"]
    return f"{text}. p99 TTFT {seconds(point['ttft_p99_s'])} there, {seconds(unlimited_s)} with unlimited KV."


def slo_sentence(result: Result) -> str:
    """Say how many sessions keep the promise, and whether it is refusals that break it."""
    slo = result.deployment.slo
    sides = []
    if slo.ttft_p99_s is not None:
        sides.append(f"p99 TTFT within {seconds(slo.ttft_p99_s)}")
    if slo.tpot_p99_s is not None:
        sides.append(f"p99 TPOT within {seconds(slo.tpot_p99_s)}")
    promise = f"SLO ({' and '.join(sides)})"
    broken = next((point for point in result.points if not slo.met_by_point(point)), None)
    if broken is None:
        return f"{promise}: {_holds(result)}."
    share, at = share_refused(result, broken), _at(result, broken["sessions"])
    refusals = f", {share}" if share else ""
    if result.slo_sessions is not None:
        return f"{promise}: {_holds(result)}{f';{at}{refusals}' if refusals else ''}."
    return f"{promise}: {f'not even{at}' if at else 'missed'}{refusals}."


def _holds(result: Result) -> str:
    if result.deployment.trace is not None:
        return "met"
    return f"holds up to {amount(result.slo_sessions or 0, result.load_unit)} of those tested"
