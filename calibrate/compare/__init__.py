"""A scenario beside what somebody measured: the same load simulated, errors, and which one term explains them.

Read `load.py` (what is sent), `points.py` (both sides of a load point), `terms.py` and `refit.py` (what is re-fitted).
"""
