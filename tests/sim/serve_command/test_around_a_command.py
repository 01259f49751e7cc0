"""Manifests, the environment, configuration files, and what is told beside the settings."""

from pathlib import Path

from command_settings import settings

from sim.serve_command import Speculative, read_command

KUBERNETES = """
apiVersion: v1
kind: Service
metadata: {name: llm}
---
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: proxy
          image: nginx:1.27
          args: ["-g", "daemon off;"]
        - name: vllm
          image: vllm/vllm-openai:v0.10.0
          command: ["/bin/sh", "-c"]
          args:
            - >
              vllm serve mistralai/Mistral-7B-Instruct-v0.3 --trust-remote-code
              --enable-chunked-prefill --max_num_batched_tokens 1024
          env:
            - name: HF_TOKEN
              valueFrom: {secretKeyRef: {name: hf, key: token}}
            - {name: VLLM_KV_CACHE_LAYOUT, value: NHD}
          resources:
            limits: {cpu: "10", nvidia.com/gpu: "2"}
"""
COMPOSE = """
services:
  web:
    image: open-webui
  vllm:
    image: vllm/vllm-openai:v0.12.0
    command: --model m --max-model-len ${LEN:-4096}
    environment:
      - VLLM_ATTENTION_BACKEND=FLASH_ATTN
    deploy:
      resources:
        reservations:
          devices:
            - {driver: nvidia, device_ids: ["0", "3"], capabilities: [gpu]}
"""


def test_a_kubernetes_manifest_starts_a_server() -> None:
    """The container that runs a server is found among others, with its environment and GPUs."""
    assert settings(read_command(KUBERNETES)) == {
        "model": "mistralai/Mistral-7B-Instruct-v0.3",
        "engine_version": "0.10.0",
        "enable_chunked_prefill": True,
        "max_num_batched_tokens": 1024,
        "kv_cache_layout": "NHD",
        "visible_gpus": 2,
    }


def test_a_compose_file_starts_a_server() -> None:
    """A service's command is cut as the shell cuts it; its variables come from around it."""
    command = read_command(COMPOSE, {"LEN": "2048", "VLLM_USE_V1": "1"})
    assert settings(command) == {
        "model": "m",
        "engine_version": "0.12.0",
        "max_model_len": 2048,
        "attention_backend": "FLASH_ATTN",
        "visible_gpus": 2,
    }


def test_words_that_a_shell_has_cut_are_read_as_they_are() -> None:
    """A word with blanks and quotes stays one."""
    words = ["vllm", "serve", "/models/my model", "--hf-overrides", '{"a": "b c"}', "-tp", "2"]
    assert settings(read_command(words)) == {
        "model": "/models/my model",
        "hf_overrides": {"a": "b c"},
        "tensor_parallel_size": 2,
    }


def test_one_word_is_a_whole_command() -> None:
    """A command quoted as a whole is text to cut."""
    assert read_command(["vllm serve m -tp 2"]).tensor_parallel_size == 2


def test_the_environment_around_counts_unless_the_command_sets_it() -> None:
    """Variables in the command go before those around it, and flags before both."""
    around = {"VLLM_ATTENTION_BACKEND": "A", "VLLM_USE_V1": "0", "PATH": "/bin", "VLLM_USE_V2": "?"}
    assert read_command("vllm serve m", around).attention_backend == "A"
    assert read_command("VLLM_ATTENTION_BACKEND=B vllm serve m", around).attention_backend == "B"
    assert read_command("vllm serve m --attention-backend C", around).attention_backend == "C"


def test_the_last_of_two_values_counts_and_is_told() -> None:
    """As in argparse; the same value twice is nothing to tell."""
    command = read_command("vllm serve m --max-model-len 10 --max-num-seqs 4 --max-model-len 20 --max-num-seqs 4")
    assert command.max_model_len == 20
    assert command.notes == ("--max-model-len 10 (word 4) gives way to --max-model-len 20 (word 8)",)


def test_flags_that_cannot_matter_are_named() -> None:
    """Known and unknown ones; an unknown one takes the word after it along."""
    command = read_command("vllm serve --frobnicate x --port 1 --frobnicate=y m --log-level INFO")
    assert command.model == "m"
    assert command.ignored == ("--frobnicate", "--port", "--log-level")
    assert len(command.notes) == 1
    assert "--frobnicate is unknown" in command.notes[0]


def test_flags_that_take_memory_of_their_own_are_told() -> None:
    """The ledger does not account for them, and says so."""
    command = read_command("vllm serve m --enable-sleep-mode --enable-eplb")
    assert [note.split()[0] for note in command.notes] == ["--enable-sleep-mode", "--enable-eplb"]


def test_a_shortened_flag_is_told() -> None:
    """As argparse has it, the beginning of one flag's name will do."""
    assert read_command("vllm serve m --gpu-mem 0.5").notes == ("--gpu-mem is read as --gpu-memory-utilization",)


def test_too_few_visible_gpus_are_told() -> None:
    """Ranks are tensor times pipeline times data."""
    command = read_command("CUDA_VISIBLE_DEVICES=0,1 vllm serve m -tp 2 -pp 2")
    assert command.notes == ("4 GPUs are needed and 2 are visible",)


def test_a_configuration_file_yields_to_the_command_line(tmp_path: Path) -> None:
    """Its keys are flags: numbers, switches, lists and mappings."""
    config = tmp_path / "serve.yaml"
    config.write_text(
        "model: m\nmax_model_len: 128K\ntensor-parallel-size: 4\nenforce-eager: false\nenable-prefix-caching: false\n"
        "cudagraph-capture-sizes: [1, 2]\nspeculative-config: {method: mtp, num_speculative_tokens: 1}\nport: 1\n"
    )
    command = read_command(f"vllm serve --config {config} -tp 2")
    assert settings(command) == {
        "model": "m",
        "max_model_len": 131072,
        "tensor_parallel_size": 2,
        "enforce_eager": False,
        "enable_prefix_caching": False,
        "cudagraph_capture_sizes": (1, 2),
        "speculative": Speculative(method="mtp", num_speculative_tokens=1),
    }
    assert command.ignored == ("--port",)
    assert command.notes == (f"--tensor-parallel-size 4 ({config}:3) gives way to -tp 2 (word 5)",)
