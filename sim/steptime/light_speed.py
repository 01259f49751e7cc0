"""The speed of light of a GPU for a model: no step can be faster than its FLOPs and bytes at the peaks."""

from dataclasses import dataclass

from sim.catalog import Gpu, Model


@dataclass(frozen=True, slots=True)
class LightSpeed:
    """Lower bounds, from data-sheet peaks."""

    linear_read_s: float  # reading the body's weights once
    linear_s_per_token: float  # FLOPs of the body for one token
    head_read_s: float  # reading the output head once
    pair_16bit_s: float  # FLOPs of attention for one (query, key) pair over all layers, at the 16-bit peak
    pair_8bit_s: float  # the same at the fp8 peak where there is one
    bandwidth_bytes_per_s: float

    def prefill_s_per_pair(self, kv_family: str) -> float:
        """Return the bound of prefill attention for a pair; only an fp8 cache can be multiplied as fp8."""
        return self.pair_8bit_s if kv_family == "fp8" else self.pair_16bit_s

    def linear_s(self, tokens: int) -> float:
        """Return the bound of the body's linear layers for a step of `tokens` tokens."""
        return max(self.linear_read_s, tokens * self.linear_s_per_token)


def bounds(gpu: Gpu, model: Model, weight_dtype: str) -> LightSpeed:
    """Return the bounds; of a mixture of experts, only the weights one token meets count as read."""
    own = model.weight_dtype if weight_dtype == "auto" else weight_dtype
    eight_bit = own.startswith("fp8") and gpu.fp8_flops is not None
    linear_peak = gpu.fp8_flops if eight_bit and gpu.fp8_flops else gpu.bf16_flops
    ends = (model.embedding_params + model.lm_head_params) * 2
    body_bytes = (model.weight_bytes(weight_dtype) - ends) * model.active_linear_params / model.linear_params
    return LightSpeed(
        linear_read_s=body_bytes / gpu.bandwidth_bytes_per_s,
        linear_s_per_token=model.linear_flops_per_token / linear_peak,
        head_read_s=2 * model.embedding_params / gpu.bandwidth_bytes_per_s,
        pair_16bit_s=model.attention_flops_per_pair / gpu.bf16_flops,
        pair_8bit_s=model.attention_flops_per_pair / (gpu.fp8_flops or gpu.bf16_flops),
        bandwidth_bytes_per_s=gpu.bandwidth_bytes_per_s,
    )
