"""`kvcliff memory`: the ledger of a scenario, or of a GPU and a model with vLLM's flags."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sim.catalog import load_gpu, load_model
from sim.errors import MemoryLedgerError
from sim.json_output import ledger_json
from sim.memory import MemoryLedger, MemorySettings, memory_ledger
from sim.scenario import Scenario
from sim.setup import memory_settings
from sim.strict_yaml import apply_overrides, decode, load_yaml


def memory_command(scenario: Path | None, overrides: Sequence[str], flags: dict[str, Any], *, as_json: bool) -> None:
    """Print the ledger; flags override the scenario's engine settings."""
    if scenario is None and overrides:
        raise MemoryLedgerError("--set changes a scenario, and none is given; use vLLM's flags instead")
    ledger = _of_scenario(scenario, overrides, flags) if scenario is not None else _of_flags(flags)
    if as_json:
        click.echo(json.dumps(ledger_json(ledger)))
        return
    from rich.console import Console

    from sim.report.ledger_table import ledger_table

    Console().print(ledger_table(ledger))


def _of_scenario(path: Path, overrides: Sequence[str], flags: dict[str, Any]) -> MemoryLedger:
    top_level = ("gpu", "model", "weight_dtype")
    from_flags = [f"{key if key in top_level else f'engine.{key}'}={json.dumps(value)}" for key, value in flags.items()]
    document = apply_overrides(load_yaml(path), [*overrides, *from_flags])
    scenario = decode(document, Scenario)
    return memory_ledger(load_gpu(scenario.gpu), load_model(scenario.model), memory_settings(scenario))


def _of_flags(flags: dict[str, Any]) -> MemoryLedger:
    for needed in ("gpu", "model"):
        if needed not in flags:
            raise MemoryLedgerError(f"--{needed} is missing: give a scenario file, or --gpu and --model")
    settings = {key: value for key, value in flags.items() if key not in {"gpu", "model"}}
    return memory_ledger(load_gpu(flags["gpu"]), load_model(flags["model"]), MemorySettings(**settings))
