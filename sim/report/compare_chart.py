"""One metric of several configurations: each with its own cliff, each knee marked in its colour."""

import math
from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.report.axes import gutter, session_axis, value_axis
from sim.report.knees import Knee, draw_knees, knee_headroom, knee_places
from sim.report.labels import EndLabel, end_labels, label_room_in, limit_label
from sim.report.marks import (
    Look,
    curve,
    drawn_values,
    has_intervals,
    key_marks,
    last_known,
    mark_unknown,
    published_curve,
    say_empty,
)
from sim.report.style import CURVES, MARKERS, chart_style, sheet
from sim.results.points import Interval, Row, by_sessions, humane, number

Curves = Mapping[str, Iterable[Row]]


def compare_chart(
    curves: Curves,
    *,
    title: str,
    metric: str = "ttft_p99_s",
    subtitle: str = "",
    knees: Mapping[str, float | None] | None = None,
    knee_intervals: Mapping[str, tuple[float, float] | None] | None = None,
    published: Curves | None = None,
    limit: float | None = None,
    provenance: str = "",
) -> Figure:
    """Return the chart of one metric against sessions, a curve a configuration, in the order given.

    Durations stand on a log axis in seconds, other metrics on a linear one. `knees`, `knee_intervals` (in
    sessions) and `published` are looked up by the curve's name; `limit` is drawn as a dotted line.
    """
    simulated = {name: by_sessions(rows) for name, rows in curves.items()}
    measured = {name: by_sessions(rows) for name, rows in (published or {}).items()}
    names = list(dict.fromkeys([*simulated, *measured]))
    looks = {name: Look(CURVES[i % len(CURVES)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(names)}
    marked = _knees(knees or {}, knee_intervals or {}, looks)
    with chart_style():
        bands = has_intervals([row for rows in simulated.values() for row in rows], [metric])
        figure, axes = sheet(title, subtitle, provenance, key_marks(published=any(measured.values()), bands=bands))
        draw_curves(axes, simulated, measured, looks, metric, knees=marked, limit=limit)
    return figure


def draw_curves(
    axes: Axes,
    simulated: Mapping[str, Sequence[Row]],
    measured: Mapping[str, Sequence[Row]],
    looks: Mapping[str, Look],
    metric: str,
    *,
    knees: Sequence[Knee] = (),
    limit: float | None = None,
) -> None:
    """Draw curves by name with labels at their ends, knees, and a limit, on axes set around all of them."""
    texts = {name: _end_text(name, simulated.get(name, ()), metric) for name in looks}
    limit_text = "" if limit is None else f"limit {humane(limit, metric)}"
    rows = [row for group in (simulated, measured) for sweep in group.values() for row in sweep]
    counts = [number(row, "sessions") for row in rows]
    last = max(counts, default=1)
    room_in = label_room_in([*texts.values(), limit_text])
    session_axis(axes, counts, label_in=room_in, knees=[knee.sessions for knee in knees])
    places = knee_places(axes, knees)
    values = drawn_values(rows, (), metric)
    headroom = knee_headroom(places)
    value_axis(axes, [*values, math.nan if limit is None else limit], metric, headroom=headroom)
    gutter(axes, last)
    labels: list[EndLabel] = []
    for name, look in looks.items():
        ours, theirs = simulated.get(name, ()), measured.get(name, ())
        curve(axes, ours, metric, look)
        published_curve(axes, theirs, metric, look)
        labels.append(EndLabel(axes, texts[name], *last_known(ours or theirs, metric), look.color))
    if limit is not None:
        labels.append(limit_label(axes, limit, limit_text, last))
    end_labels(axes, labels)
    draw_knees(axes, knees, places)
    if any(math.isfinite(value) for value in values):
        mark_unknown(axes, _blank_everywhere(simulated, metric), [metric])
    else:
        say_empty(axes)


def _end_text(name: str, rows: Sequence[Row], metric: str) -> str:
    """Return `fp8  43.2 s`: whose curve, and where it ends; long names are cut."""
    short = _short(name)
    value = last_known(rows, metric)[1]
    return short if math.isnan(value) else f"{short}  {humane(value, metric)}"


def _short(name: str) -> str:
    return name if len(name) <= 22 else f"{name[:21]}…"


def _knees(
    knees: Mapping[str, float | None],
    known: Mapping[str, tuple[float, float] | None],
    looks: Mapping[str, Look],
) -> list[Knee]:
    """Return the knees of the curves drawn, from left to right."""
    marked = []
    for name, sessions in knees.items():
        if sessions is None or name not in looks:
            continue
        span = known.get(name)
        text = f"{_short(name)} knee: {sessions:g}" + ("" if span is None else f" ({span[0]:g} to {span[1]:g})")
        marked.append(Knee(sessions, text, looks[name].color, None if span is None else Interval(*span)))
    return sorted(marked, key=lambda knee: knee.sessions)


def _blank_everywhere(simulated: Mapping[str, Sequence[Row]], metric: str) -> list[Row]:
    """Return one row for each session count at which no curve has a value."""
    by_count: dict[float, list[Row]] = {}
    for rows in simulated.values():
        for row in rows:
            by_count.setdefault(number(row, "sessions"), []).append(row)
    return [rows[0] for rows in by_count.values() if all(math.isnan(last_known([row], metric)[1]) for row in rows)]
