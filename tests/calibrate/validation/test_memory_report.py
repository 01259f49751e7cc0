from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from calibrate.validation.memory_cases import read_memory_cases
from calibrate.validation.memory_report import print_report
from calibrate.validation.memory_scores import score

CASES = Path(__file__).parents[4] / "shared" / "data" / "capacity_cases" / "cases.jsonl"
pytestmark = pytest.mark.skipif(not CASES.exists(), reason=f"{CASES} is not here")


@pytest.mark.parametrize("width", [80, 100])
def test_no_figure_is_cut(width: int) -> None:
    """Names wrap; a figure that is cut is another figure."""
    cases, left_out = read_memory_cases(CASES)
    scores = [score(case) for case in cases]
    file = StringIO()
    print_report(Console(file=file, width=width, highlight=False), scores, left_out)
    text = file.getvalue()
    assert "…" not in text
    for it in scores:
        if it.given is not None and it.case.tokens is not None:
            assert f" {it.case.tokens:,}  " in text
        if it.seen_kv_bytes is not None and it.predicted is not None:
            assert (
                f"{it.predicted.rank.kv_bytes.low / 2**30:.1f} to {it.predicted.rank.kv_bytes.high / 2**30:.1f}" in text
            )
