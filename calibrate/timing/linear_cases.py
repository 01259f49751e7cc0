"""Linear layers of the body, and the output head."""

from calibrate.timing.cases import Bench, Case
from calibrate.timing.linear import activations, make_linear
from calibrate.timing.points import Point

_CPU_FP8 = "the CPU multiplies fp8 as bf16"
_FP8_INPUT = "activations already in fp8"


def gemm(point: Point, bench: Bench, copies: int) -> Case:
    """Build one linear layer: cold weights, warm activations, as the layer before left them."""
    weight_dtype, machine = point.weight_dtype, bench.machine
    sizes = (point.out_features or 1, point.in_features or 1)
    linear = make_linear(sizes, weight_dtype, machine, bench.dtype, copies)
    inputs = activations(weight_dtype, (point.tokens or 1, sizes[1]), machine, bench.dtype)
    emulated = weight_dtype == "fp8" and machine.kind == "cpu"
    note = _CPU_FP8 if emulated else _FP8_INPUT if weight_dtype == "fp8" else ""
    return Case(lambda copy: linear(copy, inputs), copies, "emulated" if emulated else "measured", note)


def head(point: Point, bench: Bench, copies: int) -> Case:
    """Build the output head, which stays in the type of the activations: logits of one row a sequence."""
    sizes = (bench.shape.vocab_size, bench.shape.hidden_size)
    linear = make_linear(sizes, bench.dtype_name, bench.machine, bench.dtype, copies)
    inputs = activations(bench.dtype_name, (point.sequences or 1, sizes[1]), bench.machine, bench.dtype)
    return Case(lambda copy: linear(copy, inputs), copies)
