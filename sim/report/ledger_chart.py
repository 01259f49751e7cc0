"""The memory ledger as a picture: a stacked bar a GPU on an axis in GiB, with what that means at its end.

Of a pipeline each stage has a bar. A whisker shows between where KV may begin; red hatching, what does not fit; what is
too thin for its label has it above the bar. Importing this loads matplotlib.
"""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from sim.errors import MemoryLedgerError, one_of
from sim.memory import MemoryLedger, RankMemory, SglangPools
from sim.memory.binding import replicas_of, total_concurrency
from sim.memory.parts import (
    ACTIVATION,
    DYNAMIC,
    GRAPHS,
    KV,
    LEFT,
    MEASURED,
    MEASURED_WITH_GRAPHS,
    OUTSIDE_TORCH,
    STATES,
    WEIGHTS,
)
from sim.memory.verdict import verdict_of
from sim.report.atomic import replacing
from sim.report.figure_files import METADATA
from sim.report.ledger_leaders import Thin, write_leaders
from sim.report.ledger_stack import Segment, Stack, stack_of
from sim.report.ledger_titles import common_title
from sim.report.style import CRIMSON, DPI, FAINT, HALO, INK, SOFT, chart_style, headings, sheet
from sim.units import GIB, gib

Ledgers = Mapping[str, MemoryLedger | SglangPools]

WIDTH_IN = 11.0
_FRAME_IN, _ROW_IN = 1.75, 0.88  # height of title, axis and key; of one bar
_AXIS_IN = 7.0  # about, beside names and results
_NAME_LETTERS = 30  # of a line of a bar's name
_BAR = 0.52  # of a row
_LOWER = 0.13  # of a row: labels stand so far above its middle, whiskers below
_GONE = "#f4f5f6"
_COLORS = {  # of Okabe and Ito, told apart without full colour vision; neighbours differ in lightness, too
    WEIGHTS: "#0072b2",
    ACTIVATION: "#e69f00",
    MEASURED: "#e69f00",
    MEASURED_WITH_GRAPHS: "#e69f00",
    OUTSIDE_TORCH: "#cc79a7",
    GRAPHS: "#d55e00",
    STATES: "#56b4e9",
    KV: "#009e73",
    LEFT: _GONE,
    DYNAMIC: _GONE,
}
_DARK_TEXT = {ACTIVATION, MEASURED, MEASURED_WITH_GRAPHS, STATES, LEFT, DYNAMIC, OUTSIDE_TORCH}


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    stack: Stack
    result: str  # at the right end
    note: str
    refused: bool


