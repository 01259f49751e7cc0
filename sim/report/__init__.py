"""Results for people: charts, tables and CSV files. In goes plain data, out come figures, renderables, files.

charts.py draws (matplotlib), tables.py prints (rich), published_errors.py compares with published figures,
csv_files.py writes. Import the one you need: `sim.report` itself loads none of them, so a plain run pays for
no drawing library.
"""
