"""What takes GPU memory besides weights and KV: the activation peak, non-torch memory, CUDA graphs.

None of it follows from a config alone, so each is a range of low, likely and high bytes. How the numbers were
found stands with each function; `shared/data/capacity_cases` holds the readings.
"""

from dataclasses import dataclass

from sim.catalog import Model
from sim.memory.settings import BatchLimits, MemorySettings
from sim.units import GIB

_BITS16_BYTES = 2
_SAMPLER_BYTES_PER_LOGIT = 38.4
_HIDDEN_BUFFERS = 5
_LOW_SHARE = 0.8
_HIGH_SHARE = 1.5


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A size that is not known exactly."""

    low: int
    likely: int
    high: int


def exactly(size_bytes: int) -> ByteRange:
    """Return a range that is one point."""
    return ByteRange(size_bytes, size_bytes, size_bytes)


def activation_peak(model: Model, limits: BatchLimits, settings: MemorySettings) -> ByteRange:
    """Return the peak of activations in the engine's profile run, on one GPU.

    Two things peak one after the other, so `likely` is the larger:

    * the forward pass of a full batch: tokens x 2 B x (3 x intermediate / TP + 5 x hidden); with experts, the
      routed copies of each token take the place of the MLP;
    * sampling: sequences x vocabulary x 38.4 B (fp32 logits, their sorted copies, int64 indices), beside the
      hidden states that led there.

    The 38.4 B is the mean over five H100 prints of late 2025 (Qwen3-0.6B and 32B, Llama-8B and 70B, gpt-oss;
    1,024 sequences): each is met within 1 %. The 5 is fitted to one print (LLaVA-Mistral, 16,384 tokens, 1.97
    GiB; met to 2 %). Prints not fitted: Qwen3-Next on H200 5.58 GiB to 1 %; Llama-8B on A100, vLLM 0.31, 1.44
    GiB against 1.19. vLLM up to 0.10 often shows the forward pass alone, and 0.14 once 0.8 of it, which is
    `low`. What other prints leave unexplained (RTX 5090, L40S) reaches 1.43 x both at once; `high` is 1.5 x.
    """
    max_num_batched_tokens, max_num_seqs = limits.max_num_batched_tokens, limits.max_num_seqs
    tensor_parallel_size = settings.tensor_parallel_size
    forward = max_num_batched_tokens * _BITS16_BYTES * _forward_width(model, tensor_parallel_size)
    hidden = max_num_batched_tokens * _BITS16_BYTES * model.hidden_size
    rows = min(max_num_seqs, max_num_batched_tokens)
    sampling = round(rows * model.vocab_size * _SAMPLER_BYTES_PER_LOGIT)
    return ByteRange(
        low=round(_LOW_SHARE * forward),
        likely=max(forward, sampling + hidden),
        high=round(_HIGH_SHARE * (forward + sampling + hidden)),
    )


def _forward_width(model: Model, tensor_parallel_size: int) -> int:
    if model.num_experts_per_tok is None or model.moe_intermediate_size is None:
        mlp = 3 * model.intermediate_size // tensor_parallel_size
    else:
        expert = model.moe_intermediate_size // tensor_parallel_size
        mlp = model.num_experts_per_tok * (max(2 * expert, model.hidden_size) + expert)
    return mlp + _HIDDEN_BUFFERS * model.hidden_size


def non_torch(tensor_parallel_size: int = 1) -> ByteRange:
    """Return the memory outside the allocator: driver context, NCCL buffers when there are several GPUs.

    Read off prints: 0.07 to 0.14 GiB on one GPU, 0.25 to 1.38 on two, 0.54 the commonest.
    """
    if tensor_parallel_size == 1:
        return ByteRange(round(0.07 * GIB), round(0.14 * GIB), round(0.3 * GIB))
    return ByteRange(round(0.25 * GIB), round(0.54 * GIB), round(1.4 * GIB))


def cuda_graphs(*, enforce_eager: bool) -> ByteRange:
    """Return what captured graphs take: 0.07 to 3.9 GiB in prints, half of them under 0.6. Not modelled."""
    if enforce_eager:
        return exactly(0)
    return ByteRange(round(0.1 * GIB), round(0.5 * GIB), round(2.4 * GIB))
