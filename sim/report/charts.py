"""The charts in one place. Importing this loads matplotlib, so do it where a chart is wanted, not before."""

from sim.report.bounds_chart import bounds_chart
from sim.report.cliff_chart import cliff_chart
from sim.report.compare_chart import compare_chart
from sim.report.figure_files import remove_figure, save_figure
from sim.report.remedies_chart import remedies_chart
from sim.report.trace_chart import trace_chart

__all__ = [
    "bounds_chart",
    "cliff_chart",
    "compare_chart",
    "remedies_chart",
    "remove_figure",
    "save_figure",
    "trace_chart",
]
