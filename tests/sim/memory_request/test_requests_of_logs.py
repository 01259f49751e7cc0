"""A log's figures go before the estimate, and carry into what-ifs on the same GPU and model."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import kvcliff

LOGS = Path(__file__).parents[1] / "startup_log" / "logs"
LOG = """\
INFO 04-19 10:00:00 [api_server.py:1] vLLM API server version 0.19.0
INFO 04-19 10:00:01 [core.py:103] Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3-8B', \
dtype=torch.bfloat16, max_seq_len=32768, tensor_parallel_size=1, pipeline_parallel_size=1, enforce_eager=False, \
kv_cache_dtype=auto, enable_prefix_caching=True
GPU 0: NVIDIA L40S
INFO 04-19 10:00:20 [gpu_model_runner.py:4000] Model loading took 15.27 GiB memory and 3.2 seconds
INFO 04-19 10:00:40 [gpu_worker.py:360] Available KV cache memory: 22.50 GiB
INFO 04-19 10:00:40 [kv_cache_utils.py:1319] GPU KV cache size: 163,840 tokens
INFO 04-19 10:00:40 [kv_cache_utils.py:1324] Maximum concurrency for 32,768 tokens per request: 5.00x
INFO 04-19 10:00:50 [gpu_worker.py:500] Free memory on device cuda:0 (43.90/44.39 GiB) on startup. Desired GPU memory \
utilization is (0.9, 39.95 GiB). Actual usage is 15.27 GiB for weight, 2.05 GiB for peak activation, 0.13 GiB for \
non-torch memory, and 0.60 GiB for CUDAGraph memory.
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Write the log of an 8B model on an L40S."""
    path = tmp_path / "startup.log"
    path.write_text(LOG, encoding="utf-8")
    return path


def memory(*arguments: str | Path) -> dict[str, Any]:
    """Return what `kvcliff memory --json` prints."""
    result = kvcliff("memory", *arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def test_a_log_alone_is_told_as_it_was(log: Path) -> None:
    """Blocks, tokens and every term it prints; each says that it is the log's."""
    it = memory("--log", log)
    assert (it["num_gpu_blocks"], it["kv_cache_tokens"], it["max_concurrency"]) == (10_240, 163_840, 5.0)
    assert (it["gpu"], it["model"], it["vllm_version"]) == ("L40S", "Qwen3-8B", "0.19.0")
    gib = {name: round(it[f"{name}_bytes"] / 2**30, 2) for name in ("weight", "activation", "non_torch", "cuda_graph")}
    assert gib == {"weight": 15.27, "activation": 2.05, "non_torch": 0.13, "cuda_graph": 0.6}
    of_the_log = {name for name, origin in it["provenance"].items() if origin == "log"}
    terms = {"weight_bytes", "activation_bytes", "non_torch_bytes", "cuda_graph_bytes", "kv_bytes"}
    assert of_the_log == terms | {"total_visible_bytes"}


def test_a_what_if_keeps_the_overhead(log: Path) -> None:
    """fp8 KV doubles the blocks; more of the GPU adds its share; a larger batch moves the peak as the estimate does."""
    same = memory("--log", log, "--max-model-len", "8192")
    assert same["num_gpu_blocks"] == pytest.approx(10_240, rel=0.001)
    fp8 = memory("--log", log, "--kv-cache-dtype", "fp8")
    assert fp8["num_gpu_blocks"] == pytest.approx(2 * 10_240, rel=0.001)
    more = memory("--log", log, "--gpu-memory-utilization", "0.95")
    assert more["kv_bytes"] - same["kv_bytes"] == pytest.approx(0.05 * 44.39 * 2**30, rel=0.001)
    assert memory("--log", log, "--max-num-batched-tokens", "65536")["kv_bytes"] < same["kv_bytes"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--gpu", "H100"), "is of a NVIDIA L40S: what it shows says nothing of H100-80GB-SXM"),
        (("--model", "Qwen3-14B"), "is of Qwen/Qwen3-8B: what it shows says nothing of Qwen3-14B"),
        (("--kv-cache-dtype", "fp9"), "'fp9' is not one of"),
    ],
)
def test_a_log_says_nothing_of_another_gpu_or_model(log: Path, flags: tuple[str, ...], said: str) -> None:
    """One line, exit code 2."""
    result = kvcliff("memory", "--log", log, *flags)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert said in result.stderr


