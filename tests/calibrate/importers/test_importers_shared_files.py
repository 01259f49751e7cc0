"""The shared extracts, where they are: nothing lost, spot values in seconds, and which rows break light speed."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from calibrate.importers import aiconfigurator, helix, llmservingsim, splitwise, vidur, vllm_steps
from calibrate.importers.conversion import convert_files
from calibrate.table_io import Table

DATA = Path(__file__).parents[4] / "shared" / "data" / "measurements"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the shared measurements are not beside this checkout")

AIC, LSS = aiconfigurator.read, llmservingsim.read
ROWS = {  # file: reader, rows a source row becomes (or the columns that hold times), rows in all
    "micro_aic_gemm": (AIC, ("latency_bfloat16_ms", "latency_fp8_ms", "latency_fp8_block_ms"), 45894),
    "micro_aic_attention_prefill": (AIC, ("latency_kv_bfloat16_ms", "latency_kv_fp8_ms"), 48438),
    "micro_aic_attention_decode": (AIC, ("latency_kv_bfloat16_ms", "latency_kv_fp8_ms"), 50846),
    "micro_aic_moe": (AIC, ("latency_ms",), 2853),
    "micro_aic_allreduce": (AIC, ("latency_eager_ms", "latency_cuda_graph_ms"), 690),
    "micro_vidur_linear_layers": (vidur.read, "_median_ms", 20240),
    "micro_splitwise_phase_times": (splitwise.read, ("prompt_time_median_ms", "token_time_median_ms"), 456),
    "micro_helix_one_layer_l4_t4_v100_a100": (helix.read, ("one_layer_time_ms",), 1221),
    "micro_llmservingsim_attention": (LSS, ("time_us",), 28007),
    "micro_llmservingsim_dense": (LSS, ("time_us",), 3726),
    "micro_llmservingsim_per_sequence": (LSS, ("time_us",), 480),
    "micro_llmservingsim_moe": (LSS, ("time_us",), 50),
    "micro_llmservingsim_decode_skew_rtx4090": (LSS, ("t_mean_us", "t_max_us", "t_skew_us"), 9759),
    "micro_llmservingsim_v0_layers": (LSS, ("latency_ns",), 2520),
    "micro_llmservingsim_v0_attention_a6000": (LSS, ("attn_median_ms",), 7201),
    "micro_vllm_step_times_qwen": (vllm_steps.read, ("step_time_p50_ms",), 275),
}


@pytest.mark.parametrize("name", ROWS)
def test_every_time_of_an_extract_becomes_a_row(name: str) -> None:
    """As many rows as filled time cells: none lost, none rejected, none made up."""
    read, times, count = ROWS[name]
    table = read(DATA / f"{name}.csv")
    source = pd.read_csv(DATA / f"{name}.csv")
    columns = [column for column in source if column.endswith(times)] if isinstance(times, str) else list(times)
    assert table.rejected == ()
    assert len(table.frame) == source[columns].notna().to_numpy().sum() == count


def _one(read: Callable[..., Table], name: str, line: int, **like: object) -> pd.Series:
    frame = read(DATA / f"{name}.csv").frame.loc[[line]]
    for column, value in like.items():
        frame = frame[frame[column] == value]
    assert len(frame) == 1
    return frame.iloc[0]


SPOTS = [  # reader, file, line, of several rows the one that, (column, value) as the file has it in its own unit
    (AIC, "micro_aic_gemm", 2, {}, {"gpu": "A100-80GB-SXM", "out_features": 512, "time_s": 4.236e-6}),
    (AIC, "micro_aic_gemm", 4, {}, {"in_features": 1024, "weight_dtype": "bf16", "time_s": 3.761e-6}),
    (AIC, "micro_aic_attention_prefill", 3, {}, {"new_tokens": 16, "num_kv_heads": 1, "time_s": 11.34e-6}),
    (AIC, "micro_aic_attention_decode", 4, {}, {"past_tokens": 63, "sequences": 1, "time_s": 12.42e-6}),
    (AIC, "micro_aic_moe", 3, {}, {"tokens": 2, "model": "Qwen3-30B-A3B", "time_s": 107.6e-6}),
    (AIC, "micro_aic_allreduce", 2, {"graph": "eager"}, {"bytes": 256, "tensor_parallel": 2, "time_s": 44.38e-6}),
    (AIC, "micro_aic_allreduce", 2, {"graph": "cuda_graph"}, {"time_s": 4.867e-6}),
    (vidur.read, "micro_vidur_linear_layers", 2, {"part": "qkv"}, {"out_features": 10240, "time_s": 110e-6}),
    (vidur.read, "micro_vidur_linear_layers", 3, {"part": "down"}, {"in_features": 28672, "time_s": 286.5e-6}),
    (vidur.read, "micro_vidur_linear_layers", 2, {"part": "gate_up"}, {"out_features": 57344, "time_s": 580e-6}),
    (splitwise.read, "micro_splitwise_phase_times", 2, {"part": "prefill"}, {"new_tokens": 128, "time_s": 79.668e-3}),
    (splitwise.read, "micro_splitwise_phase_times", 2, {"part": "decode"}, {"decode_rows": 1, "time_s": 47.612e-3}),
    (splitwise.read, "micro_splitwise_phase_times", 4, {"part": "prefill"}, {"repeats": 15, "time_s": 173.81e-3}),
    (helix.read, "micro_helix_one_layer_l4_t4_v100_a100", 2, {}, {"gpu": "L4", "tokens": 250, "time_s": 8e-3}),
    (helix.read, "micro_helix_one_layer_l4_t4_v100_a100", 4, {}, {"model": "LLaMA-30B", "time_s": 19e-3}),
    (LSS, "micro_llmservingsim_attention", 2, {}, {"gpu": "RTX 4090", "past_tokens": 16, "time_s": 9.3107e-6}),
    (LSS, "micro_llmservingsim_dense", 4, {}, {"part": "activation", "tokens": 3, "time_s": 3.221e-6}),
    (LSS, "micro_llmservingsim_per_sequence", 2, {}, {"operation": "head", "in_features": 4096, "time_s": 1.0969e-3}),
    (LSS, "micro_llmservingsim_moe", 4, {}, {"gpu": "RTX PRO 6000", "experts_active": 16, "time_s": 134.976e-6}),
    (LSS, "micro_llmservingsim_v0_layers", 4, {}, {"part": "q", "gpu": "H100-80GB-SXM", "time_s": 16.078e-6}),
    (
        LSS,
        "micro_llmservingsim_v0_attention_a6000",
        3,
        {},
        {"gpu": "RTX A6000", "past_tokens": 224, "time_s": 13.57e-6},
    ),
]


@pytest.mark.parametrize(("read", "name", "line", "like", "expected"), SPOTS)
def test_values_of_an_extract(
    read: Callable[..., Table], name: str, line: int, like: dict[str, object], expected: dict[str, object]
) -> None:
    """A cell of the file, in seconds and under the table's names."""
    row = _one(read, name, line, **like)
    assert {column: row[column] for column in expected} == pytest.approx(expected)


