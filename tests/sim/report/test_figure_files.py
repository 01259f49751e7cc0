import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from sim.report.charts import cliff_chart, save_figure

Rows = list[dict[str, Any]]


def test_the_same_chart_gives_the_same_bytes(points: Rows, tmp_path: Path) -> None:
    """Saved twice, and drawn anew."""
    figure = cliff_chart(points, title="t", knee_sessions=14)
    first = save_figure(figure, tmp_path / "first")
    again = save_figure(figure, tmp_path / "again")
    anew = save_figure(cliff_chart(points, title="t", knee_sessions=14), tmp_path / "anew")
    for one, two, three in zip(first, again, anew, strict=True):
        assert one.read_bytes() == two.read_bytes() == three.read_bytes()


def test_both_kinds_are_written_under_the_stem(points: Rows, tmp_path: Path, left: Callable[[], Any]) -> None:
    """Dots in the stem are part of it; parent folders are made; nothing else is left."""
    paths = save_figure(cliff_chart(points, title="t"), tmp_path / "new" / "l4.fp8")
    assert paths == [tmp_path / "new" / "l4.fp8.png", tmp_path / "new" / "l4.fp8.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in paths[1].read_bytes()
    assert left() == ["l4.fp8.png", "l4.fp8.svg", "new"]


def test_no_date_is_written(points: Rows, tmp_path: Path) -> None:
    """A date would differ from run to run."""
    _, svg = save_figure(cliff_chart(points, title="t"), tmp_path / "c")
    assert b"date" not in svg.read_bytes()


def test_a_failure_keeps_what_stood_and_leaves_nothing(
    points: Rows, tmp_path: Path, left: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither half a file nor a new PNG beside an old SVG."""
    figure = cliff_chart(points, title="t")
    before = [path.read_bytes() for path in save_figure(figure, tmp_path / "c")]
    real = Figure.savefig

    def fails_for_svg(self: Figure, fname: Path, **settings: Any) -> None:
        real(self, fname, **settings)
        if settings["format"] == "svg":
            raise OSError("disk full")

    monkeypatch.setattr(Figure, "savefig", fails_for_svg)
    with pytest.raises(OSError, match="disk full"):
        save_figure(cliff_chart(points[:2], title="other"), tmp_path / "c")
    assert left() == ["c.png", "c.svg"]
    assert [(tmp_path / name).read_bytes() for name in left()] == before


def test_the_package_alone_loads_no_drawing_library() -> None:
    """Nor do charts load pyplot, which keeps state; nor does the comparison load rich."""
    code = (
        "import sys, sim.report, sim.report.csv_files, sim.results.published_errors\n"
        "print(*({'matplotlib', 'rich', 'numpy', 'pandas'} & set(sys.modules)))\n"
        "import sim.report.charts\n"
        "print(*({'matplotlib.pyplot', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.split() == []
