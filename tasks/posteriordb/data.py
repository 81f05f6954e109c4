"""The files of posteriordb: what Stan's data blocks are given, and reference draws.

Version 1.0 of https://github.com/stan-dev/posteriordb. `files.csv` has their checksums and sizes.

Source: M. Magnusson et al., "posteriordb: Testing, Benchmarking and Developing Bayesian Inference Algorithms",
arXiv:2407.04967, 2024.
"""

from __future__ import annotations

import csv
import functools
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import PluginError
from harness.tasks import DataFile, locate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

COMMIT = "28f8d3d6e975315f42aa274a8399f21e07a43b30"
ADDRESS = f"https://raw.githubusercontent.com/stan-dev/posteriordb/{COMMIT}/posterior_database"
FOLDERS = {"data": "data/data", "draws": "reference_posteriors/draws/draws"}
"""The folder of the repository by ours, below posteriordb/ of the data root."""
SHARED = {"eight_schools-eight_schools_centered": "eight_schools-eight_schools_noncentered"}
"""Posteriors whose reference draws are those of another parametrisation."""


@functools.cache
def _files() -> dict[str, DataFile]:
    """Return all files by their path below posteriordb/."""
    with (Path(__file__).with_name("files.csv")).open(newline="") as table:
        return {row["path"]: _file(**row) for row in csv.DictReader(table)}


def _file(path: str, sha256: str, size: str) -> DataFile:
    folder, _, name = path.partition("/")
    return DataFile(
        dataset="posteriordb",
        path=f"posteriordb/{path}",
        sha256=sha256,
        size=int(size),
        urls=(f"{ADDRESS}/{FOLDERS[folder]}/{name}",),
        licence="BSD-3-Clause (stan-dev/posteriordb; the data sets have sources of their own)",
    )


def files(posterior: str) -> tuple[DataFile, DataFile]:
    """Return the files of a posterior, by posteriordb's name "DATA-MODEL": its data, and its reference draws."""
    data, draws = f"data/{posterior.partition('-')[0]}", f"draws/{SHARED.get(posterior, posterior)}"
    try:
        return _files()[f"{data}.json.zip"], _files()[f"{draws}.json.zip"]
    except KeyError as error:
        raise PluginError(f"posteriordb's {posterior!r:.80}: {error} is not a path of files.csv") from None


def load_data(posterior: str) -> dict[str, Any]:
    """Return the data of a posterior by name: numbers and lists of numbers."""
    data: dict[str, Any] = _read(files(posterior)[0])
    return data


def reference_draws(posterior: str) -> dict[str, Array]:
    """Return the reference draws (1000, 10), draws and chains, by the name of the number, such as "theta[1]"."""
    chains = _read(files(posterior)[1])
    return {name: np.array([chain[name] for chain in chains]).T for name in chains[0]}


def _read(file: DataFile) -> Any:
    with zipfile.ZipFile(locate(file)) as archive:
        return json.loads(archive.read(archive.namelist()[0]))
