"""Two-class sets in LIBSVM's sparse text format: a label of -1 or +1, then index:value pairs, counted from 1.

The files' addresses are those of the LIBSVM collection, which publishes no checksums; these are the ones that public
loaders record. The data are the Adult census income set of the UCI repository, its covariates made binary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness import DataError
from harness.tasks import DataFile, locate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
_LICENCE = "CC BY 4.0 (UCI Adult, doi:10.24432/C5XW20)"

A9A = DataFile(
    dataset="a9a",
    path="libsvm/a9a",
    sha256="f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
    size=2329875,
    urls=(f"{_LIBSVM}/a9a",),
    licence=_LICENCE,
)
"""Adult, training part: 32,561 rows, 123 binary features, 7,841 of them +1 (income above 50,000)."""

A9A_TEST = DataFile(
    dataset="a9a",
    path="libsvm/a9a.t",
    sha256="1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
    size=1164628,
    urls=(f"{_LIBSVM}/a9a.t",),
    licence=_LICENCE,
)
"""Adult, test part: 16,281 rows, 3,846 of them +1; no row has feature 123."""


def load(file: DataFile, features: int) -> tuple[Array, Array]:
    """Covariates (N, features), dense, and labels (N,) in {-1, +1}; `DataError` where the file is not what it says."""
    from sklearn.datasets import load_svmlight_file

    path = locate(file)
    try:
        table, labels = load_svmlight_file(path, n_features=features, zero_based=False)
    except ValueError as error:
        raise DataError(f"data set {file.dataset}: {path}: {error}") from error
    return table.toarray(), labels
