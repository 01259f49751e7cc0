"""One term of a profile, changed: the new value is a fit's, its old range no longer its own."""

import msgspec

from sim.steptime.profile import Term


def scaled(term: Term, factor: float) -> Term:
    """Return a term times a factor."""
    return _refitted(term, term.value * factor, f"refitted: x{factor:.4g}")


def raised(term: Term, seconds: float) -> Term:
    """Return a term with seconds on top, never below 0."""
    return _refitted(term, max(0.0, term.value + seconds), f"refitted: {seconds * 1e3:+.4g} ms")


def _refitted(term: Term, value: float, note: str) -> Term:
    return msgspec.structs.replace(term, value=value, source="fitted", low=None, high=None, note=note)
