"""The outputs of docs/notebook.ipynb are those of its cells: numbers within a tolerance, pictures by existence."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.numbers

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
NUMBER = re.compile(r"(?<![A-Za-z0-9_])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
TOLERANCE = 1e-3
"""Of each number, relative. The samplers of the notebook have no momentum, so their paths do not separate."""


def committed():
    """The text of each code cell, and whether it has a picture."""
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            data = [output.get("data", {"text/plain": output.get("text", "")}) for output in cell["outputs"]]
            text = "".join("".join(part.get("text/plain", "")) for part in data)
            yield {"text": text, "picture": any("image/png" in part for part in data)}


def parts(text):
    """The words of a text, and its numbers; the lines of tables and the spaces between columns do not count."""
    bare = " ".join(re.sub(r"[\u2500-\u257f]+", " ", text).split())
    return NUMBER.sub("#", bare), [float(number) for number in NUMBER.findall(bare)]


@pytest.mark.slow
def test_the_outputs_are_those_of_the_cells(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "BENCH_RESULTS"}
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "cells.py", NOTEBOOK], cwd=tmp_path, env=environment | {"MPLBACKEND": "agg"},
        check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8",
    )  # fmt: skip
    cells = [*committed()]
    shown = json.loads(done.stdout)
    assert len(shown) == len(cells) > 10
    assert sum(cell is None for cell in shown) <= 1  # ArviZ is not installed everywhere
    assert sum(cell["picture"] for cell in cells) > 2
    for cell, now in zip(cells, shown, strict=True):
        if now is None:
            continue
        if cell["picture"]:
            assert now["picture"]
            continue
        (words, numbers), (words_now, numbers_now) = parts(cell["text"]), parts(now["text"])
        assert words_now == words
        for number, number_now in zip(numbers, numbers_now, strict=True):
            assert math.isclose(number, number_now, rel_tol=TOLERANCE, abs_tol=1e-9), (number, number_now, now["text"])
