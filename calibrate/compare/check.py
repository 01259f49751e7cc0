"""`--check`: what must hold, so that many good points do not hide a bad one."""

from collections.abc import Mapping, Sequence

from calibrate.compare.errors import ErrorRow, median_error

_GROUP_ALLOWANCE = 2.0  # a group may be twice as far off as the median


def failed_checks(rows: Sequence[ErrorRow], misfits: Mapping[str, float], error_max: float) -> list[str]:
    """Return what is broken: the median |error| over all metrics, or the misfit of any group of them.

    A group's misfit is the root mean square over points, so one point beyond a cliff that the prediction misses weighs
    as much as it should.
    """
    broken = []
    median = median_error(rows)
    if not median <= error_max:
        broken.append(f"median |error| {median:.1%} > {error_max:.0%}")
    most = 1 + _GROUP_ALLOWANCE * error_max
    broken += [
        f"{group} is off by a factor of {factor:.2f} > {most:.2f}"
        for group, factor in misfits.items()
        if not factor <= most
    ]
    return broken
