"""Files that cannot be written: errors name the file that was asked for."""

from pathlib import Path

import pytest

from sim.report.atomic import replacing


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    """The temporary name means nothing to anybody."""
    path = tmp_path / "result.json"
    with pytest.raises(OSError, match="No such file") as raised, replacing(path) as partial:
        (partial / "below").write_text("")
    assert "below" in raised.value.filename
    with pytest.raises(OSError, match="No such file") as raised, replacing(path) as partial:
        partial.read_text()
    assert (raised.value.filename, list(tmp_path.iterdir())) == (str(path), [])
