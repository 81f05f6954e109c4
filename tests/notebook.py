"""Executes docs/notebook.ipynb in an empty folder: `nox -s notebook`.

It fails if a cell fails, or if the leaderboard in the notebook does not have the numbers of
`bench report leaderboard --json`. The executed notebook is written to --out.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"
LEADERBOARD = "leaderboard.write_ndjson('leaderboard.ndjson')"
"""The last cell, which is not in the notebook."""
LIMIT_SECONDS = 900
"""For a cell: the runs take 25 s on two cores."""


def execute(folder: Path, out: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(LEADERBOARD))
    client = NotebookClient(notebook, timeout=LIMIT_SECONDS, resources={"metadata": {"path": str(folder)}})
    try:
        client.execute()
    finally:
        notebook.cells.pop()
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr" or "Warning" not in output["text"], output["text"]


def compare(folder: Path) -> int:
    """The number of records, which are equal in the notebook and on the command line."""
    lines = (folder / "leaderboard.ndjson").read_text(encoding="utf-8").splitlines()
    shown = [json.loads(line) for line in lines]
    command = ["bench", "--json", "report", "leaderboard"]
    told = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)
    assert len(shown) == len(told) > 0
    for one, other in zip(shown, told, strict=True):
        for name, value in other.items():
            if not name.endswith("_text"):  # beside an infinite number, which JSON lacks
                close = isinstance(value, float) and math.isclose(one[name], value, rel_tol=1e-12)
                assert close or one[name] == value, (one["task"], one["method"], one["metric"], name, one[name], value)
    return len(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("notebook.html"), help="the executed notebook as HTML")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        execute(Path(folder), out)
        sys.stdout.write(f"{compare(Path(folder))} records as on the command line; the executed notebook is {out}\n")


if __name__ == "__main__":
    main()
