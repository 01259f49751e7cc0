"""What a task's key depends on: everything that is simulated, and nothing that is only told."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from sweep_jobs import deployed

from sim.setup import Parts
from sim.steptime.profile import SHIPPED
from sim.sweep.code import code_fingerprint, fingerprint, simulating_files
from sim.sweep.key import deployment_key, task_key
from sim.sweep.task import Task

ROOT = Path(__file__).parents[3]


def key(*overrides: str) -> str:
    """Return the key of the small scenario with some keys changed."""
    return deployment_key(deployed(*overrides).parts)


@pytest.mark.parametrize(
    "override",
    [
        "engine.kv_cache_dtype=auto",
        "engine.max_num_seqs=8",
        "engine.scheduling_policy=priority",
        "workload.output_tokens=6",
        "workload.think_s={kind: exponential, mean: 2}",
        "load.start={kind: staggered, over_s: 3}",
        "stop.sessions_per_client=2",
        "warm_start=false",
        "slo.ttft_p99_s=3",
        "frontend={per_request_s: 0.1, per_prompt_token_s: 0}",
        "background={sessions: 1, workload: {shared_prefix_tokens: 0, turns: 1, new_tokens: 9, output_tokens: 2}}",
        "model=Qwen3-8B & profile=l4",
        "profile=l4",
        "profile=roofline",
    ],
)
def test_what_changes_a_simulation_changes_the_key(override: str) -> None:
    """Settings, workload, load, promise (goodput counts by it), model and profile."""
    assert key(*override.split(" & ")) != key()


def test_another_gpu_is_another_key() -> None:
    """By what the catalog says of it."""
    keys = {key(f"gpu={gpu}", "profile=roofline", "engine.kv_cache_tokens=null") for gpu in ("L4", "A100", "H100")}
    assert len(keys) == 3


@pytest.mark.parametrize(
    "override",
    [
        "name=other",
        "description=told differently",
        "seeds=7",
        "load.sessions=[1, 2, 3]",
        "checks={median_error_max: 0.1}",
        "published={source: somebody}",
        "variants=[]",
        "gpu=l4",
    ],
)
def test_what_is_only_told_does_not(override: str) -> None:
    """Nor does how many seeds and which levels: each has a key of its own; an alias is the same GPU."""
    assert key(override) == key()


def test_a_profile_counts_by_its_numbers(tmp_path: Path) -> None:
    """A copy of another name with other notes is the same; another number is not."""
    text = (SHIPPED / "l4-qwen3-4b-fp8.yaml").read_text(encoding="utf-8")
    copy = tmp_path / "mine.yaml"
    copy.write_text(text.replace("name: l4-qwen3-4b-fp8", "name: mine").replace("made_by: ", "made_by: not "), "utf-8")
    assert copy.read_text(encoding="utf-8") != text
    assert key(f"profile={copy}") == key()
    parts = deployed().parts
    assert parts.profile is not None
    slower = msgspec.structs.replace(parts.profile, prefill_tile_rows=parts.profile.prefill_tile_rows + 1)
    assert deployment_key(Parts(parts.scenario, parts.gpu, parts.model, slower)) != key()


def test_level_seed_limit_and_code_are_in_the_key_and_rows_of_turns_are_not() -> None:
    """Metrics are the same whether turns were asked for or not."""
    task = Task(2, 1, None)
    keys = [
        task_key("deployment", task, "code"),
        task_key("other", task, "code"),
        task_key("deployment", task, "other"),
        *(task_key("deployment", other, "code") for other in (Task(3, 1), Task(2, 0), Task(2, 1, "KV cache"))),
    ]
    assert len(set(keys)) == len(keys)
    assert task_key("deployment", Task(2, 1, turns=True), "code") == keys[0]


def test_the_fingerprint_is_of_the_files_contents(tmp_path: Path) -> None:
    """One more byte in any of them is other code; where they lie does not matter."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.py").write_text("x = 1\n", encoding="utf-8")
    first, second = tmp_path / "a" / "one.py", tmp_path / "b" / "one.py"
    assert fingerprint([first]) == fingerprint([second])
    second.write_text("x = 2\n", encoding="utf-8")
    assert fingerprint([first]) != fingerprint([second])
    assert code_fingerprint() == fingerprint(simulating_files())


def test_no_module_that_a_task_runs_is_forgotten() -> None:
    """What a worker imports is fingerprinted, but for reading, checking and shipping of settings."""
    code = (
        "import json, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r}); sys.path.insert(0, {str(ROOT / 'tests' / 'sim')!r})\n"
        "import sim.sweep.remote\n"
        "print(json.dumps([[name, module.__file__] for name, module in sys.modules.items()\n"
        "    if name.split('.')[0] in ('sim', 'workloads') and module.__file__]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    fingerprinted = {str(path) for path in simulating_files()}
    rest = {name for name, file in json.loads(done.stdout) if file not in fingerprinted}
    assert rest == {
        "sim",
        "sim.check_spec",
        "sim.errors",
        "sim.struct_errors",
        "sim.strict_yaml",
        "sim.sweep",
        "sim.sweep.code",
        "sim.sweep.remote",
        "sim.sweep.runner",
        "sim.yaml_reader",
    }
