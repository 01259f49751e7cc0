"""Results of load tests, whatever tool wrote them, as one table: `run.py` is its row; one file a format reads it."""
