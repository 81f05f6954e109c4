"""Executes docs/notebook.ipynb in an empty folder and writes it with its outputs: `nox -s notebook`.

tests/report/test_notebook.py compares the outputs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"
LIMIT_SECONDS = 600
"""For a cell."""


def lasting(output):
    """Return whether an output is that of every execution: neither progress nor what is said on stderr."""
    if output["output_type"] == "display_data":
        return "image/png" in output["data"]
    return output.get("name") != "stderr"


def main() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=LIMIT_SECONDS, resources={"metadata": {"path": folder}}).execute()
    notebook.metadata.language_info = {"name": "python"}  # without versions
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr" or "Warning" not in output["text"], output["text"]
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if lasting(output)]
    nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
    main()
