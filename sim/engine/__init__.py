"""The engine in simulated time: a SimPy process steps it, sessions are SimPy processes around it.

Start with `engine.py`; `clients.py` is who asks, `simulation.py` puts one run together, `record.py` is what
comes out. SimPy appears nowhere below this package.
"""
