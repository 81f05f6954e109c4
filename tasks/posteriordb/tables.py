"""Write files.csv and posteriors.csv anew, from the files below BENCH_DATA and the posteriors of this package.

BENCH_DATA=... python -m tasks.posteriordb.tables
"""

from __future__ import annotations

import csv
import hashlib
import pkgutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harness.tasks import Streams, data_root
from tasks import bench_tasks
from tasks.posteriordb.data import FOLDERS

if TYPE_CHECKING:
    from tasks.posteriordb.posterior import Referenced

DRAWS = 100


def curvature(task: Referenced) -> float:
    """Return the median, over 100 reference draws, of the largest eigenvalue of the Hessian of U."""
    problem = task.build([Streams(0, 0, ("curvature",))], "cpu")
    theta = task.unconstrained(task.reference_values())
    hessian = torch.autograd.functional.hessian
    matrices = [hessian(lambda x: problem.energy(x[None], None)[0], x) for x in theta[:: len(theta) // DRAWS]]
    return float(np.median([np.linalg.eigvalsh(each)[-1] for each in matrices]))


def posteriors() -> list[tuple[str, int, str]]:
    """Return the rows of posteriors.csv."""
    tasks = [pkgutil.resolve_name(info.target)() for info in bench_tasks() if info.group == "posteriordb"]
    return [(task.posterior, task.terms(), f"{curvature(task):.4g}") for task in tasks]


def files() -> list[tuple[str, str, int]]:
    """Return the rows of files.csv."""
    root = data_root() / "posteriordb"
    paths = sorted(path for folder in FOLDERS for path in (root / folder).glob("*.json.zip"))
    contents = ((path, path.read_bytes()) for path in paths)
    return [(path.relative_to(root).as_posix(), hashlib.sha256(c).hexdigest(), len(c)) for path, c in contents]


def write(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table beside this module."""
    with Path(__file__).with_name(name).open("w", newline="") as table:
        csv.writer(table, lineterminator="\n").writerows([columns, *rows])


if __name__ == "__main__":
    write("files.csv", ("path", "sha256", "size"), files())
    write("posteriors.csv", ("posterior", "terms", "curvature"), posteriors())
