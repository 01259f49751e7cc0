"""Arrivals inside a window with a given number of them: gaps of a shape, scaled until they fill the window.

    | gap | gap  |gap|   ...   | gap |        n arrivals end n gaps, one more gap ends the window

The shape (Gamma or Weibull) makes bursts; the scale gives way, so that the rate is the window's own whatever the
shape's mean. ServeGen's generator does the same.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

SHAPES: dict[str, Callable[[np.random.Generator, float, int], NDArray[np.float64]]] = {
    "Gamma": lambda rng, shape, count: rng.gamma(shape, 1.0, count),
    "Weibull": lambda rng, shape, count: rng.weibull(shape, count),
}


def arrivals_s(rng: np.random.Generator, kind: str, shape: float, count: int, window_s: float) -> NDArray[np.float64]:
    """Return `count` times from 0 on, ascending, all before `window_s`."""
    gaps = SHAPES[kind](rng, shape, count + 1)
    whole = float(gaps.sum())
    if not 0 < whole < np.inf:  # shapes so small that every gap is nothing
        return np.sort(rng.uniform(0.0, window_s, count))
    ends: NDArray[np.float64] = np.cumsum(gaps[:-1])
    return np.minimum(ends * (window_s / whole), np.nextafter(window_s, 0.0))
