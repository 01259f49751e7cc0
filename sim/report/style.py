"""What every chart shares: colours, settings, and the sheet it is drawn on.

Matplotlib's own defaults are the base, whatever the user's matplotlibrc says, and DejaVu Sans (shipped with
matplotlib) is the face: the same data gives the same bytes anywhere. Nothing global outlives `chart_style`.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from textwrap import fill

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke

WIDTH_IN, HEIGHT_IN, DPI = 9.0, 5.5, 150
INK, SOFT, FAINT, GRID = "#22272e", "#5b636d", "#aab1b9", "#e8eaed"
BLUE, AMBER, CRIMSON, SAGE = "#0072b2", "#d98200", "#a3163a", "#71867b"
HALO = withStroke(linewidth=3, foreground="white")  # keeps text legible over lines

_SETTINGS = {
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.hinting": "none",  # letters as wide in the PNG as in the SVG
    "text.parse_math": False,  # a dollar is a dollar
    "svg.fonttype": "path",  # looks the same where DejaVu Sans is not installed
    "svg.hashsalt": "kvcliff",  # element ids are otherwise random
    "figure.dpi": DPI,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "legend.frameon": False,
    "legend.handlelength": 2.5,
    "legend.fontsize": 8,
    "legend.labelcolor": SOFT,
    "ytick.major.size": 0,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": SOFT,
    "xtick.color": FAINT,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
}


def chart_style() -> AbstractContextManager[None]:
    """Return the context in which charts are drawn and saved."""
    return matplotlib.style.context(["default", _SETTINGS])


@contextmanager
def sheet(provenance: str, *, width_in: float = WIDTH_IN) -> Iterator[Figure]:
    """Yield a figure in the charts' style with its small print at the foot; lay it out, once, when it is drawn."""
    with chart_style():
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.03, hspace=0, rect=(0, 0.01, 1, 0.97))
        figure = Figure(figsize=(width_in, HEIGHT_IN), layout=layout)
        figure.supxlabel(fill(provenance, int(17 * width_in)), x=0.02, ha="left", size=7, color=SOFT)
        yield figure
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def headings(axes: Axes, above: Artist, title: str, subtitle: str) -> None:
    """Write the subtitle above an artist and the title above that, flush with the axes."""
    for text, size, weight, color in (
        (fill(subtitle, 100), 9.5, "normal", SOFT),
        (fill(title, 60), 14, "bold", INK),
    ):
        if text:
            above = axes.annotate(
                text,
                (0, 1),
                xycoords=("axes fraction", above),
                xytext=(0, 6),
                textcoords="offset points",
                size=size,
                weight=weight,
                color=color,
            )
