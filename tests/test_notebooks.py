"""Every notebook runs from top to bottom, draws its charts, and is committed without outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))
CHARTS = {"l4_cliff.ipynb": 3}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_committed_without_outputs(path: Path) -> None:
    """Outputs are made by whoever runs it; a diff shows what changed in the text."""
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_runs_and_draws(path: Path, tmp_path: Path) -> None:
    """No cell fails (nbclient raises if one does) and each chart comes out as an image; nothing is written."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    images = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(images) == CHARTS[path.name]
    assert list(tmp_path.iterdir()) == []
