"""What a pasted command asks: settings, notes, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import kvcliff


def memory(*arguments: str | Path) -> dict[str, Any]:
    """Return what `kvcliff memory --json` prints."""
    result = kvcliff("memory", *arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def test_a_command_in_one_string_in_words_and_in_a_file_is_the_same(tmp_path: Path) -> None:
    """However it is pasted; our own options may stand anywhere."""
    text = "vllm serve Qwen/Qwen3-14B-AWQ --max-model-len 32k -tp 2"
    path = tmp_path / "start.sh"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    whole = memory(text, "--gpu", "L4")
    assert whole == memory("--gpu", "L4", *text.split()) == memory(path, "--gpu", "L4")
    assert (whole["max_model_len"], whole["tensor_parallel_size"]) == (32_000, 2)


def test_an_image_tag_is_the_version() -> None:
    """And what `--gpus` before the image means is the container's business."""
    image = "vllm/vllm-openai:v0.11.2"
    words = ["docker", "run", "--gpus", "all", image, "--model", "Qwen/Qwen3-8B", "--gpu", "L40S", "--gpus", "2"]
    it = memory(*words)
    assert (it["vllm_version"], it["gpu"]) == ("0.11.2", "L40S")
    assert any("uses 1 of 2 GPUs" in note for note in it["notes"])


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        ("-tp 2", "bytes_per_token", 73_728),
        ("--kv-cache-dtype fp8_e5m2", "bytes_per_token", 73_728),
        ("--kv-cache-dtype nvfp4", "bytes_per_token", 41_472),
        ("--dtype float32", "bytes_per_token", 294_912),
        ("--block-size 32", "block_size", 32),
        ("--num-gpu-blocks-override 5000", "num_gpu_blocks", 5_000),
        ("--kv-cache-memory-bytes 9G", "kv_bytes", 9 * 2**30),
        ("--max-model-len auto --gpu-memory-utilization 0.85", "starts", True),
        ("--max-num-seqs 8", "max_num_seqs", 8),
        ("--performance-mode throughput", "max_num_batched_tokens", 4_096),
        ("--hf-overrides.max_position_embeddings 20000", "max_model_len", 20_000),
        ("--rope-scaling.rope_type yarn --rope-scaling.factor 2.0", "max_model_len", 81_920),
    ],
)
def test_flags_reach_the_ledger(words: str, key: str, value: object) -> None:
    """Qwen3-8B takes 147,456 bytes a token on one GPU, in 16 bits."""
    assert memory("--model", "Qwen/Qwen3-8B", "--gpu", "L40S", *words.split())[key] == value


def test_auto_fit_takes_what_fits() -> None:
    """As vLLM's -1 does: the longest that starts, at most the model's own."""
    it = memory("--model", "Qwen/Qwen3-8B", "--gpu", "L4", "--max-model-len", "-1")
    assert it["starts"]
    assert it["max_model_len"] == it["largest_max_model_len"] < 40_960


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("vllm serve Qwen/Qwen3-8B", "--gpu is missing"),
        ("vllm serve --gpu L4", "names no model"),
        ("vllm serve Qwen/Qwen3-8B --gpu L4 --max-model-length 5", "did you mean"),
        ("vllm serve Qwen/Qwen3-8B --gpu L4 --kv-cache-fraction 5", "--kv-cache-fraction"),
        ("vllm serve Qwen/Qwen3-8B --gpu L4 -tp 4 --gpus 2", "takes 4 GPUs, more than the 2"),
        ("vllm serve Qwen/Qwen3-8B --gpu L4 -tp 3", "must divide"),
        ("vllm serve Qwen/Qwen3-8B --gpu L4 --kv-cache-dtype ultraquant_4bit", "kv_cache_dtype 'ultraquant_4bit'"),
        ('vllm serve Qwen/Qwen3-8B --gpu L4 --hf-overrides {"num_hidden_layers":1}', "changes num_hidden_layers"),
        ("vllm serve Qwen/Qwen3-8B --gpu L4 --out kv.pdf", "must end in .png or .svg"),
        ("vllm serve Qwen/Qwen3-8B --gpu L4 --set a=b", "none is given"),
        ("vllm serve Qwen/Qwen3-8B --gpu L4 --compare --json", "nothing else"),
    ],
)
def test_what_cannot_be_is_one_line(words: str, said: str) -> None:
    """Exit code 2, nothing on stdout."""
    result = kvcliff("memory", *words.split())
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert said in result.stderr


def test_comparisons_hold_one_document_each(tmp_path: Path) -> None:
    """The first as given, the others with their flags; drawn where asked."""
    picture = tmp_path / "kv.svg"
    flags = ("--model", "Qwen/Qwen3-8B", "--gpu", "L40S", "--compare", "--kv-cache-dtype fp8", "--out", str(picture))
    result = kvcliff("memory", *flags, "--json")
    given, fp8 = json.loads(result.stdout)["compared"]
    assert fp8["num_gpu_blocks"] == pytest.approx(2 * given["num_gpu_blocks"], abs=1)
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    text = " ".join(kvcliff("memory", *flags[:-2]).stdout.split())
    assert "x 2.00" in text


def test_experts_and_replicas_share_the_memory() -> None:
    """Experts are dealt out over tensor and data parallel ranks; each replica has a KV cache of its own."""
    one = memory("--model", "deepseek-ai/DeepSeek-V3", "--gpu", "H200", "-tp", "8")
    spread = memory(
        "--model", "deepseek-ai/DeepSeek-V3", "--gpu", "H200", "-tp", "1", "-dp", "8", "--enable-expert-parallel"
    )
    assert one["bytes_per_token"] == spread["bytes_per_token"] == 70_272  # the latent is whole on every rank
    assert spread["starts"]
    assert 8 * spread["max_concurrency"] > 4 * one["max_concurrency"]


def test_sglang_spreads_over_ranks_as_it_is_told() -> None:
    """Named in the document and the title; heads must be shareable."""
    command = ["python", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-8B", "--gpu", "L4", "--tp"]
    assert memory(*command, "2")["tensor_parallel_size"] == 2
    assert "Qwen3-8B on 2 x L4 (TP 2), SGLang" in kvcliff("memory", *command, "2").stdout
    refused = kvcliff("memory", *command, "3")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "tensor_parallel_size 3 must divide the 32 attention heads" in refused.stderr


def test_of_several_servers_the_first_is_named(tmp_path: Path) -> None:
    """A compose file may start more than one."""
    path = tmp_path / "compose.yml"
    line = '  {0}: {{image: "vllm/vllm-openai:v0.11.0", command: "--model Qwen/Qwen3-{1}"}}\n'
    path.write_text("services:\n" + line.format("a", "8B") + line.format("b", "4B"), encoding="utf-8")
    it = memory(path, "--gpu", "L40S")
    assert it["model"] == "Qwen3-8B"
    assert "several servers are started here: this is of the first" in it["notes"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["vllm serve Qwen/Qwen3-8B --gpu L4"], "--gpu is kvcliff's own, no flag of vllm"),
        (["--model", "Qwen3-8B", "--gpu", "L4", "--free-at-start", "99"], "99.00 GiB cannot be free at start: L4 has"),
        (["--model", "Qwen3-8B", "--gpu", "L4", "--rope-scaling", '{"factor": -2}'], "rope_scaling.factor -2 must be"),
    ],
)
def test_what_is_out_of_place_is_one_line(words: list[str], said: str) -> None:
    """Our option within the quotes, more memory than there is, a context that shrinks below nothing."""
    refused = kvcliff("memory", *words)
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert said in refused.stderr
