"""Public measurement files into the measurement table, one module a publisher."""
