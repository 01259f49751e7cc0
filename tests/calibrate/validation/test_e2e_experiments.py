"""Rows of experiments and load points, and the names in them."""

from pathlib import Path

import pytest
from e2e_folders import POINT, ROW, folder, write

from calibrate.validation.e2e_deployment import deployment_of
from calibrate.validation.e2e_experiments import Experiment, read_experiments
from calibrate.validation.e2e_names import catalog_gpu, catalog_model, kv_cache_dtype, weight_dtype
from sim.errors import CatalogError, KvcliffError, MeasurementError


def only(path: Path, experiment: dict[str, object], point: dict[str, object] | None = None) -> Experiment:
    """Return the one experiment of a folder."""
    (found,) = read_experiments(folder(path, [experiment], [point or {}]))
    return found


def test_a_row_becomes_typed_settings_and_metrics_in_seconds(tmp_path: Path) -> None:
    """Milliseconds become seconds, percent a share, an empty cell nothing."""
    measured = {"ttft_p50_ms": "80", "kv_usage_max_pct": "50", "request_throughput_rps": "1.9", "e2e_mean_ms": ""}
    found = only(tmp_path, {"max_num_seqs": "64.0", "max_model_len": ""}, measured)
    assert (found.max_num_seqs, found.max_model_len, found.version) == (64, None, (0, 23, 0))
    assert dict(found.points[0].measured) == {"ttft_p50_s": 0.08, "kv_usage_peak": 0.5, "requests_per_s": 1.9}


@pytest.mark.parametrize(
    ("name", "source"),
    [("isim_train_x-tp1-y", "isim_train"), ("do_h200_70b_z", "do_h200"), ("resid_w5_a", "resid"), ("toy", "toy")],
)
def test_a_source_is_what_its_experiments_ids_begin_with(tmp_path: Path, name: str, source: str) -> None:
    """Ids never seen before belong to their family."""
    assert only(tmp_path, {"experiment_id": name}, {"experiment_id": name}).source == source


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("RTX 4090 24GB", "RTX 4090"),
        ("L4-24GB", "L4"),
        ("H200-141GB", "H200"),
        ("A100-40GB", "A100-40GB-SXM"),
        ("RTX PRO 6000 Blackwell Server 96GB", "RTX PRO 6000"),
        ("T4-16GB (g4dn; or so)", "T4"),
    ],
)
def test_gpus_are_found_whatever_memory_their_name_ends_in(text: str, name: str) -> None:
    """A memory size in the name is the catalog's business."""
    assert catalog_gpu(text).name == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("meta-llama/Llama-2-7b-hf", "Llama-2-7b"),
        ("Llama-3.1-70B-Instruct-FP8 (nvidia)", "Llama-3.1-70B"),
        ("Qwen/Qwen3-8B-AWQ", "Qwen3-8B"),
        ("Qwen3-30B-A3B-Instruct-2507", "Qwen3-30B-A3B-Instruct-2507"),
        ("mistralai/Mixtral-8x7B-v0.1", "Mixtral-8x7B"),
    ],
)
def test_models_are_found_whatever_their_quantisation(text: str, name: str) -> None:
    """Organisation and weight format are no part of a shape."""
    assert catalog_model(text).name == name


def test_storage_types_are_read_as_sources_write_them() -> None:
    """16 bits are one type to the step times."""
    written = ("float16/bfloat16 (unquantised)", "awq int4 (Marlin)", "fp8", "FP16", "", "unstated (16-bit)")
    assert [weight_dtype(text) for text in written] == ["bf16", "int4", "fp8", "bf16", "bf16", "bf16"]
    assert [kv_cache_dtype(text) for text in ("auto (16-bit)", "fp8_e4m3", "")] == ["auto", "fp8_e4m3", "auto"]
    with pytest.raises(CatalogError, match="'mxfp4' is not one of"):
        weight_dtype("mxfp4")


@pytest.mark.parametrize(
    ("version", "rules"), [("0.11.0", (False, False)), ("0.15.1 (or so)", (True, False)), ("0.19.0", (True, True))]
)
def test_scheduler_rules_follow_the_version(tmp_path: Path, version: str, rules: tuple[bool, bool]) -> None:
    """Asynchronous from 0.14, whole prompts admitted from 0.19."""
    config = deployment_of(only(tmp_path, {"engine_version": version}), ()).setup.scheduler
    assert (config.async_scheduling, config.scheduler_reserve_full_isl) == rules


def test_a_stated_kv_size_is_taken_and_a_missing_one_comes_from_the_ledger(tmp_path: Path) -> None:
    """The second says so."""
    stated = deployment_of(only(tmp_path / "a", {}), ())
    assert (stated.setup.num_gpu_blocks, stated.notes) == (2500, ())
    derived = deployment_of(only(tmp_path / "b", {"kv_cache_tokens": ""}), ())
    assert derived.setup.num_gpu_blocks > 2500
    assert "by the memory ledger" in derived.notes[0]


def test_data_parallel_engines_share_an_endpoint(tmp_path: Path) -> None:
    """The note names them; the GPUs must add up."""
    assert deployment_of(only(tmp_path, {"num_gpus": "2", "notes": "DP2 + expert parallel"}), ()).engines == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"engine": "vLLM V0 engine"}, "is not vLLM V1"),
        ({"replicas": "8"}, "8 replicas behind a router"),
        ({"num_gpus": "4"}, "4 GPUs where"),
        ({"notes": "CPU offload of KV enabled"}, "offload"),
        ({"model": "Qwen3-14C"}, "did you mean 'Qwen3-14B'"),
        ({"gpu": "H1000"}, "did you mean 'H100'"),
        ({"kv_cache_dtype": "fp9"}, "'fp9' is not one of"),
    ],
)
def test_what_cannot_be_rebuilt_says_why(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    """One line each."""
    with pytest.raises(KvcliffError, match=reason):
        deployment_of(only(tmp_path, change), ())


@pytest.mark.parametrize("number", ["nan", "-1", "inf", "many"])
def test_a_cell_that_is_no_number_is_named_with_its_line(tmp_path: Path, number: str) -> None:
    """File, line, column and what stands there."""
    with pytest.raises(MeasurementError, match=rf"e2e_points.csv:2: requests '{number}' must be a finite number"):
        only(tmp_path, {}, {"requests": number})


def test_a_missing_column_or_file_or_folder_is_an_error(tmp_path: Path) -> None:
    """Each names what it misses."""
    with pytest.raises(MeasurementError, match="there is no such folder"):
        read_experiments(tmp_path / "nowhere")
    with pytest.raises(MeasurementError, match=r"e2e_points.csv: No such file"):
        read_experiments(tmp_path)
    write(tmp_path / "e2e_points.csv", [POINT])
    write(tmp_path / "e2e_experiments.csv", [{key: text for key, text in ROW.items() if key != "model"}])
    with pytest.raises(MeasurementError, match=r"e2e_experiments.csv:1: column 'model' is missing"):
        read_experiments(tmp_path)


def test_a_point_of_an_unknown_experiment_is_an_error(tmp_path: Path) -> None:
    """With the nearest id that there is."""
    with pytest.raises(MeasurementError, match=r"'toy_b' is not in .* \(did you mean 'toy_a'\?\)"):
        only(tmp_path, {}, {"experiment_id": "toy_b"})
