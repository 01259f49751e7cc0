"""The promises about speed, and what the measurements say of them.

All seconds are of CPU: on a busy machine a clock would judge the neighbours.
"""

from collections.abc import Mapping

from bench.results import CaseResult, CommandResult, Target

GIGABYTE = 1e9


def targets(cases: Mapping[str, CaseResult], commands: Mapping[str, CommandResult]) -> list[Target]:
    """Return all targets, those that were not measured too."""
    of_cases = [*_rates(cases), *_prefixes(cases), *_doublings(cases)]
    return [*of_cases, *_sweeps(cases, commands), *_starts(commands), _memory(cases)]


def _rates(cases: Mapping[str, CaseResult]) -> list[Target]:
    conv, tenfold = cases.get("conv2000"), cases.get("conv20000")
    whole = None if tenfold is None else tenfold.output_tokens / tenfold.whole_s.best / 1e6
    simulated = None if conv is None else conv.tokens_per_s / 1e6
    found = [
        Target("conv2000: generated tokens a second of simulating", simulated, 15, at_most=False, unit="M"),
        Target("conv20000: generated tokens a second of the whole process", whole, 5, at_most=False, unit="M"),
    ]
    for blocks in (14_000, 8_000):
        case = cases.get(f"sess48/{blocks}")
        rate = None if case is None else case.requests_per_s
        name = f"sess48, {blocks:,} blocks: requests a second of simulating"
        found.append(Target(name, rate, 14_000, at_most=False, unit=""))
    return found


def _prefixes(cases: Mapping[str, CaseResult]) -> list[Target]:
    """Judged only where both prefix lengths gave the same times: else the runs differ, not their cost."""
    found = []
    for state in ("below", "past"):
        short, long = (cases.get(f"closed48/{prefix}/{state}") for prefix in (10_000, 100_000))
        ratio = None
        if short is not None and long is not None and short.times == long.times:
            ratio = long.simulate_s.best / short.simulate_s.best
        name = f"closed48, {state} the cliff: a turn after 100,000 shared tokens against 10,000"
        found.append(Target(name, ratio, 1.2, at_most=True, unit="x"))
    return found


def _doublings(cases: Mapping[str, CaseResult]) -> list[Target]:
    found = []
    for clients in (24, 48, 96):
        fewer, more = cases.get(f"doubling/{clients}"), cases.get(f"doubling/{2 * clients}")
        ratio = None if fewer is None or more is None else more.simulate_s.best / fewer.simulate_s.best
        found.append(Target(f"{clients} to {2 * clients} sessions: cost", ratio, 2.2, at_most=True, unit="x"))
    return found


def _sweeps(cases: Mapping[str, CaseResult], commands: Mapping[str, CommandResult]) -> list[Target]:
    bare, command = cases.get("l4/sweep"), commands.get("command/l4-sweep")
    sweep = "L4 sweep, 1 to 48 sessions x 3 KV dtypes x 5 seeds"
    return [
        Target(sweep, None if bare is None else bare.whole_s.best, 20, at_most=True, unit="s"),
        Target(
            f"{sweep}, as kvcliff run: also with unlimited KV",
            None if command is None else command.cpu_s.best,
            20,
            at_most=True,
            unit="s",
        ),
    ]


def _starts(commands: Mapping[str, CommandResult]) -> list[Target]:
    found = []
    for name, what, limit_s in (
        ("command/run", "kvcliff run of one session", 0.5),
        ("command/help", "kvcliff --help", 0.3),
    ):
        command = commands.get(name)
        cpu_s = None if command is None else command.cpu_s.best
        found.append(Target(f"{what}, from start to end", cpu_s, limit_s, at_most=True, unit="s"))
    return found


def _memory(cases: Mapping[str, CaseResult]) -> Target:
    case = cases.get("million")
    value = None if case is None else case.peak_bytes / GIGABYTE
    return Target("1,000,000 requests: peak memory", value, 1.0, at_most=True, unit="GB")
