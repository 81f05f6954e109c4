"""Street View House Numbers, test part: 26,032 images of 32 x 32 in colour, seen by no network of this project."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from harness import DataError
from harness.tasks import DataFile, locate

if TYPE_CHECKING:
    from numpy.typing import NDArray

SVHN = DataFile(
    dataset="svhn",
    path="test_32x32.mat",
    sha256="cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
    size=64275384,
    urls=("http://ufldl.stanford.edu/housenumbers/test_32x32.mat",),
    licence="for non-commercial use only",
)


@functools.cache
def svhn() -> NDArray[np.uint8]:
    """The images, (26032, 32, 32, 3)."""
    from scipy.io import loadmat

    path = locate(SVHN)
    try:
        images = loadmat(path, variable_names=["X"])["X"]
    except (ValueError, KeyError, OSError) as error:
        raise DataError(f"data set svhn: {path}: {error}") from error
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2))
