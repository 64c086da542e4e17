"""The notebook runs from first to last cell in a kernel of its own, and prints what it shows."""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent / "examples" / "first_hour.ipynb"


def texts(notebook):
    """What each cell prints, and how many figures it draws."""
    return [
        (
            "".join(output.text for output in cell.outputs if output.output_type == "stream"),
            sum("image/png" in output.get("data", ()) for output in cell.outputs),
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of the kernel's sockets; those of cells are printed there
def test_runs_and_prints_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    shown = nbformat.read(NOTEBOOK, 4)
    run = nbformat.read(NOTEBOOK, 4)
    NotebookClient(run, timeout=280, resources={"metadata": {"path": tmp_path}}).execute()
    assert texts(run) == texts(shown)
    assert sum(figures for _, figures in texts(run)) == 4
