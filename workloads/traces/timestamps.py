"""Absolute times as text to seconds since 1970: ISO 8601, any number of fractional digits, with or without a zone."""

import re
from datetime import UTC, datetime

_PARTS = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(\.\d{1,12})?\s*(Z|[+-]\d\d:?\d\d)?", re.ASCII)


def epoch_s(text: str) -> float | None:
    """Return a time in seconds since 1970, without a zone read as UTC; None if the text is no time."""
    found = _PARTS.fullmatch(text.strip())
    if found is None:
        return None
    whole, fraction, zone = found.groups()
    try:
        at = datetime.fromisoformat(whole + (zone or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    if at.year < 1970:
        return None
    at = at if zone else at.replace(tzinfo=UTC)
    return at.timestamp() + float(fraction or 0)
