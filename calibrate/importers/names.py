"""Publishers' names of GPUs, models and number types, as the catalog spells them.

What the catalog does not know keeps the publisher's name: a row about an unknown card is still a row.
"""

from functools import lru_cache
from pathlib import Path

from calibrate.known import known_gpu, known_model

_GPUS = {  # folded: lower case, without blanks, hyphens, underscores and a leading "nvidia"
    "a100sxm": "A100-80GB-SXM",
    "a100sxm480gb": "A100-80GB-SXM",
    "a100pcie": "A100-80GB-PCIe",
    "h10080gbhbm3": "H100-80GB-SXM",
    "b200sxm": "B200",
    "l2048gb": "L20",
    "rtxpro6000server": "RTX PRO 6000",
    "rtxpro6000blackwellserveredition": "RTX PRO 6000",
    "rtxpro6000blackwellworkstationedition": "RTX PRO 6000",
    "a40": "A40",
    "a6000": "RTX A6000",
    "rtx3090": "RTX 3090",
    "v100": "V100",
}
_MODELS = {  # the shape that ran, under the catalog's name for that shape
    "llama27bhf": "Llama-2-7b",
    "llama27b": "Llama-2-7b",
    "llama270bhf": "Llama-2-70b",
    "llama270b": "Llama-2-70b",
    "metallama38b": "Llama-3.1-8B",
    "metallama370b": "Llama-3.1-70B",
    "llama130b": "LLaMA-30B",
    "bloom176b": "BLOOM-176B",
    "qwen330ba3binstruct2507": "Qwen3-30B-A3B",
}
_DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "half": "fp16",
    "fp8_e4m3": "fp8",
    "int8_wo": "int8",
    "int4_wo": "int4",
    "w4a16_mxfp4": "mxfp4",
}
VARIANTS = ("bf16", "fp16", "fp8", "int8", "int4")


@lru_cache(maxsize=256)
def gpu_name(name: str) -> str:
    """Return the catalog's name of a GPU, or the name itself where there is none."""
    return _known_gpu(name) or name


@lru_cache(maxsize=256)
def model_name(name: str) -> str:
    """Return the catalog's name of a model of that shape, or the name without its organisation."""
    short = name.rsplit("/", maxsplit=1)[-1]
    wanted = _MODELS.get(_fold(short), short)
    known = known_model(wanted)
    return wanted if known is None else known.name


def dtype_name(name: str) -> str:
    """Return the table's name of a number type: bfloat16 is bf16, unknown ones stay."""
    word = name.strip().lower()
    return _DTYPES.get(word, word)


def gpu_from_path(path: Path) -> str | None:
    """Return the GPU named by the nearest folder that names one."""
    return next((gpu for part in reversed(path.parts[:-1]) if (gpu := _known_gpu(part))), None)


def model_from_path(path: Path) -> str | None:
    """Return the model named by the folders below the one that names the GPU, variants and tp folders aside."""
    folders = path.parts[:-1]
    at = next((place for place in reversed(range(len(folders))) if _known_gpu(folders[place])), None)
    if at is None:
        return None
    below = [part for part in folders[at + 1 :] if part not in VARIANTS and tensor_parallel_of(part) is None]
    return model_name(below[-1]) if below else None


def variant_from_path(path: Path) -> str:
    """Return the number type of weights a folder names, or an empty string."""
    return next((part for part in reversed(path.parts[:-1]) if part in VARIANTS), "")


def tensor_parallel_from_path(path: Path) -> int | None:
    """Return the number in a folder called tp2 and the like."""
    return next((size for part in reversed(path.parts[:-1]) if (size := tensor_parallel_of(part))), None)


def tensor_parallel_of(folder: str) -> int | None:
    """Return 2 for `tp2`, None for anything else."""
    digits = folder[2:]
    return int(digits) if folder.startswith("tp") and digits.isascii() and digits.isdigit() else None


def _known_gpu(name: str) -> str | None:
    folded = _fold(name).removeprefix("nvidia")
    if folded in _GPUS:
        return _GPUS[folded]
    known = known_gpu(folded)
    return None if known is None else known.name


def _fold(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter not in " -_.")
