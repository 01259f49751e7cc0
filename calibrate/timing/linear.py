"""Linear layers by weight type, through the kernels torch has for each.

Several copies of one layer are made at once, in the form its kernel wants. fp8 takes activations already quantised,
for quantising is timed by itself.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from calibrate.timing.cases import Unsupported
from calibrate.timing.dtypes import INT4_WEIGHT_GROUP
from calibrate.timing.machine import Machine
from calibrate.timing.tensors import TORCH_DTYPES, noise, repeated

Linear = Callable[[int, Tensor], Tensor]
"""From the number of a copy and activations (tokens, in_features) to (tokens, out_features)."""

_INNER_TILES = 2  # of the packed 4-bit layout
_aten = torch.ops.aten


def make_linear(sizes: tuple[int, int], weight_dtype: str, machine: Machine, dtype: torch.dtype, copies: int) -> Linear:
    """Return `copies` of a layer of `sizes` (out_features, in_features) with random weights of that type.

    Raises Unsupported, saying why, where this chip or this torch has no kernel for it.
    """
    if weight_dtype == "fp8":
        return _fp8(sizes, machine, dtype, copies)
    if weight_dtype == "int8":
        return _int8(sizes, machine, dtype, copies)
    if weight_dtype == "int4":
        return _int4(sizes, machine, dtype, copies)
    if TORCH_DTYPES[weight_dtype] != dtype:
        raise Unsupported(f"{weight_dtype} weights need --dtype {weight_dtype}")
    weights = noise((copies, *sizes), dtype, machine.kind, sizes[1] ** -0.5)
    return lambda copy, inputs: torch.nn.functional.linear(inputs, weights[copy])


def activations(weight_dtype: str, shape: tuple[int, int], machine: Machine, dtype: torch.dtype) -> Tensor:
    """Return random activations (tokens, in_features) in the type the linear layer takes."""
    return noise(shape, TORCH_DTYPES["fp8"] if weight_dtype == "fp8" else dtype, machine.kind)


def _fp8(sizes: tuple[int, int], machine: Machine, dtype: torch.dtype, copies: int) -> Linear:
    if machine.kind == "cuda" and not machine.has_fp8:
        raise Unsupported(f"{machine.name} has no fp8 tensor cores")
    if sizes[0] % 16 or sizes[1] % 16:
        raise Unsupported(f"fp8 needs multiples of 16, not {sizes[0]} x {sizes[1]}")
    weights = noise((copies, *sizes), TORCH_DTYPES["fp8"], machine.kind).transpose(1, 2)
    one = torch.ones((), device=machine.kind)
    scale = torch.full((), sizes[1] ** -0.5, device=machine.kind)
    kernel = torch._scaled_mm  # noqa: SLF001 - torch's only fp8 door
    return lambda copy, inputs: kernel(inputs, weights[copy], one, scale, out_dtype=dtype)


def _int8(sizes: tuple[int, int], machine: Machine, dtype: torch.dtype, copies: int) -> Linear:
    weights = (noise((copies, *sizes), torch.float16, machine.kind) * 32).to(torch.int8)
    scales = torch.full((sizes[0],), sizes[1] ** -0.5 / 32, dtype=dtype, device=machine.kind)
    kernel = torch._weight_int8pack_mm  # noqa: SLF001 - has no public name
    return lambda copy, inputs: kernel(inputs, weights[copy], scales)


def _int4(sizes: tuple[int, int], machine: Machine, dtype: torch.dtype, copies: int) -> Linear:
    out_features, in_features = sizes
    if in_features % INT4_WEIGHT_GROUP:
        raise Unsupported(f"int4 needs in_features in groups of {INT4_WEIGHT_GROUP}, not {in_features}")
    scales = torch.zeros((in_features // INT4_WEIGHT_GROUP, out_features, 2), dtype=dtype, device=machine.kind)
    scales[..., 0] = in_features**-0.5 / 4
    if machine.kind == "cpu":
        kernel, pack = _aten._weight_int4pack_mm_for_cpu, _aten._convert_weight_to_int4pack_for_cpu  # noqa: SLF001
        digits = torch.randint(0, 16, sizes, dtype=torch.int32)
    else:
        kernel, pack = _aten._weight_int4pack_mm, _aten._convert_weight_to_int4pack  # noqa: SLF001
        digits = torch.randint(0, 256, (out_features, in_features // 2), dtype=torch.uint8).to(machine.kind)
    weights = repeated(pack(digits, _INNER_TILES).unsqueeze(0), copies)
    return lambda copy, inputs: kernel(inputs, weights[copy], INT4_WEIGHT_GROUP, scales)
