"""The charts in one place. Importing this loads matplotlib, so do it where a chart is wanted, not before."""

from sim.report.bounds_chart import bounds_chart
from sim.report.cliff_chart import cliff_chart
from sim.report.compare_chart import compare_chart
from sim.report.figure_files import save_figure

__all__ = ["bounds_chart", "cliff_chart", "compare_chart", "save_figure"]
