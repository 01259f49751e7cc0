"""From the operations of a device profile to the cost of a model's steps.

    step = step_s + layers x (linear + small kernels + attention + all-reduces) + head + sequences x sequence_s

and never less than the host needs to launch its kernels where no CUDA graph holds the step. Shapes are those of
one GPU under tensor parallelism: heads and feed-forward columns are divided, activations are not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from sim.catalog import Gpu, Model, activation_bytes, kv_dtype, linear_weight_bytes
from sim.errors import ProfileError
from sim.steptime.device import DeviceProfile
from sim.steptime.mixed_layers import mixed_layers
from sim.steptime.model import StepTimeModel
from sim.steptime.operations import (
    GemmTerms,
    Number,
    allreduce_s,
    experts_met,
    experts_s,
    gemm_s,
    small_s,
)
from sim.steptime.profile import kv_family

BITS16_BYTES = 2.0
PASSES = {
    "norm": 4.0,  # adds the residual on the way: reads two, writes two
    "qk_norm": 2.0,
    "rotary": 2.0,
    "activation": 3.0,  # reads gate and up, writes their product
    "kv_write": 2.0,
    "residual": 3.0,
    "embedding": 2.0,
    "quantise": 1.5,  # reads 16 bits, writes 8
}
"""How often a small kernel reads or writes each element of its width."""
BIG_KERNELS = 5  # four products and attention
MANY = 256  # sequences up to which the head's cost is taken as a line
ALL_REDUCES = 2  # after attention's output and after the feed-forward


@dataclass(frozen=True, slots=True)
class LayerShape:
    """One layer's sizes on one GPU."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int  # of the dense feed-forward; 0 with experts
    qk_norm: bool
    experts: int = 0
    experts_per_token: int = 0
    expert_intermediate: int = 0

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """(out_features, in_features) of the dense matrix products."""
        attention = (
            ((self.heads + 2 * self.kv_heads) * self.head_dim, self.hidden),
            (self.hidden, self.heads * self.head_dim),
        )
        if self.experts:
            return (*attention, (self.experts, self.hidden))
        return (*attention, (2 * self.intermediate, self.hidden), (self.hidden, self.intermediate))

    def small_kernels(self, element_bytes: float) -> tuple[tuple[str, float], ...]:
        """(part, bytes moved a token) of the kernels between the products; `PASSES` says how often bytes move.

        Bytes are those of 16-bit elements: where a device was timed in 32 bits, its rates are half. Products of 8-bit
        elements quantise their four inputs.
        """
        qk = (self.heads + self.kv_heads) * self.head_dim
        inner = self.experts_per_token * self.expert_intermediate or self.intermediate
        work = [("norm", self.hidden), ("norm", self.hidden), ("rotary", qk), ("activation", inner)]
        work.append(("kv_write", 2 * self.kv_heads * self.head_dim))
        if self.qk_norm:
            work += [("qk_norm", self.heads * self.head_dim), ("qk_norm", self.kv_heads * self.head_dim)]
        moved = [(part, PASSES[part] * width * BITS16_BYTES) for part, width in work]
        if element_bytes < BITS16_BYTES:
            width = 2 * self.hidden + self.heads * self.head_dim + inner
            moved.append(("quantise", PASSES["quantise"] * width * BITS16_BYTES))
        return tuple(moved)

    @property
    def kernels(self) -> int:
        """All kernels of a layer in 16 bits."""
        return BIG_KERNELS + len(self.small_kernels(BITS16_BYTES))


