"""Arrow columns from buffers: pyarrow's own converters import pandas to see whether they are given a part of it."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.errors import ScenarioError


def pyarrow() -> ModuleType:
    """Return pyarrow with its Parquet part.

    Raises ScenarioError where it is not installed.
    """
    try:
        arrow = import_module("pyarrow")
        import_module("pyarrow.parquet")
    except ImportError:
        raise ScenarioError("Parquet needs pyarrow, the extra [parquet]: pip install 'kvcliff[parquet]'") from None
    return arrow


def numbers(arrow: ModuleType, values: NDArray[Any]) -> Any:
    """Return a column of numbers; NaN is null."""
    known = None
    if values.dtype.kind == "f":
        known = arrow.py_buffer(np.packbits(~np.isnan(values), bitorder="little"))
    data = arrow.py_buffer(np.ascontiguousarray(values))
    return arrow.Array.from_buffers(arrow.from_numpy_dtype(values.dtype), len(values), [known, data])


def texts(arrow: ModuleType, values: Sequence[str]) -> Any:
    """Return a column of names, each kept once; an empty one is null."""
    encoded = [value.encode() for value in values]
    lengths = np.fromiter(map(len, encoded), np.int32, len(encoded))
    known = arrow.py_buffer(np.packbits(lengths > 0, bitorder="little"))
    data = [known, arrow.py_buffer(_offsets(lengths)), arrow.py_buffer(b"".join(encoded))]
    return arrow.Array.from_buffers(arrow.string(), len(encoded), data).dictionary_encode()


def coded(arrow: ModuleType, codes: NDArray[Any], values: Sequence[str]) -> Any:
    """Return a column of names given by their places in `values`, which are distinct."""
    return arrow.DictionaryArray.from_arrays(numbers(arrow, codes.astype(np.int32)), texts(arrow, values).dictionary)


def stretches(arrow: ModuleType, counts: NDArray[np.int32], firsts_lasts: NDArray[np.int32]) -> Any:
    """Return a column of lists of stretches, so many a row."""
    sides = [numbers(arrow, firsts_lasts[:, side]) for side in (0, 1)]
    pairs = arrow.StructArray.from_arrays(sides, ["first", "last"])
    return arrow.ListArray.from_arrays(numbers(arrow, _offsets(counts)), pairs)


def _offsets(lengths: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
