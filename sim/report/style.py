"""What every chart shares: colours, type, the sheet it is drawn on.

Matplotlib's own defaults are the base, whatever the user's matplotlibrc says, and DejaVu Sans (shipped with
matplotlib) is the face: the same data gives the same bytes anywhere. Nothing global outlives `chart_style`.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patheffects import withStroke
from matplotlib.textpath import text_to_path

WIDTH_IN, HEIGHT_IN, DPI = 9.0, 5.5, 150
LEFT_IN, RIGHT_IN, MARGIN_IN = 0.85, 0.78, 0.25

INK, SOFT, FAINT, GRID = "#22272e", "#5b636d", "#aab1b9", "#e8eaed"
BLUE, AMBER, CRIMSON, GREEN, PURPLE, SKY = "#0072b2", "#d98200", "#a3163a", "#00805f", "#8a4f9e", "#4ba3d8"
THROUGHPUT = "#71867b"
BEYOND = CRIMSON
CURVES = (CRIMSON, BLUE, GREEN, AMBER, PURPLE, SKY, INK)
MARKERS = ("o", "s", "D", "^", "v", "P", "X")

TITLE_PT, SUBTITLE_PT, LABEL_PT, TICK_PT, KEY_PT, PRINT_PT = 14, 9.5, 9, 9, 8, 7

HALO = withStroke(linewidth=3, foreground="white")  # keeps text legible over lines

_SETTINGS = {
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "text.hinting": "none",  # letters as wide in the PNG as measured here, and as in the SVG
    "svg.fonttype": "path",  # looks the same where DejaVu Sans is not installed
    "svg.hashsalt": "kvcliff",  # element ids are otherwise random
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
}


def chart_style() -> AbstractContextManager[None]:
    """Return the context in which charts are drawn and saved."""
    return matplotlib.style.context(["default", _SETTINGS])


def text_width_in(text: str, size_pt: float, weight: str = "normal") -> float:
    """Return how wide a line of text is, in inches, with 3 % to spare for other renderers."""
    font = FontProperties(family="DejaVu Sans", size=size_pt, weight=weight)
    width_pt, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width_pt) * 1.03 / 72


def wrapped(text: str, size_pt: float, width_in: float, weight: str = "normal") -> str:
    """Break text into lines no wider than `width_in`, between words; breaks already there stay."""
    lines: list[str] = []
    for paragraph in text.splitlines():
        line = ""
        for word in paragraph.split():
            longer = f"{line} {word}".strip()
            if line and text_width_in(longer, size_pt, weight) > width_in:
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    return "\n".join(lines)


def sheet(title: str, subtitle: str, provenance: str, key: Sequence[Artist]) -> tuple[Figure, Axes]:
    """Return a white figure with its title, subtitle, key and small print, and the axes between them."""
    figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    title = wrapped(title, TITLE_PT, WIDTH_IN - 2 * MARGIN_IN, "bold")
    subtitle = wrapped(subtitle, SUBTITLE_PT, WIDTH_IN - 2 * MARGIN_IN)
    small_print = wrapped(provenance, PRINT_PT, WIDTH_IN - 2 * MARGIN_IN)
    title_in, subtitle_in = _height_in(title, TITLE_PT) + 0.04, _height_in(subtitle, SUBTITLE_PT)
    _write(figure, HEIGHT_IN - 0.2, title, size=TITLE_PT, color=INK, weight="bold", va="top")
    _write(figure, HEIGHT_IN - 0.2 - title_in, subtitle, size=SUBTITLE_PT, color=SOFT, va="top")
    _write(figure, 0.13, small_print, size=PRINT_PT, color=SOFT, va="bottom")
    down_in = 0.2 + title_in + subtitle_in + (0.4 if key else 0.14)
    axes = figure.add_axes(_box(down_in, 0.66 + 0.14 * len(small_print.splitlines())))
    _bare(axes)
    if key:
        _key(axes, key)
    return figure, axes


def _write(figure: Figure, up_in: float, text: str, **look: Any) -> None:
    figure.text(MARGIN_IN / WIDTH_IN, up_in / HEIGHT_IN, text, parse_math=False, **look)


def _height_in(text: str, size_pt: float) -> float:
    return len(text.splitlines()) * size_pt * 1.3 / 72


def _box(down_in: float, up_in: float) -> tuple[float, float, float, float]:
    """Return left, bottom, width and height of the axes as fractions of the figure."""
    return (
        LEFT_IN / WIDTH_IN,
        up_in / HEIGHT_IN,
        (WIDTH_IN - LEFT_IN - RIGHT_IN) / WIDTH_IN,
        max(HEIGHT_IN - down_in - up_in, 1.0) / HEIGHT_IN,
    )


def _bare(axes: Axes) -> None:
    """Leave the bottom line and horizontal hairlines, nothing else."""
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="both", labelsize=TICK_PT, length=0, pad=6)
    axes.tick_params(axis="x", which="major", length=4, color=FAINT)
    axes.tick_params(axis="x", which="minor", length=2, color=FAINT)
    axes.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def _key(axes: Axes, key: Sequence[Artist]) -> None:
    """Explain marks in one row above the axes."""
    axes.legend(
        handles=list(key),
        loc="lower left",
        bbox_to_anchor=(0, 1.015),
        ncols=len(key),
        fontsize=KEY_PT,
        labelcolor=SOFT,
        frameon=False,
        borderaxespad=0.2,
        borderpad=0.2,
        handlelength=2.2,
        columnspacing=1.8,
    )
