import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.report.csv_files import write_csv


def read(path: Path) -> list[dict[str, str]]:
    """Return a CSV file's rows."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_floats_come_back_the_same(tmp_path_factory: pytest.TempPathFactory, numbers: list[float]) -> None:
    """To the last bit."""
    path = write_csv(tmp_path_factory.mktemp("csv") / "a.csv", ({"x": number} for number in numbers))
    assert [float(row["x"]) for row in read(path)] == numbers


def test_columns_keep_the_order_in_which_they_appear(tmp_path: Path) -> None:
    """The first row's, then new ones; what a row lacks is empty."""
    path = write_csv(tmp_path / "a.csv", [{"b": 1, "a": None}, {"c": "x,y\n", "b": np.float64(0.1)}])
    assert path.read_bytes() == b'b,a,c\n1,,\n0.1,,"x,y\n"\n'
    assert read(path)[1] == {"b": "0.1", "a": "", "c": "x,y\n"}


def test_no_rows_make_an_empty_file(tmp_path: Path) -> None:
    """Parent folders included."""
    assert write_csv(tmp_path / "new" / "a.csv", []).read_bytes() == b""


def test_a_failure_keeps_what_stood_and_leaves_nothing(tmp_path: Path, left: Callable[[], Any]) -> None:
    """Whether the rows fail or a value does."""
    path = write_csv(tmp_path / "a.csv", [{"x": 1}])

    class Unprintable:
        def __str__(self) -> str:
            raise ValueError("value")

    def broken() -> Iterator[dict[str, int]]:
        yield {"x": 2}
        raise ValueError("rows")

    with pytest.raises(ValueError, match="rows"):
        write_csv(path, broken())
    with pytest.raises(ValueError, match="value"):
        write_csv(path, [{"x": 3}, {"x": Unprintable()}])
    assert left() == ["a.csv"]
    assert path.read_text() == "x\n1\n"
