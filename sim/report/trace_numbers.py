"""Numbers of a trace as people read them."""

import math


def tokens(count: float) -> str:
    """Return `850`, `12.8k`, `34.1M` or `13.6G`."""
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * factor:
            value = count / factor
            return f"{value:.3g}{unit}" if value < 999.5 else f"{value:,.0f}{unit}"
    return f"{count:.3g}"


def span(duration_s: float) -> str:
    """Return `57 ms`, `9.1 s`, `13.7 min`, `5.2 h` or `3.1 d`."""
    if math.isnan(duration_s):
        return "-"
    if duration_s < 0.9995:
        return f"{duration_s * 1e3:.3g} ms" if duration_s else "0 s"
    for factor, unit, most in ((1, "s", 59.95), (60, "min", 59.5 * 60), (3600, "h", 47.95 * 3600)):
        if duration_s < most:
            return f"{duration_s / factor:.3g} {unit}"
    return f"{duration_s / 86400:,.3g} d"


def percent(share: float) -> str:
    """Return `30.6 %`."""
    return f"{100 * share:.1f} %"


def counted(number: int, one: str, many: str = "") -> str:
    """Return `1 request` or `2,500 requests`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
