"""Environment variables that touch memory. Source: vLLM 0.9.2 to 0.33.0, envs.py; SGLang 0.5.23, environ.py."""

from collections.abc import Mapping

from sim.serve_command.arguments import Given
from sim.serve_command.docker import gpu_count
from sim.serve_command.errors import CommandError, RuleError
from sim.serve_command.flags import within
from sim.serve_command.shell import Word
from sim.serve_command.values import COMMA_WHOLES, SWITCH, WORD, Kind, Takes, choice, whole
from sim.struct_errors import show


def _devices(text: str) -> int | None:
    """Count the GPUs in a list of them; `all` and `void` say nothing about how many."""
    if text.strip() in {"", "-1", "none", "NoDevFiles"}:
        raise RuleError("hides every GPU")
    return None if text in {"all", "void"} else gpu_count(f"device={text.replace(' ', '')}")


DEVICES = Kind(Takes.ONE, _devices)
BYTES = whole(0, 10**12)
STATE_DTYPE = choice("float32", "float16", "bfloat16")
VARIABLES: dict[str, tuple[Kind, str]] = {
    "CUDA_VISIBLE_DEVICES": (DEVICES, "visible_gpus"),
    "HIP_VISIBLE_DEVICES": (DEVICES, "visible_gpus"),
    "ROCR_VISIBLE_DEVICES": (DEVICES, "visible_gpus"),
    "NVIDIA_VISIBLE_DEVICES": (DEVICES, "visible_gpus"),
    "VLLM_USE_V1": (SWITCH, "use_v1"),
    "VLLM_ATTENTION_BACKEND": (WORD, "attention_backend"),
    "VLLM_KV_CACHE_LAYOUT": (choice("NHD", "HND"), "kv_cache_layout"),
    "VLLM_MLA_DISABLE": (SWITCH, "disable_mla"),
    "VLLM_PP_LAYER_PARTITION": (COMMA_WHOLES, "pp_layer_partition"),
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": (SWITCH, "allow_long_max_model_len"),
    "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": (SWITCH, "allow_long_max_model_len"),
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": (SWITCH, "estimate_cudagraphs"),
    "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": (SWITCH, "allow_hybrid_chunked_local"),
    "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE": (BYTES, "flashinfer_workspace_bytes"),
    "SGLANG_FLASHINFER_WORKSPACE_SIZE": (BYTES, "flashinfer_workspace_bytes"),
    "VLLM_FUSED_MOE_CHUNK_SIZE": (whole(1, 10**9), "fused_moe_chunk_tokens"),
    "SGLANG_MAMBA_SSM_DTYPE": (STATE_DTYPE, "mamba_ssm_cache_dtype"),
    "SGLANG_MAMBA_CONV_DTYPE": (STATE_DTYPE, "mamba_cache_dtype"),
}


def read_environment(environment: Mapping[str, Word]) -> list[Given]:
    """Return the settings in an environment.

    Raises CommandError for a value that cannot be and for a name that is nearly one of the variables that matter.
    """
    given = []
    for name, word in environment.items():
        if name not in VARIABLES:
            _refuse_slip(name, word)
            continue
        kind, target = VARIABLES[name]
        if not word.text and kind is not DEVICES:
            continue  # an empty variable is an unset one
        try:
            value = kind.read(word.text)
        except RuleError as problem:
            raise CommandError(f"{word.place}: {name}={show(word.text)} {problem}") from None
        given.append(Given(target, value, name, word.place))
    return given


def _refuse_slip(name: str, word: Word) -> None:
    if name.startswith(("VLLM_", "SGLANG_", "CUDA_VIS")):
        near = [known for known in VARIABLES if within(name, known, 2)]
        if near:
            raise CommandError(f"{word.place}: unknown variable {name} (did you mean {near[0]}?)")
