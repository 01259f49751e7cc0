"""Public measurements as measurement tables: one module a publisher, each with `LAYOUTS` and `read(path)`."""
