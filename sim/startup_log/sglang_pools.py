"""SGLang prints free memory at each step and a line a pool: target first, draft behind it. Reduce that to one rank."""

from sim.startup_log.quantities import Value
from sim.startup_log.start import Printed

_FIRST = (
    "free_before_load_bytes", "free_after_load_bytes", "free_after_pool_bytes", "free_before_graphs_bytes",
    "window_tokens", "full_tokens", "state_slots", "conv_state_bytes", "ssm_state_bytes",
    "intermediate_ssm_bytes", "intermediate_conv_bytes", "k_bytes", "v_bytes",
)  # fmt: skip


def sglang_rank(printed: Printed) -> dict[str, Value]:
    """Return what one rank of SGLang printed, under the names of RankFacts."""
    facts: dict[str, Value] = {name: printed[name][0] for name in _FIRST if name in printed}
    facts |= {
        name: printed[name][-1] for name in ("free_after_graphs_bytes", "free_when_ready_bytes") if name in printed
    }
    loaded = _steps(printed, "loaded_bytes", "free_before_load_bytes", "free_after_load_bytes")
    captured = _steps(printed, "captured_bytes", "free_before_graphs_bytes", "free_after_graphs_bytes")
    pools = [int(size) for size in printed.get("pool_bytes", ())]
    of_the_target = 2 if "window_pool_bytes" in printed else 1  # a window pool and a full one
    kv = printed.get("window_pool_bytes", [])[:1] or pools[:1] or printed.get("kv_bytes", [])[:1]
    tokens = printed.get("tokens", []) or printed.get("pool_tokens", [])[:1]
    if loaded:
        facts["weights_bytes"] = loaded[0]
    if captured:
        facts["graph_bytes"] = sum(captured)
    if kv:
        facts["kv_bytes"] = kv[0]
    if tokens:
        facts["tokens"] = min(int(count) for count in tokens)
    if loaded[1:]:
        facts["draft_weights_bytes"] = sum(loaded[1:])
    if pools[of_the_target:]:
        facts["draft_kv_bytes"] = sum(pools[of_the_target:])
    return facts


def _steps(printed: Printed, used: str, before: str, after: str) -> list[int]:
    """Return what each step took: as printed, or the fall of free memory where older releases print only that."""
    if used in printed:
        return [int(size) for size in printed[used]]
    falls = zip(printed.get(before, ()), printed.get(after, ()), strict=False)
    return [int(begin) - int(end) for begin, end in falls]
