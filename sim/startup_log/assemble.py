"""From what one start printed to StartupFacts: one value a fact and rank, and a note where prints differ."""

from collections.abc import Iterable
from dataclasses import fields

from sim.startup_log.facts import RankFacts, Refusal, StartupFacts
from sim.startup_log.quantities import Value
from sim.startup_log.settings import settings_of
from sim.startup_log.sglang_pools import sglang_rank
from sim.startup_log.start import Printed, Start
from sim.units import GIB

_RANK_FACTS = {field.name for field in fields(RankFacts)} - {"rank"}
# vLLM 0.9 to 0.11 print a line a rank, all from the same process: the smallest is what can be used.
_LEAST = {"kv_bytes", "tokens", "max_concurrency", "num_gpu_blocks"}
_ROUNDING_BYTES = 0.02 * GIB  # two prints of one size, of two decimals each
_ROUNDING_SHARE = 0.006
_LONGEST_LINE = 300


def facts_of(start: Start, notes: Iterable[str] = ()) -> StartupFacts:
    """Return the facts of one start; raise StartupLogError for a setting that cannot be."""
    said = list(notes)
    engine = "sglang" if "sglang" in start.engines else "vllm" if "vllm" in start.engines else None
    settings = settings_of(start)
    versions = list(dict.fromkeys(str(version) for version in start.all_of("engine_version")))
    if len(versions) > 1:
        said.append(f"the log names the versions {', '.join(versions)}")
    ranks = _ranks(start, engine, said)
    if settings.get("gpu_memory_utilization") is None:
        settings["gpu_memory_utilization"] = next((rank.utilisation for rank in ranks if rank.utilisation), None)
    if start.overcome:
        said.append(f"line {start.overcome.line_number}: {start.overcome.reason}, and yet the engine started")
    names = [str(name).replace("_", " ").strip() for name in start.all_of("gpu_name")]
    single = (
        "attention_block_size", "mamba_page_padding_percent", "mamba_blocks", "context_parallel_size",
        "auto_fit_from_tokens", "auto_fit_to_tokens", "utilisation_without_graphs", "utilisation_for_the_old_kv",
    )  # fmt: skip
    return StartupFacts(
        place=start.place,
        engine=engine,
        engine_version=versions[0] if versions else None,
        scheduler=_scheduler(start) if engine == "vllm" else None,
        gpu_name=names[0] if names else None,
        engine_config=start.engine_config,
        user_args=start.user_args,
        num_gpu_blocks_override=_override(start, said),
        padding_layers=_padding_layers(start),
        ranks=ranks,
        refusal=_refusal(start),
        is_ready=start.is_ready,
        is_cut=not start.is_complete or start.ends_unread,
        notes=tuple(said),
        **{name: values[0] for name in single if (values := start.all_of(name))},  # type: ignore[arg-type]
        **settings,  # type: ignore[arg-type]
    )


def _ranks(start: Start, engine: str | None, said: list[str]) -> tuple[RankFacts, ...]:
    ranks = []
    for name, printed in start.printed.items():
        facts = sglang_rank(printed) if engine == "sglang" else _vllm_rank(name, printed, said)
        if facts:
            ranks.append(RankFacts(name, **facts))  # type: ignore[arg-type]
    return tuple(ranks)


def _vllm_rank(name: str, printed: Printed, said: list[str]) -> dict[str, Value]:
    facts = {
        fact: _one_of(fact, values, f" of {name}" if name else "", said)
        for fact, values in printed.items()
        if fact in _RANK_FACTS
    }
    in_use = printed.get("kv_in_use_bytes", [])
    if in_use and abs(int(in_use[-1]) - int(facts.get("kv_bytes", in_use[-1]))) <= _ROUNDING_BYTES:
        facts["kv_bytes"] = in_use[-1]  # to the byte
    if "peak_torch_bytes" in facts and "weights_bytes" in facts and "activation_bytes" not in facts:
        facts["activation_bytes"] = int(facts["peak_torch_bytes"]) - int(facts["weights_bytes"])
    return facts


def _one_of(fact: str, values: list[Value], of_whom: str, said: list[str]) -> Value:
    """Return the first print of a fact; where prints differ by more than rounding, the least or last, with a note."""
    tolerance = _ROUNDING_BYTES if fact.endswith("_bytes") else _ROUNDING_SHARE if fact == "utilisation" else 0
    numbers = [value for value in values if isinstance(value, int | float)]
    if max(numbers) - min(numbers) <= tolerance:
        return values[0]
    chosen = min(numbers) if fact in _LEAST else numbers[-1]
    shown = ", ".join(_shown(fact, value) for value in dict.fromkeys(numbers))
    rule = "smallest" if fact in _LEAST else "last"
    said.append(f"{fact.removesuffix('_bytes').replace('_', ' ')}{of_whom} is printed as {shown}: the {rule} is used")
    return chosen


def _shown(fact: str, value: float) -> str:
    return f"{value / GIB:.2f} GiB" if fact.endswith("_bytes") else f"{value:,}"


def _scheduler(start: Start) -> str | None:
    if named := start.all_of("scheduler"):
        return "V0" if named[0] == "an" else str(named[0])  # before there were two: "an LLM engine"
    if start.has("num_cpu_blocks"):  # only V0 swaps to the host
        return "V0"
    v1_only = ("tokens", "graph_estimate_bytes", "utilisation_without_graphs")
    return "V1" if any(start.has(fact) for fact in v1_only) else None


def _override(start: Start, said: list[str]) -> int | None:
    """Return the user's block count. The same line is printed by the pass that measures graphs, and is no cap there."""
    asked = start.user_args.get("num_gpu_blocks_override") or start.engine_config.get("num_gpu_blocks_override")
    if isinstance(asked, int) and asked > 0:
        return asked
    printed = zip(start.all_of("overridden_blocks"), start.all_of("override_blocks"), strict=True)
    real = [int(blocks) for profiled, blocks in printed if profiled]
    if start.has("override_blocks") and (start.user_args or not real):
        said.append("num_gpu_blocks_override in the log belongs to the measuring of graphs, and is no cap")
        return None
    return real[-1] if real else None


def _padding_layers(start: Start) -> tuple[tuple[int, float], ...]:
    layers, waste = start.all_of("padding_layers"), start.all_of("padding_layers_waste_percent")
    pairs = [(int(count), float(percent)) for count, percent in zip(layers, waste, strict=True)]
    return tuple(dict.fromkeys(pairs))


def _refusal(start: Start) -> Refusal | None:
    if start.trouble is None:
        return None

    def number(fact: str) -> int | None:
        values = start.all_of(fact)
        return int(values[0]) if values else None

    return Refusal(
        reason=start.trouble.reason,
        line=start.trouble.line[:_LONGEST_LINE],
        line_number=start.trouble.line_number,
        max_model_len=number("refused_max_model_len"),
        needed_bytes=number("needed_kv_bytes"),
        available_bytes=number("available_kv_bytes"),
        capacity_tokens=number("capacity_tokens"),
        estimated_max_model_len=number("estimated_max_model_len"),
        free_bytes=number("free_at_start_bytes"),
        asked_bytes=number("budget_bytes"),
        max_num_seqs=number("refused_num_seqs"),
        state_blocks=number("mamba_blocks"),
    )
