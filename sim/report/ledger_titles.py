"""What a ledger is of, in a line: model, GPUs, engine; of several ledgers, what they have in common."""

import math
from collections.abc import Callable, Sequence

from sim.memory import MemoryLedger, SglangPools

Ledger = MemoryLedger | SglangPools


def title(ledger: Ledger, model: str, gpu: str) -> str:
    """Return model, GPUs and engine; SGLang's pools do not know the first two."""
    return f"{_model(ledger, model)} on {_gpus(ledger, gpu)}, {_engine(ledger)}"


def common_title(ledgers: Sequence[Ledger], models: Sequence[str] = (), gpus: Sequence[str] = ()) -> str:
    """Return the same of several ledgers: what differs is left out, or said to be several.

    `models` and `gpus` name, ledger by ledger, what SGLang's pools are of.
    """
    model = _same([_model(one, name) for one, name in _paired(ledgers, models)]) or "several models"
    on = next(filter(None, (_same([of(one, name) for one, name in _paired(ledgers, gpus)]) for of in _GPU_WORDS)), "")
    engine = _same([_engine(one) for one in ledgers]) or _same([_name(one) for one in ledgers]) or "vLLM and SGLang"
    return f"{model} on {on or 'several GPUs'}, {engine}"


def _paired(ledgers: Sequence[Ledger], names: Sequence[str]) -> list[tuple[Ledger, str]]:
    return list(zip(ledgers, names or [""] * len(ledgers), strict=True))


def _same(words: Sequence[str]) -> str:
    """Return what all say, or nothing."""
    return words[0] if len(set(words)) == 1 else ""


def _model(ledger: Ledger, name: str) -> str:
    return ledger.model if isinstance(ledger, MemoryLedger) else name or "a model"


def _gpus(ledger: Ledger, name: str) -> str:
    split = ", ".join(f"{rank} {size}" for rank, size in _ranks(ledger).items() if size > 1)
    return f"{_counted(ledger, name)} ({split})" if split else _counted(ledger, name)


def _counted(ledger: Ledger, name: str) -> str:
    count = math.prod(_ranks(ledger).values())
    return f"{count} x {_kinds(ledger, name)}" if count > 1 else f"one {_kinds(ledger, name)}"


def _kinds(ledger: Ledger, name: str) -> str:
    if isinstance(ledger, SglangPools):
        return name or "GPU"
    return " and ".join(dict.fromkeys(rank.gpu for rank in ledger.ranks))


_GPU_WORDS: tuple[Callable[[Ledger, str], str], ...] = (_gpus, _counted, _kinds)  # the fullest first


def _ranks(ledger: Ledger) -> dict[str, int]:
    if isinstance(ledger, SglangPools):
        return {"TP": ledger.tensor_parallel_size, "PP": ledger.pipeline_parallel_size, "DP": ledger.replicas}
    settings = ledger.settings
    return {
        "TP": settings.tensor_parallel_size,
        "PP": settings.pipeline_parallel_size,
        "DP": settings.data_parallel_size,
    }


def _engine(ledger: Ledger) -> str:
    return _name(ledger) if isinstance(ledger, SglangPools) else f"vLLM {ledger.settings.vllm_version}"


def _name(ledger: Ledger) -> str:
    return "SGLang" if isinstance(ledger, SglangPools) else "vLLM"
