"""Charts to files: PNG and SVG, the same bytes for the same chart, whole or not at all."""

import warnings
from contextlib import ExitStack
from pathlib import Path

from matplotlib.figure import Figure

from sim.report.atomic import replacing
from sim.report.style import DPI, chart_style

METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": "kvcliff"},
    "svg": {"Creator": "kvcliff", "Date": None},  # no date: it would differ from run to run
}


def save_figure(figure: Figure, path_stem: str | Path) -> list[Path]:
    """Write `<path_stem>.png` and `<path_stem>.svg` and return their paths; parent folders are created.

    Both are written under temporary names and renamed once both are whole. Raises OSError if the place cannot
    be written.
    """
    paths = _paths(Path(path_stem))
    with ExitStack() as stack:
        partials = {kind: stack.enter_context(replacing(path)) for kind, path in paths.items()}
        with chart_style(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # a script the font lacks shows as boxes, the files are whole
            for kind, partial in partials.items():
                figure.savefig(partial, format=kind, dpi=DPI, metadata=METADATA[kind])
    return list(paths.values())


def remove_figure(path_stem: str | Path) -> None:
    """Delete what an earlier `save_figure` left there, if anything; raises OSError if that cannot be done."""
    for path in _paths(Path(path_stem)).values():
        path.unlink(missing_ok=True)


def _paths(stem: Path) -> dict[str, Path]:
    return {kind: stem.with_name(f"{stem.name}.{kind}") for kind in METADATA}