def layer_shape(model: Model, tensor_parallel_size: int) -> LayerShape:
    """Return the sizes of a model's layer on one of `tensor_parallel_size` GPUs.

    Raises ProfileError where the heads cannot be divided.
    """
    if model.num_attention_heads % tensor_parallel_size:
        raise ProfileError(
            f"tensor_parallel_size {tensor_parallel_size} must divide the {model.num_attention_heads} attention heads "
            f"of {model.name}"
        )
    return LayerShape(
        hidden=model.hidden_size,
        heads=model.num_attention_heads // tensor_parallel_size,
        kv_heads=max(1, model.num_key_value_heads // tensor_parallel_size),
        head_dim=model.head_dim,
        intermediate=0 if model.num_experts else model.intermediate_size // tensor_parallel_size,
        qk_norm=model.qk_norm,
        experts=model.num_experts or 0,
        experts_per_token=model.num_experts_per_tok or 0,
        expert_intermediate=(model.moe_intermediate_size or 0) // tensor_parallel_size,
    )


def slowed(terms: GemmTerms, slowdown: float) -> GemmTerms:
    """Return the terms at the clocks a long step sustains."""
    return terms._replace(flops_per_s=terms.flops_per_s / slowdown)


def device_step_time_model(
    profile: DeviceProfile,
    gpu: Gpu,
    model: Model,
    weight_dtype: str,
    kv_cache_dtype: str,
    *,
    tensor_parallel_size: int = 1,
    expert_parallel_size: int = 1,
    cuda_graph_tokens: int = 512,
) -> StepTimeModel:
    """Return what steps of a model cost on a device.

    `expert_parallel_size` GPUs share the experts among them, each bringing as many tokens. `cuda_graph_tokens` is the
    largest batch a CUDA graph was captured for: vLLM takes twice max_num_seqs, at most 512; 0 is enforce_eager.
    Raises ProfileError for a dtype or number of GPUs the profile does not have.
    """
    own = model.weight_dtype if weight_dtype == "auto" else weight_dtype
    shape, terms = layer_shape(model, tensor_parallel_size), profile.composition.values()
    family = kv_family(kv_cache_dtype)
    attention, layers = profile.attend(family), model.num_hidden_layers
    mixed = mixed_layers(model, kv_cache_dtype, tensor_parallel_size)
    main_pair_s = 4.0 * shape.heads * shape.head_dim * terms["flops_slowdown"] / attention.prefill_flops_per_s
    pair_s = mixed.pairs * main_pair_s
    alone = attention.prefill_pairs_per_token * (1 + 2 * shape.kv_heads / shape.heads)
    kv_head_bytes = kv_dtype(kv_cache_dtype).head_bytes(shape.head_dim)
    kv_token_s = mixed.kv_tokens * (shape.kv_heads * kv_head_bytes / attention.decode_bytes_per_s)
    head_dtype = "fp32" if own == "fp32" else "bf16"  # quantised models keep the head in 16 bits
    head, head_bytes = profile.gemm(head_dtype), linear_weight_bytes(head_dtype)
    packed = shape.heads / shape.kv_heads if profile.prefill_packs_query_heads else 1.0
    vocabulary = model.vocab_size // tensor_parallel_size

    def head_s(rows: int) -> float:
        return float(gemm_s(head, rows, vocabulary, model.hidden_size, head_bytes, head_bytes))

    return StepTimeModel(
        step_overhead_s=terms["step_s"],
        linear_s=body_s(profile, model, own, tensor_parallel_size, expert_parallel_size),
        head_per_step_s=head_s(1),
        head_per_sequence_s=(head_s(MANY) - head_s(1)) / (MANY - 1)
        + terms["sequence_s"]
        + mixed.bytes_per_row / attention.decode_bytes_per_s,
        prefill_s_per_pair=layers * pair_s,
        prefill_s_per_token=layers * alone * pair_s + mixed.window_pairs * main_pair_s,
        prefill_s_per_kv_token=layers * max(kv_token_s, profile.prefill_tile_rows / packed * pair_s),
        prefill_overhead_s=layers * attention.prefill_overhead_s,
        decode_overhead_s=layers * attention.decode_overhead_s,
        decode_s_per_row=layers * shape.kv_heads * attention.decode_row_s,
        decode_s_per_kv_token=layers * kv_token_s,
        decode_sharpness=attention.sharpness,
        prefill_tile_rows=profile.prefill_tile_rows / packed,
        decode_on_its_own=profile.decode_rows_beside_prefill == "on_their_own",
        shared_tokens_read_once=_read_once(profile, gpu, shape, kv_cache_dtype),
        cuda_graph_tokens=cuda_graph_tokens,
        eager_floor_s=layers * shape.kernels * terms["eager_kernel_s"],
    )


def body_s(
    profile: DeviceProfile, model: Model, weight_dtype: str, tensor_parallel_size: int, expert_parallel_size: int = 1
) -> Callable[[int], float]:
    """Return seconds of everything in the layers but attention, by tokens in the step."""
    shape = layer_shape(model, tensor_parallel_size)
    price = layer_s(profile, shape, weight_dtype, tensor_parallel_size, expert_parallel_size)
    layers, more = model.num_hidden_layers, mixed_layers(model, "auto").linear

    @cache
    def at(tokens: int) -> float:
        return layers * float(price(tokens)) * more

    return at


def layer_s(
    profile: DeviceProfile,
    shape: LayerShape,
    weight_dtype: str,
    tensor_parallel_size: int,
    expert_parallel_size: int = 1,
) -> Callable[[Number], Number]:
    """Return seconds of one layer without attention, by tokens."""
    terms = profile.composition.values()
    linear = slowed(profile.gemm(weight_dtype), terms["flops_slowdown"])
    weight_bytes = linear_weight_bytes(weight_dtype)
    element_bytes = activation_bytes(weight_dtype)
    small = [(profile.small_kernel(part), moved) for part, moved in shape.small_kernels(element_bytes)]
    experts = profile.route(weight_dtype) if shape.experts else None
    link = profile.link(tensor_parallel_size) if tensor_parallel_size > 1 else None
    exchange = profile.link(expert_parallel_size) if shape.experts and expert_parallel_size > 1 else None

    def at(tokens: Number) -> Number:
        total = sum(small_s(kernel, tokens * moved) for kernel, moved in small)
        for n, k in shape.products:
            total += gemm_s(linear, tokens, n, k, weight_bytes, element_bytes)
        if experts is not None:
            rows = tokens * shape.experts_per_token
            met = experts_met(tokens * expert_parallel_size, shape.experts, shape.experts_per_token)
            met = met / expert_parallel_size
            paced = experts._replace(flops_per_s=experts.flops_per_s / terms["flops_slowdown"])
            total += experts_s(paced, rows, met, shape.hidden, shape.expert_intermediate, weight_bytes)
        if exchange is not None:  # everybody's tokens are gathered, and everybody's results summed
            moved = tokens * shape.hidden * BITS16_BYTES
            total += allreduce_s(exchange, moved) + allreduce_s(exchange, moved * expert_parallel_size)
        if link is not None:
            total += ALL_REDUCES * allreduce_s(link, tokens * shape.hidden * BITS16_BYTES)
        return total

    return at


def _read_once(profile: DeviceProfile, gpu: Gpu, shape: LayerShape, kv_cache_dtype: str) -> float:
    if profile.shared_prefix_reads != "once_if_l2_holds_it" or not gpu.l2_bytes:
        return 0.0
    return gpu.l2_bytes / (shape.kv_heads * kv_dtype(kv_cache_dtype).head_bytes(shape.head_dim))
