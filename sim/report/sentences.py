"""Results in sentences, the same in the terminal and under charts: assumptions first, then answers."""

from collections.abc import Iterator

from sim.engine.record import Outcome
from sim.run import Result, turn_rows
from sim.scheduling.replay import POLICY_VERSION
from sim.setup import Deployment
from sim.units import gib, seconds

UNFINISHED_SHARE = 0.1


def assumptions(deployment: Deployment) -> Iterator[str]:
    """Yield where the numbers come from."""
    ledger, limits = deployment.ledger, deployment.ledger.limits
    yield step_times(deployment)
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
    by_hand = deployment.arithmetic
    yield (
        f"by hand: ({by_hand.kv_cache_tokens:,} - {by_hand.shared_prefix_tokens:,}) / "
        f"{by_hand.unique_tokens_per_session:,} tokens a session = "
        f"{by_hand.tokens_for_sessions / by_hand.unique_tokens_per_session:.1f} sessions"
    )


def step_times(deployment: Deployment) -> str:
    """Say which profile priced the steps and whose rules scheduled them."""
    profile = deployment.step_times
    assumed = f" (assumed: {', '.join(profile.assumed)})" if profile.assumed else ""
    how = "asynchronous" if deployment.scenario.engine.async_scheduling else "synchronous"
    return (
        f"step times: {profile.provenance.kind}, profile {profile.name}{assumed}; "
        f"scheduling: vLLM V1 as of {POLICY_VERSION}, {how}"
    )


def answers(result: Result) -> Iterator[str]:
    """Yield the knee, its cause, the SLO capacity, and what to doubt."""
    yield knee_sentence(result)
    yield from _doubts(result)
    cause = result.cause
    if cause is not None:
        relieved = ", ".join(f"{name} {seconds(value)}" for name, value in cause.relieved_ttft_p99_s.items())
        what = "Cause" if result.knee.sessions is not None else "What breaks the SLO"
        yield (
            f"{what} at {amount(cause.sessions, result.load_unit)}: {cause.name or 'no single limit'}. p99 TTFT "
            f"{seconds(cause.ttft_p99_s)}; with one limit lifted at a time: {relieved}."
        )
    slo = result.deployment.slo
    if slo.ttft_p99_s is not None or slo.tpot_p99_s is not None:
        yield slo_sentence(result)
    if any(point["ttft_p99_rests_on_few"] for point in result.points):
        few = [point["requests"] for point in result.points if point["ttft_p99_rests_on_few"]]
        yield (
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
    refused = [row for row in turn_rows(result) if row["outcome"] == Outcome.REFUSED.value]
    if refused:
        longest = max(row["prompt_tokens"] for row in refused)
        ledger = result.deployment.ledger
        yield (
            f"Turns were refused as too long: prompts of up to {longest:,} tokens, where max_model_len is "
            f"{ledger.limits.max_model_len:,} and the KV cache has {ledger.kv_cache_tokens:,}."
        )
    cut = [point for point in result.points if point["unfinished"] > UNFINISHED_SHARE * point["requests"]]
    if cut:
        counts = ", ".join(f"{point['sessions']:g}" for point in cut)
        yield (
            f"At {counts} {result.load_unit} many turns were unfinished when the run stopped; percentiles leave them "
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
    """Say how many sessions keep the promise."""
    slo = result.deployment.slo
    sides = []
    if slo.ttft_p99_s is not None:
        sides.append(f"p99 TTFT within {seconds(slo.ttft_p99_s)}")
    if slo.tpot_p99_s is not None:
        sides.append(f"p99 TPOT within {seconds(slo.tpot_p99_s)}")
    promise = " and ".join(sides)
    if result.slo_sessions is None:
        return f"SLO ({promise}): not even at {amount(result.points[0]['sessions'], result.load_unit)}."
    return f"SLO ({promise}): holds up to {amount(result.slo_sessions, result.load_unit)} of those tested."
