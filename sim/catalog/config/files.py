"""Reads config.json and what lies beside it: hf_quant_config.json and the safetensors index."""

import json
from pathlib import Path
from typing import Any

from sim.errors import CatalogError

_MOST_BYTES = {"config.json": 16 * 2**20, "model.safetensors.index.json": 64 * 2**20}
_INDEX, _QUANTIZATION = "model.safetensors.index.json", "hf_quant_config.json"


def read_config_file(path: Path) -> tuple[str, dict[str, Any], int | None]:
    """Return the file's name, what it holds, and the bytes of the checkpoint if its index lies beside it.

    Raises CatalogError, naming the file, for one that is missing, too large, or no JSON object.
    """
    file = path / "config.json" if path.is_dir() else path
    config = _object(file)
    beside = file.with_name(_QUANTIZATION)
    if beside.is_file() and not config.get("quantization_config"):
        config["quantization_config"] = {"quant_method": "modelopt", **_object(beside)}
    index = file.with_name(_INDEX)
    return str(file), config, _total_size(index) if index.is_file() else None


def _object(file: Path) -> dict[str, Any]:
    most = _MOST_BYTES.get(file.name, _MOST_BYTES["config.json"])
    try:
        with file.open("rb") as stream:
            raw = stream.read(most + 1)
    except (OSError, ValueError) as error:
        raise CatalogError(f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if len(raw) > most:
        raise CatalogError(f"{file}: is larger than {most // 2**20} MiB, too large for a config")
    try:
        found = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise CatalogError(f"{file}: is not UTF-8 text (byte {error.start})") from error
    except RecursionError as error:
        raise CatalogError(f"{file}: is nested too deeply") from error
    except ValueError as error:
        raise CatalogError(f"{file}: is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise CatalogError(f"{file}: must hold one JSON object, not {type(found).__name__}")
    return found


def _total_size(file: Path) -> int:
    metadata = _object(file).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    if isinstance(total, bool) or not isinstance(total, int) or not 0 < total < 2**50:
        raise CatalogError(f"{file}: metadata.total_size must be a whole number of bytes above 0")
    return total
