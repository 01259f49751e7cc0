"""A simulation of which only the metrics are wanted: its records leave memory as turns end, into files if asked."""

from contextlib import nullcontext

from sim.engine.simulation import EngineSetup, LoadSetup, simulate
from sim.engine.step_log import StepLog
from sim.results.metrics import Slo, table_metrics
from sim.results.parquet_file import RecordFiles, parquet_turns, write_steps
from sim.results.table_keeper import TableKeeper


def measure(
    engine: EngineSetup, load: LoadSetup, seed: int, *, population: str, slo: Slo, files: RecordFiles | None = None
) -> dict[str, float]:
    """Simulate; return the metrics of one population's turns. `files` take all turns and all steps.

    Raises ScenarioError where files are asked for and pyarrow is not installed.
    """
    with nullcontext() if files is None else parquet_turns(files.turns) as file:
        keeper = TableKeeper(file)
        run = simulate(engine, load, seed, keeper)
        table = keeper.table()
    if files is not None:
        write_steps(files.steps, table.logs[0] if table.logs else StepLog())
    return table_metrics(table, run, population, slo)