def test_a_log_whose_blocks_are_of_another_layout_is_refused(tmp_path: Path) -> None:
    """Fewer tokens from the same bytes: not this model, or not this KV type."""
    path = tmp_path / "other.log"
    path.write_text(LOG.replace("163,840 tokens", "81,920 tokens"), encoding="utf-8")
    result = kvcliff("memory", "--log", path)
    assert result.exit_code == 2
    assert "294,912 bytes a token, and Qwen3-8B takes 147,456" in result.stderr


def test_a_log_that_ends_too_early_says_so(tmp_path: Path) -> None:
    """Before the KV cache was sized."""
    path = tmp_path / "cut.log"
    path.write_text(LOG.partition("INFO 04-19 10:00:40")[0], encoding="utf-8")
    result = kvcliff("memory", "--log", path)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "before" in result.stderr


def test_a_scenario_may_name_a_log(log: Path) -> None:
    """Its KV cache is the log's; what it sets otherwise is a what-if."""
    scenario = log.with_name("mine.yaml")
    scenario.write_text(
        "name: mine\ngpu: L40S\nmodel: Qwen3-8B\nweight_dtype: auto\nprofile: roofline\n"
        "engine: {max_model_len: 32768, startup_log: startup.log}\n"
        "workload: {shared_prefix_tokens: 1000, turns: 2, new_tokens: 100, output_tokens: 10}\n"
        "load: {kind: closed, sessions: [1]}\nstop: {sessions_per_client: 1}\nseeds: 1\n",
        encoding="utf-8",
    )
    assert memory(scenario)["num_gpu_blocks"] == 10_240
    ran = json.loads(kvcliff("run", scenario, "--quick", "--json").stdout)
    assert ran["memory"]["num_gpu_blocks"] == 10_240
    fp8 = json.loads(kvcliff("run", scenario, "--quick", "--json", "--set", "engine.kv_cache_dtype=fp8").stdout)
    assert fp8["memory"]["num_gpu_blocks"] == pytest.approx(20_480, rel=0.001)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("sglang_0_3", 444_500), ("sglang_0_4_mla_tp2", 3_309_312), ("sglang_0_5_hybrid_draft", 171_008)],
)
def test_sglang_logs_are_told_too(name: str, tokens: int) -> None:
    """The pool as printed."""
    it = memory("--log", LOGS / f"{name}.log")
    assert (it["engine"], it["kv_cache_tokens"]) == ("sglang", tokens)


SHORT_LOG = """\
INFO 01-02 10:00:05 [api_server.py:1839] vLLM API server version 0.11.0
INFO 01-02 10:00:05 [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-8B', 'max_model_len': 16000}
INFO 01-02 10:00:30 [gpu_model_runner.py:2653] Model loading took 16.5 GiB and 5.1 seconds
INFO 01-02 10:00:40 [gpu_worker.py:298] Available KV cache memory: 2.30 GiB
INFO 01-02 10:00:40 [kv_cache_utils.py:1087] GPU KV cache size: TOKENS tokens
"""


def test_what_a_log_leaves_is_no_estimate(tmp_path: Path) -> None:
    """Weights and KV are printed: the rest of the budget is known too, now and in a what-if."""
    log = tmp_path / "short.log"
    log.write_text(SHORT_LOG.replace("TOKENS", "16,736"), encoding="utf-8")
    for changes, blocks in (((), 1_046), (("--kv-cache-dtype", "fp8"), 2_093)):
        it = memory("--log", log, "--gpu", "L4", *changes)
        parts = {part["name"]: (round(part["bytes"] / 2**30, 2), part["from"]) for part in it["parts"]}
        assert parts["weights"] == (16.5, "log")
        size, origin = parts["activation peak, outside torch"]
        assert (size, origin) == (pytest.approx(it["budget_bytes"] / 2**30 - 16.5 - 2.3, abs=0.01), "log")
        assert it["num_gpu_blocks"] == blocks


def test_a_log_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    """Tokens that the printed memory cannot hold."""
    log = tmp_path / "short.log"
    log.write_text(SHORT_LOG.replace("TOKENS", "99,999"), encoding="utf-8")
    result = kvcliff("memory", "--log", log, "--gpu", "L4")
    assert result.exit_code == 2
    assert "2.30 GiB in 6,249 blocks are 24,700 bytes a token, and Qwen3-8B takes 147,456" in result.stderr
