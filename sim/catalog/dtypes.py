"""Storage types of weights and of the KV cache: their names, and what they cost in bytes.

A KV type is described by what one KV head keeps of one token, key and value together. Quantised caches may
leave some layers in 16 bits, so a rate per element alone would be wrong for them.
"""

from dataclasses import dataclass

from sim.catalog.weight_scheme import weight_scheme
from sim.errors import MemoryLedgerError, one_of


@dataclass(frozen=True, slots=True)
class KvDtype:
    """What one KV head keeps of one token: `elements x key_value_bits / 8 + extra_bytes`."""

    key_bits: float
    value_bits: float
    source: str
    family: str = "turboquant"  # types read by the same attention kernels: bf16, fp8 or turboquant
    extra_bytes: int = 0  # scales and norms kept beside each slot
    full_precision_layers: int = 0  # layers that stay in 16 bits
    latent_token_bytes: int | None = None  # of a whole latent vector (MLA), where the format fixes it

    def head_bytes(self, key_dim: int, value_dim: int | None = None) -> float:
        """Bytes of one token's key and value in one KV head of a quantised layer; both alike unless told."""
        value_dim = key_dim if value_dim is None else value_dim
        return (key_dim * self.key_bits + value_dim * self.value_bits) / 8 + self.extra_bytes

    def latent_bytes(self, latent_dim: int, rope_dim: int) -> float:
        """Bytes of one token's latent vector in one layer."""
        if self.latent_token_bytes is not None:
            return self.latent_token_bytes
        return (latent_dim + rope_dim) * self.key_bits / 8


_PLAIN = "vLLM: page bytes = 2 x heads x head_dim x element bytes; checked on 20 posted start-ups to 0.2 %"
_BITS16 = KvDtype(16, 16, _PLAIN, family="bf16")
_BITS8 = KvDtype(8, 8, _PLAIN + "; per-tensor scales are negligible, fp8 is exactly twice the tokens", family="fp8")
_BITS32 = KvDtype(32, 32, _PLAIN, family="fp32")
KV_FAMILIES = ("bf16", "fp8", "turboquant", "fp32")
_SCALED = "vLLM: one fp32 scale a token and head, for key and value each"
_TURBO = "vLLM TurboQuant slots of 196/136/120/104 B at head_dim 128; first and last two layers stay 16-bit"

KV_DTYPES: dict[str, KvDtype] = {
    "auto": _BITS16,
    "bf16": _BITS16,
    "bfloat16": _BITS16,
    "fp16": _BITS16,
    "float16": _BITS16,
    "fp32": _BITS32,
    "fp8": _BITS8,
    "fp8_e4m3": _BITS8,
    "fp8_e5m2": _BITS8,
    "int8": _BITS8,
    "fp8_inc": _BITS8,
    "fp8_per_token_head": KvDtype(8, 8, _SCALED, family="fp8", extra_bytes=8),
    "int8_per_token_head": KvDtype(8, 8, _SCALED, family="fp8", extra_bytes=8),
    "nvfp4": KvDtype(4.5, 4.5, "vLLM: 4 bits and an fp8 scale for each 16 elements, 72 B for 128", family="turboquant"),
    "nvfp4_4over6": KvDtype(4.5, 4.5, "as nvfp4", family="turboquant"),
    "int4_per_token_head": KvDtype(4, 4, _SCALED, family="turboquant", extra_bytes=8),
    "fp8_ds_mla": KvDtype(
        8, 8, "vLLM's FlashMLA sparse format: 656 B a token and layer", family="fp8", latent_token_bytes=656
    ),
    "tq4": KvDtype(4.2, 4.2, "founding document 000: about 4.2 bits, 38,700 B/token on Qwen3-4B, in every layer"),
    "turboquant_k8v4": KvDtype(8, 4, _TURBO, extra_bytes=4, full_precision_layers=4),
    "turboquant_4bit_nc": KvDtype(4, 4, _TURBO, extra_bytes=8, full_precision_layers=4),
    "turboquant_k3v4_nc": KvDtype(3, 4, _TURBO, extra_bytes=8, full_precision_layers=4),
    "turboquant_3bit_nc": KvDtype(3, 3, _TURBO, extra_bytes=8, full_precision_layers=4),
}

# Bytes a linear-layer weight takes; embeddings and head stay in 16 bits whatever the type. 0.53 is measured
# (Qwen3-14B-AWQ loads 9.44 GiB, an 8B AWQ merge 5.8): 4 bits, and scale and zero point per group of 128.
LINEAR_WEIGHT_BYTES: dict[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "bfloat16": 2.0,
    "fp16": 2.0,
    "float16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.53,
    "awq": 0.53,
    "gptq": 0.53,
}


def activation_bytes(weight_dtype: str) -> float:
    """Return the bytes of one element that a linear layer with weights of this type multiplies."""
    return {"fp8": 1.0, "int8": 1.0, "fp32": 4.0}.get(weight_dtype, 2.0)


def kv_dtype(name: str) -> KvDtype:
    """Return the KV cache type of that name.

    Raises MemoryLedgerError naming the valid types when there is none.
    """
    if name not in KV_DTYPES:
        raise MemoryLedgerError(f"kv_cache_dtype {one_of(name, KV_DTYPES)}")
    return KV_DTYPES[name]


def linear_weight_bytes(name: str) -> float:
    """Return the bytes that kernels read for one linear-layer weight of the type of that name.

    Raises MemoryLedgerError naming the valid types when there is none.
    """
    return LINEAR_WEIGHT_BYTES[name] if name in LINEAR_WEIGHT_BYTES else weight_scheme(name).bits / 8
