"""The storage types that are timed, and what an element costs. Names as in the measurement table."""

from sim.errors import CalibrationError, one_of

PLAIN_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}  # what activations may be
WEIGHT_BYTES = {**PLAIN_BYTES, "fp8": 1.0, "int8": 1.0, "int4": 0.5}  # without scales
INT4_WEIGHT_GROUP = 32  # inputs that share a scale and a zero point, 16 bits each
KV_DTYPES = (*PLAIN_BYTES, "fp8", "int8", "int4")
_SCALE_BYTES = {"int8": 2, "int4": 4}  # beside each token's key or value in one head: scale; scale and zero point


def weight_bytes(weight_dtype: str, out_features: int, in_features: int) -> float:
    """Return the bytes of one weight matrix with its scales."""
    scales = 4 / INT4_WEIGHT_GROUP if weight_dtype == "int4" else 0.0
    return out_features * in_features * (WEIGHT_BYTES[weight_dtype] + scales)


def kv_head_bytes(kv_dtype: str, head_dim: int) -> float:
    """Return the bytes of one token's key and value in one KV head, with their scales."""
    element = PLAIN_BYTES.get(kv_dtype) or WEIGHT_BYTES[kv_dtype]
    return 2 * (head_dim * element + _SCALE_BYTES.get(kv_dtype, 0))


def parse_dtypes(flag: str, text: str, valid: tuple[str, ...]) -> tuple[str, ...]:
    """Return the types listed in a comma-separated flag, without repeats.

    Raises CalibrationError naming the flag and the nearest valid type.
    """
    names = [part.strip().lower() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in valid:
            raise CalibrationError(f"{flag}: {one_of(name, valid)}")
    if not names:
        raise CalibrationError(f"{flag} {text!r} names no type; give some of {', '.join(valid)}")
    return tuple(dict.fromkeys(names))
