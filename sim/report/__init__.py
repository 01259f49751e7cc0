"""Results for people: charts, tables and CSV files. In goes plain data, out come figures, renderables, files.

charts.py draws (matplotlib), tables.py prints (rich), files.py writes. Import the one you need: `sim.report` itself
loads none of them, so a plain run pays for no drawing library.
"""
