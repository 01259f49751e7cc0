"""A point: one thing to time, named by the columns of the measurement table that tell it from any other."""

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Point:
    """What to time, in the table's own columns. None and "" are columns this operation does not need."""

    operation: str
    part: str = ""
    weight_dtype: str = ""
    kv_cache_dtype: str = ""
    graph: str = ""  # asked for by launches only; elsewhere the row records what the timing could use
    tokens: int | None = None
    sequences: int | None = None
    new_tokens: int | None = None
    past_tokens: int | None = None
    shared_tokens: int | None = None
    out_features: int | None = None
    in_features: int | None = None
    bytes: int | None = None

    def columns(self) -> dict[str, str | int]:
        """Return the columns this point fills."""
        values = {name: getattr(self, name) for name in FIELDS}
        return {name: value for name, value in values.items() if value not in (None, "")}

    @property
    def key(self) -> tuple[str, ...]:
        """What tells this point from any other, as `row_key` reads it from a row."""
        return row_key({name: str(value) for name, value in self.columns().items()})

    def __str__(self) -> str:
        values = self.columns()
        names = [
            str(values.pop(name))
            for name in ("operation", "part", "weight_dtype", "kv_cache_dtype", "graph")
            if name in values
        ]
        return " ".join([*names, *(f"{name}={value}" for name, value in values.items())])


FIELDS = tuple(field.name for field in fields(Point))
_EXACT = ("operation", "part", "weight_dtype", "kv_cache_dtype")
_SIZES = FIELDS[FIELDS.index("tokens") :]


def row_key(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return the key of the point that a row of the table, as text, belongs to."""
    graph = row.get("graph", "") if row.get("operation") == "launch" else ""
    sizes = (row.get(name) or "" for name in _SIZES)
    return (*(row.get(name) or "" for name in _EXACT), graph, *(size and f"{float(size):.0f}" for size in sizes))
