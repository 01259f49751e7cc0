"""`kvcliff validate machine`: a whole run of a tiny model, and what goes wrong."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from click.testing import CliRunner, Result  # noqa: E402

from calibrate.table_io import read_table  # noqa: E402
from calibrate.timing import measure as measuring  # noqa: E402
from calibrate.timing.grid import Limits  # noqa: E402
from calibrate.timing.layer_shape import layer_shape  # noqa: E402
from calibrate.timing.small_transformer_batch import Chunk, StepBatch  # noqa: E402
from calibrate.timing.stopwatch import Timing, median_interval  # noqa: E402
from calibrate.validation import machine_run  # noqa: E402
from calibrate.validation.machine_plan import operation_points  # noqa: E402
from calibrate.validation.machine_proof import Proof, ProvenStep  # noqa: E402
from calibrate.validation.machine_run import Plan, prove  # noqa: E402
from sim.catalog import Model  # noqa: E402
from sim.cli import main  # noqa: E402

TINY = Model(
    name="tiny",
    num_hidden_layers=2,
    hidden_size=64,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    intermediate_size=96,
    vocab_size=256,
    tie_word_embeddings=False,
    max_position_embeddings=4096,
    source="test",
)
STEPS = (StepBatch((Chunk(16, 0),)), StepBatch((Chunk(8, 24),), (9, 30)), StepBatch(decode_pasts=(40, 17, 3)))
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")


def validate(*flags: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["validate", "machine", *flags])


def pretend(monkeypatch: pytest.MonkeyPatch, error: float) -> None:
    """Make the run end at once with steps of the three kinds that are this far off."""
    steps = tuple(ProvenStep(batch, Timing(0.1, 0.09, 0.12, 9), 0.1 * (1 + error), 0.11) for batch in STEPS)

    def proved(plan: Plan, _out: Path | None, on_progress: Callable[[int, float], None]) -> Proof:
        on_progress(0, plan.budget_s)
        return Proof("cpu: test, 1 threads", plan.dtype, steps, 100, 1.5, ("skipped something",))

    monkeypatch.setattr(machine_run, "prove", proved)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NO_GPU)])
def test_a_tiny_model_goes_all_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """Steps and operations are timed, a profile is fitted, every step has a prediction; the table reads back."""
    monkeypatch.setattr(
        measuring, "time_until_tight", lambda sample, _share_s: median_interval([sample() for _ in range(3)])
    )
    planned = operation_points(layer_shape(TINY), "bf16", device, Limits(32, 4, 128))
    points = [replace(point, bytes=2**20) if point.operation == "copy" else point for point in planned]
    told: list[int] = []
    plan = Plan(device, "bf16", budget_s=3.0, threads=1, model=TINY, steps=STEPS, points=points)
    proof = prove(plan, tmp_path, lambda done, _left_s: told.append(done))
    assert [step.batch for step in proof.steps] == list(STEPS)
    for step in proof.steps:
        assert step.predicted_s > 0
        assert step.nearest_s > 0
        assert (step.measured.low_s or 0) <= step.measured.median_s
    table = read_table(tmp_path / "operations.csv")
    assert table.rejected == ()
    assert len(table.frame) == proof.operations
    assert {"step", "layer"}.isdisjoint(table.frame["operation"])
    assert told == sorted(told)


def test_out_holds_steps_and_a_chart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CSV row a step with both times, and the chart in two formats."""
    pretend(monkeypatch, 0.05)
    result = validate("--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    with (tmp_path / "steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows] == ["prefill", "mixed", "decode"]
    assert float(rows[0]["predicted_s"]) == pytest.approx(0.105)
    assert {path.name for path in tmp_path.iterdir()} == {"steps.csv", "machine.png", "machine.svg"}


def test_the_table_shows_steps_errors_limits_and_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says that other programs ran."""
    pretend(monkeypatch, 0.05)
    output = validate().stdout
    for part in ("3 rows on 3..40", "+5.0%", "10%", "20%", "skipped something", "1.5 CPUs busy"):
        assert part in output


def test_check_fails_where_a_limit_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1 and a line a limit; without --check the same run is only reported."""
    pretend(monkeypatch, 0.5)
    failed = validate("--check", "--json")
    assert failed.exit_code == 1
    assert "check failed: cpu: test, 1 threads: median |error| 50.0% of 3 steps, limit 10%" in failed.stderr
    assert len(json.loads(failed.stdout)["broken"]) == 2
    assert validate().exit_code == 0
    pretend(monkeypatch, 0.05)
    assert validate("--check").exit_code == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_missing_gpu_is_one_line_and_two() -> None:
    """Nothing is measured first."""
    result = validate("--device", "cuda")
    assert result.exit_code == 2
    assert "sees no CUDA GPU; use --device cpu" in result.stderr
    assert result.stderr.count("\n") == 1


def test_running_out_of_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch says of it, and that it was the transformer; any other failure is not swallowed."""

    def fail(message: str) -> None:
        def measured(*_args: object) -> None:
            raise RuntimeError(message)

        monkeypatch.setattr(machine_run, "_measure", measured)

    fail("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes\nmore")
    result = validate()
    assert result.exit_code == 2
    assert "the small transformer does not fit: DefaultCPUAllocator" in result.stderr
    assert result.stderr.count("\n") == 1
    fail("a fault of ours")
    assert isinstance(validate().exception, RuntimeError)


def test_a_folder_that_cannot_be_made_is_said_before_anything_runs(tmp_path: Path) -> None:
    """Minutes of measuring would be lost."""
    (tmp_path / "file").touch()
    result = validate("--out", str(tmp_path / "file" / "below"))
    assert result.exit_code == 2
    assert "--out" in result.stderr
    assert "Not a directory" in result.stderr
