"""Recorded traces: one file a format, each read row by row, and `trace.py` that makes requests of the rows.

A format is a function from a path to its rows, in order; adding one is a file and a line here.
"""

from workloads.traces import vidur
from workloads.traces.row import TraceRow
from workloads.traces.trace import Trace, TraceTotals, read_trace

FORMATS = {"vidur": vidur.rows}

__all__ = ["FORMATS", "Trace", "TraceRow", "TraceTotals", "read_trace"]