def draw_bars(ledgers: Ledgers, path: Path, *, title: str = "", provenance: str = "") -> None:
    """Write the chart of one or more ledgers by name; what `path` ends in, .png or .svg, says which.

    The same ledgers give the same bytes. Raises MemoryLedgerError for another ending, OSError if the place cannot be
    written.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in METADATA:
        raise MemoryLedgerError(f"{path}: the ending of a chart's file {one_of(path.suffix, ('.png', '.svg'))}")
    figure = bars_chart(ledgers, title=title, provenance=provenance)
    with replacing(path) as partial, chart_style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a script the font lacks shows as boxes, the file is whole
        figure.savefig(partial, format=kind, dpi=DPI, metadata=METADATA[kind])


def bars_chart(ledgers: Ledgers, *, title: str = "", provenance: str = "") -> Figure:
    """Return the figure of one or more ledgers, in the order given, a bar a GPU that differs."""
    named = list(ledgers.items())
    if len(named) == 1:  # the title says what it is
        named = [("", named[0][1])]
    rows = [row for name, ledger in named for row in _rows(name, ledger)]
    if not rows:
        raise MemoryLedgerError("there is no ledger to draw")
    with sheet(provenance, width_in=WIDTH_IN) as figure:
        figure.set_figheight(_FRAME_IN + _ROW_IN * len(rows))
        axes = figure.add_subplot()
        _axis(axes, rows)
        for number, row in enumerate(rows):
            _draw(axes, number, row)
        headings(axes, _key(axes, rows), title or common_title(tuple(ledgers.values())), "")
    return figure


def _rows(called: str, ledger: MemoryLedger | SglangPools) -> Iterator[_Row]:
    name = _wrapped(called)
    if isinstance(ledger, SglangPools):
        tokens = f"{ledger.kv_cache_tokens.likely:,} tokens"
        yield _row(name, stack_of(ledger), ledger, tokens, ledger.context_length)
        return
    for number, rank in enumerate(ledger.ranks):
        many = len(ledger.ranks) > 1
        stage = f"stage {number}: layers {rank.layers.start} to {rank.layers.stop - 1}" if many else ""
        label = "\n".join(part for part in (name if not number else "", stage) if part)
        yield _of_rank(label, ledger, rank)


def _wrapped(name: str) -> str:
    """Return a name in lines that part flags, not a flag from its value."""
    pieces = re.split(r"\s+(?=-)", name.strip())
    kept = " ".join(piece.replace(" ", "\u00a0") for piece in pieces)
    return fill(kept, _NAME_LETTERS, break_on_hyphens=False).replace("\u00a0", " ")


def _of_rank(label: str, ledger: MemoryLedger, rank: RankMemory) -> _Row:
    blocks = f"{rank.blocks.likely:,} blocks"
    if rank is ledger.rank:
        return _row(label, stack_of(ledger, rank), ledger, blocks, ledger.limits.max_model_len)
    holds = f"{gib(rank.kv_bytes.likely)} of KV"
    return _Row(label, stack_of(ledger, rank), blocks, holds, refused=rank.kv_bytes.likely < 0)


def _row(name: str, stack: Stack, ledger: MemoryLedger | SglangPools, amount: str, longest: int) -> _Row:
    if ledger.refusal is not None:
        missing = f"{gib(stack.short_bytes)} short" if stack.short_bytes else f"too little for {longest:,} tokens"
        if not isinstance(ledger, MemoryLedger):
            return _Row(name, stack, "refused", missing, refused=True)
        would = f"\n{ledger.largest_max_model_len:,} would start" if ledger.largest_max_model_len else ""
        probably = "probably " if verdict_of(ledger).is_open else ""
        return _Row(name, stack, f"{probably}refused", missing + would, refused=True)
    holds = f"{total_concurrency(ledger):,.2f}x of {longest:,} tokens"
    if (replicas := replicas_of(ledger)) == 1:
        return _Row(name, stack, amount, holds, refused=False)
    return _Row(name, stack, f"{replicas} x {amount}", f"{holds}\non {replicas} replicas", refused=False)


def _axis(axes: Axes, rows: Sequence[_Row]) -> None:
    end = 1.004 * max(row.stack.end_bytes for row in rows) / GIB
    axes.set_xlim(0, end)
    axes.set_ylim(len(rows) - 0.42, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(9, steps=[1, 2, 4, 5, 8, 10]))
    axes.set_xlabel("GiB of one GPU")
    axes.set_yticks(range(len(rows)), [row.name for row in rows], color=INK)
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")


def _draw(axes: Axes, number: int, row: _Row) -> None:
    stack = row.stack
    thin = [label for segment in stack.segments if (label := _segment(axes, number, segment)) is not None]
    write_leaders(axes, number - _BAR / 2, thin, axis_in=_AXIS_IN)
    _outline(axes, number, stack)
    if stack.short is not None:
        _short(axes, number, stack.short)
    if stack.kv_starts_between is not None:
        _whisker(axes, number, *stack.kv_starts_between)
    color = CRIMSON if row.refused else INK
    for text, up, size, weight in ((row.result, 1, 11, "bold"), (row.note, -2, 8, "normal")):
        axes.annotate(
            text,
            (1, number),
            xycoords=("axes fraction", "data"),
            xytext=(8, up),
            textcoords="offset points",
            size=size,
            weight=weight,
            color=color if weight == "bold" else SOFT,
            va="bottom" if up > 0 else "top",
            annotation_clip=False,
        )


def _whisker(axes: Axes, number: int, low: int, high: int) -> None:
    half = (high - low) / 2 / GIB
    axes.errorbar(
        low / GIB + half,
        number + _LOWER,
        xerr=half,
        color=INK,
        capsize=4,
        linewidth=1.4,
        path_effects=[HALO],
        zorder=6,
    )


def _segment(axes: Axes, number: int, segment: Segment) -> Thin | None:
    """Draw a part with its label; return the label where there is no room for it."""
    width = (segment.end_bytes - segment.start_bytes) / GIB
    if not width:
        return None
    start = segment.start_bytes / GIB
    gap = 0.8 if width > axes.get_xlim()[1] / 150 else 0  # a white edge would hide a thin part
    axes.barh(number, width, _BAR, left=start, color=_COLORS[segment.name], edgecolor="white", linewidth=gap, zorder=3)
    label = _label(axes, segment, width)
    if not label:
        return Thin(start + width / 2, f"{segment.name} {segment.size_bytes / GIB:.2f}")
    color = INK if segment.name in _DARK_TEXT else "white"
    if segment.name in {LEFT, DYNAMIC}:
        color = SOFT
    axes.text(
        start + width / 2,
        number - _LOWER,
        label,
        ha="center",
        va="center",
        size=8,
        color=color,
        bbox={"facecolor": _COLORS[segment.name], "edgecolor": "none", "pad": 1},  # over hatching, too
        zorder=7,
    )
    return None


def _label(axes: Axes, segment: Segment, width: float) -> str:
    """Return name and size where they fit, else the size, else nothing; a letter is about 0.065 inch."""
    room = width / axes.get_xlim()[1] * _AXIS_IN / 0.068
    size = f"{segment.size_bytes / GIB:.1f}"
    return next((text for text in (f"{segment.name}  {size}", size) if len(text) + 1 < room), "")


def _outline(axes: Axes, number: int, stack: Stack) -> None:
    """Draw the GPU as a frame around its bar, and the budget as a tick through it."""
    axes.barh(number, stack.visible_bytes / GIB, _BAR, color="none", edgecolor=INK, linewidth=0.9, zorder=6.5)
    at = stack.budget_bytes / GIB
    half = _BAR / 2 + 0.06
    axes.plot([at, at], [number - half, number + half], color=INK, linewidth=1.4, linestyle=(0, (2, 1.2)), zorder=6)


def _short(axes: Axes, number: int, short: tuple[int, int]) -> None:
    start, end = (edge / GIB for edge in short)
    axes.barh(
        number, end - start, _BAR, left=start, color="none", edgecolor=CRIMSON, hatch="////", linewidth=1.2, zorder=6
    )


def _key(axes: Axes, rows: Sequence[_Row]) -> Artist:
    """Write the key above the bars: the parts that are drawn, then the marks."""
    drawn = {part.name for row in rows for part in row.stack.segments if part.end_bytes > part.start_bytes}
    handles: list[object] = [
        Patch(facecolor=color, edgecolor=FAINT if color == _GONE else "none", label=name)
        for name, color in _COLORS.items()
        if name in drawn
    ]
    handles += axes.plot([], [], color=INK, linewidth=1.4, linestyle=(0, (2, 1.2)), label="budget")
    if any(row.stack.kv_starts_between for row in rows):
        handles += axes.plot([], [], color=INK, linewidth=1.4, marker="|", label="KV may begin between")
    if any(row.stack.short is not None for row in rows):
        handles.append(Patch(facecolor="none", edgecolor=CRIMSON, hatch="////", label="does not fit"))
    handles.append(Patch(facecolor="none", edgecolor=INK, label="visible memory"))
    columns = -(-len(handles) // 2)
    return axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        borderpad=0,
        ncols=columns,
        handlelength=1.4,
        numpoints=2,  # marks at both ends of a whisker
        columnspacing=1.6,
    )
