"""How a checkpoint stores its matrices: the bits a weight takes, scales included, and which modules stay in 16.

A scheme has rules, first match first: a pattern of module names and the bits there. What no rule names takes
`bits`. Names are compared the way the engines do: exact, as a prefix, with `*`, or with `re:` as an expression.
"""

from dataclasses import dataclass

from sim.catalog.module_names import Rule, rule_index
from sim.catalog.weights import Linear
from sim.errors import MemoryLedgerError, one_of

BITS16 = 16.0
_EXPERT_MULTIPLE = (
    256  # vLLM pads MXFP4 experts to it: 13.43 and 64.45 GiB of gpt-oss where 13.47 and 64.38 are printed
)


@dataclass(frozen=True, slots=True)
class WeightScheme:
    """One way to store weights: `bits` a weight, scales included, but where a rule says otherwise."""

    name: str  # as people call it: awq, nvfp4
    kernel_dtype: str  # what the step-time terms call its matrix products
    bits: float
    rules: tuple[Rule, ...] = ()
    pads_experts: bool = False

    def bytes_of(self, layer: int, linear: Linear, params: float, tensor_parallel_size: int) -> float:
        """Return the bytes that `params` weights of a matrix in that layer take on one rank."""
        bits = self.bits_at(f"layers.{layer}.{linear.name}")
        if linear.always_16bit:
            bits = max(bits, BITS16)
        if self.pads_experts and linear.expert_width and bits == self.bits:
            width = linear.expert_width / tensor_parallel_size
            params *= -(-width // _EXPERT_MULTIPLE) * _EXPERT_MULTIPLE / width
        return params * bits / 8

    def bits_at(self, module: str) -> float:
        """Return the bits a weight takes in the module of that name, counted from `layers.`."""
        found = rule_index(self.rules).bits_at(module) if self.rules else None
        return self.bits if found is None else found

    @property
    def head_bits(self) -> float:
        """The bits of a weight of the output head: 16 unless a rule names it."""
        found = rule_index(self.rules).bits_at("lm_head") if self.rules else None
        return BITS16 if found is None else min(found, BITS16)


def weight_scheme(name: str) -> WeightScheme:
    """Return the scheme of that name.

    Raises MemoryLedgerError naming the valid ones when there is none.
    """
    if name not in SCHEMES:
        raise MemoryLedgerError(f"weight_dtype {one_of(name, ('auto', *SCHEMES))}")
    return SCHEMES[name]


# Bits a weight takes with its scales. AWQ's 0.53 B is measured (Qwen3-14B-AWQ loads 9.44 GiB, an 8B merge 5.8);
# GPTQ's is 4 bits with a 16-bit scale and a 4-bit zero point a group of 128 (Qwen2.5-72B: 38.53 GiB).
_AWQ_BITS, _GPTQ_BITS, _GROUP_BITS, _NVFP4_BITS, _MXFP4_BITS = 4.24, 4.156, 4.125, 4.5, 4.25
# What NVIDIA's NVFP4 checkpoints of hybrids and of MLA models (Qwen3.5, DeepSeek V3.1) list as left out. Recurrent
# layers stay in 16 bits in the 122B (70.47 GiB printed, 68.8 here), 8 in the 27B (about 23 GiB, 20.6 here).
_KEPT_BY_NVFP4 = ("shared_experts", "kv_a_proj_with_mqa", "kv_b_proj", "q_a_proj", "q_b_proj")
_HALVED_BY_NVFP4 = Rule("linear_attn", 8.0)
SCHEMES: dict[str, WeightScheme] = {
    "fp32": WeightScheme("fp32", "fp32", 32.0),
    **{name: WeightScheme(name, name, BITS16) for name in ("bf16", "bfloat16", "fp16", "float16")},
    **{name: WeightScheme(name, "fp8", 8.0) for name in ("fp8", "w8a8-fp8", "fp8-dynamic")},
    "fp8-block": WeightScheme("fp8-block", "fp8", 8.0 + 32 / 128**2),
    **{name: WeightScheme(name, "int8", 8.0) for name in ("int8", "w8a8", "w8a16", "gptq-int8", "bnb-8bit")},
    **{name: WeightScheme(name, "int4", _AWQ_BITS) for name in ("int4", "awq", "awq-int4")},
    "gptq": WeightScheme("gptq", "int4", _AWQ_BITS),
    "gptq-int4": WeightScheme("gptq-int4", "int4", _GPTQ_BITS),
    **{name: WeightScheme(name, "int4", _GROUP_BITS) for name in ("w4a16", "int4-autoround")},
    "bnb-4bit": WeightScheme("bnb-4bit", "int4", 4.5),  # a 32-bit maximum a block of 64 weights
    "nvfp4": WeightScheme(
        "nvfp4", "nvfp4", _NVFP4_BITS, (*(Rule(part, BITS16) for part in _KEPT_BY_NVFP4), _HALVED_BY_NVFP4)
    ),
    # of gpt-oss, where the experts alone are in 4 bits
    "mxfp4": WeightScheme("mxfp4", "mxfp4", _MXFP4_BITS, (Rule("self_attn", BITS16),), pads_experts=True),
}