def test_a_bin_of_steps_holds_the_depths_that_fall_into_it() -> None:
    """Chunks of 1,024: depths 3,072 to 6,144 in the second bin, and only the last chunk in the fifth."""
    frame = vllm_steps.read(DATA / "micro_vllm_step_times_qwen.csv").frame
    assert frame.loc[3, ["past_tokens", "past_tokens_low", "past_tokens_high"]].tolist() == [4608, 3072, 6144]
    assert frame.loc[6, ["past_tokens", "past_tokens_low", "past_tokens_high"]].tolist() == [15360, 15360, 15360]
    assert frame.loc[8, ["sequences", "new_tokens", "past_tokens", "tokens"]].tolist() == [2, 512, 2304, 1032]


def test_published_lines_agree_with_the_depths_read_from_bins() -> None:
    """Intercept and slope of the source, at our depths, give its medians to 4 %: the reading of the bins is theirs."""
    steps = vllm_steps.read(DATA / "micro_vllm_step_times_qwen.csv").frame
    lines = pd.read_csv(DATA / "micro_vllm_step_time_published_fits.csv")
    steps = steps[(steps["part"] == "prefill_partition") & steps["gpu"].isin(["A100-80GB-SXM", "L20"])]
    lines["gpu"] = lines["gpu"].str.replace("-48GB", "")
    steps["partition"] = steps["sequences"].map("{:.0f}x".format) + steps["new_tokens"].map("{:.0f}".format)
    both = steps.merge(lines, on=["gpu", "model", "partition"], validate="many_to_one")
    assert len(both) == len(steps)
    new = both["new_tokens"]
    work = both["sequences"] * new * (both["past_tokens"] + (new + 1) / 2) / 1e6
    said_s = (both["intercept_ms"] + both["slope_ms_per_million_attention_work"] * work) / 1e3
    assert ((said_s / both["time_s"] - 1).abs() < 0.04).all()


def test_public_rows_faster_than_light_are_those_known() -> None:
    """Splitwise at batch 64: 32,768 prompt tokens of a 70B model in 0.8 s on two A100, 0.36 s on two H100.

    And most decode rows of an old A6000 profile, up to twelve times: its sequences can only have shared their blocks.
    """
    broken = [
        (one.path.name, row.line)
        for one in convert_files([DATA / f"{name}.csv" for name in ROWS])
        for row in one.table.rejected
    ]
    old = "micro_llmservingsim_v0_attention_a6000.csv"
    assert [row for row in broken if row[0] != old] == [
        ("micro_splitwise_phase_times.csv", 73),
        ("micro_splitwise_phase_times.csv", 130),
    ]
    assert sum(name == old for name, _ in broken) == 6177
