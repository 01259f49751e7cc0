"""What takes GPU memory besides weights and KV: the activation peak, non-torch memory, CUDA graphs.

None of it follows from a config alone, so each is a range of low, likely and high bytes. How the numbers were
found stands with each function; `shared/data/capacity_cases` holds the readings.
"""

from dataclasses import dataclass

from sim.catalog import Model
from sim.memory.settings import BatchLimits, MemorySettings
from sim.memory.versions import is_v0, sampler_bytes_per_logit
from sim.units import GIB

_BITS16_BYTES = 2
_HIDDEN_BUFFERS = 5
_LOW_SHARE = 0.8
_HIGH_SHARE = 1.5
_ENCODER_BYTES = (0, round(1.0 * GIB), round(3.0 * GIB))  # low, likely, high


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A size that is not known exactly."""

    low: int
    likely: int
    high: int


def exactly(size_bytes: int) -> ByteRange:
    """Return a range that is one point."""
    return ByteRange(size_bytes, size_bytes, size_bytes)


def activation_peak(model: Model, limits: BatchLimits, settings: MemorySettings, *, samples: bool = True) -> ByteRange:
    """Return the peak of activations in the engine's profile run, on one GPU.

    `samples` is false on the stages of a pipeline before the last. Three things peak one after the other, so `likely`
    is the largest:

    * the forward pass of a full batch: tokens x 2 B x (3 x intermediate / TP + 5 x hidden); with experts, the
      routed copies of each token take the place of the MLP;
    * sampling: sequences x vocabulary x bytes a logit (versions.py), beside the hidden states that led there;
    * an encoder's pass over the largest images.

    The 5 is fitted to one print (LLaVA-Mistral, 16,384 tokens, 1.97 GiB; met to 2 %); up to 0.8 it is 3 (Llama-8B on
    a 3090 at 20,000 and 29,000 tokens: 2.07 and 2.99 GiB, met to 1 %). vLLM up to 0.10 often shows the forward pass
    alone, and 0.14 once 0.8 of it, which is `low`. What other prints leave unexplained (RTX 5090, L40S) reaches 1.43 x
    both at once; `high` is 1.5 x. Encoders: Qwen3-VL leaves 2.0 and 2.7 GiB where all else is small, Gemma nothing to
    be seen.
    """
    tokens, sequences = limits.max_num_batched_tokens, limits.max_num_seqs
    first_engine = is_v0(settings.vllm_version)
    forward = (
        tokens
        * _BITS16_BYTES
        * _forward_width(model, settings.tensor_parallel_size, 3 if first_engine else _HIDDEN_BUFFERS)
    )
    hidden = tokens * _BITS16_BYTES * model.hidden_size
    rows = min(sequences, tokens)
    sampling = 0
    if samples and not first_engine:
        sampling = round(rows * model.vocab_size * sampler_bytes_per_logit(settings.vllm_version))
    encoder = _ENCODER_BYTES if _profiles_encoder(model, settings) else (0, 0, 0)
    return ByteRange(
        low=max(encoder[0], round(_LOW_SHARE * forward)),
        likely=max(forward, sampling + hidden, encoder[1]),
        high=max(encoder[2], round(_HIGH_SHARE * (forward + sampling + hidden))),
    )


def _profiles_encoder(model: Model, settings: MemorySettings) -> bool:
    return bool(model.vision_params) and not (settings.language_model_only or settings.skip_mm_profiling)


def _forward_width(model: Model, tensor_parallel_size: int, hidden_buffers: int) -> int:
    if model.num_experts_per_tok is None or model.moe_intermediate_size is None:
        mlp = 3 * model.intermediate_size // tensor_parallel_size
    else:
        expert = model.moe_intermediate_size // tensor_parallel_size
        mlp = model.num_experts_per_tok * (max(2 * expert, model.hidden_size) + expert)
    return mlp + hidden_buffers * model.hidden_size


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
