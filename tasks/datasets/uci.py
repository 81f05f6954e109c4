"""Statlog sets of the UCI repository: blanks between values, the class in the last column, no header.

Licence of the data: CC BY 4.0. UCI publishes no checksums; these are the ones that public loaders record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness import DataError
from harness.tasks import DataFile, locate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog"

AUSTRALIAN = DataFile(
    dataset="australian",
    path="uci/australian.dat",
    sha256="3abe5af151afa50b999a9ba21cbc884e80d80a4050b716cf88b34a2e6ecb731c",
    size=28735,
    urls=(f"{_UCI}/australian/australian.dat",),
    licence="CC BY 4.0, doi:10.24432/C59012",
)
"""Statlog Australian Credit Approval: 690 rows, 14 attributes, class 0 or 1."""

GERMAN = DataFile(
    dataset="german",
    path="uci/german.data-numeric",
    sha256="2752b044394958ab6dd193a0b56ca0f0b3a2d8bc7cb8c008e35a5e84bbec02f8",
    size=102000,
    urls=(f"{_UCI}/german/german.data-numeric",),
    licence="CC BY 4.0, doi:10.24432/C5NC77",
)
"""Statlog German Credit, numeric: 1000 rows, 24 attributes, class 1 (good) or 2 (bad)."""

HEART = DataFile(
    dataset="heart",
    path="uci/heart.dat",
    sha256="f5f3b4204c285bafadd85cb735f38b47689f2be7047feb172dcbeab648110bf9",
    size=16461,
    urls=(f"{_UCI}/heart/heart.dat",),
    licence="CC BY 4.0, doi:10.24432/C57303",
)
"""Statlog Heart: 270 rows, 13 attributes, class 1 (absence) or 2 (presence of disease)."""

LANDSAT_TRAIN = DataFile(
    dataset="landsat",
    path="uci/sat.trn",
    sha256="e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613",
    size=525830,
    urls=(f"{_UCI}/satimage/sat.trn",),
    licence="CC BY 4.0, doi:10.24432/C55887",
)
"""Statlog Landsat Satellite: 4435 rows to train on, 36 attributes, class 1, 2, 3, 4, 5 or 7."""

LANDSAT_TEST = DataFile(
    dataset="landsat",
    path="uci/sat.tst",
    sha256="4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479",
    size=236745,
    urls=(f"{_UCI}/satimage/sat.tst",),
    licence="CC BY 4.0, doi:10.24432/C55887",
)
"""The same: 2000 rows to test on."""


def load(file: DataFile) -> tuple[Array, NDArray[np.int64]]:
    """Attributes (N, columns) and classes (N,) as they stand in the file; `DataError` where it is not what it says."""
    path = locate(file)
    try:
        table = np.loadtxt(path, ndmin=2)
    except ValueError as error:
        raise DataError(f"data set {file.dataset}: {path}: {error}") from error
    return table[:, :-1], table[:, -1].astype(np.int64)


def standardise(attributes: Array) -> Array:
    """(x - mean) / sd by column, sd with divisor N."""
    return np.asarray((attributes - attributes.mean(axis=0)) / attributes.std(axis=0))
