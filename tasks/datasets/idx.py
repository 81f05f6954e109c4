"""The family of MNIST: 28 x 28 grey images of ten classes in gzipped idx files, in torchvision's layout.

An idx file is two zero bytes, the type of its numbers (8: bytes), the number of axes, each length as four bytes with
the highest first, and the numbers themselves. Source: Y. LeCun, "The MNIST database of handwritten digits".
"""

from __future__ import annotations

import functools
import gzip
import zlib
from typing import TYPE_CHECKING

import numpy as np

from harness import DataError
from harness.tasks import DataFile, locate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_KMNIST = "http://codh.rois.ac.jp/kmnist/dataset/kmnist"
_NOTMNIST = "https://raw.githubusercontent.com/davidflanagan/notMNIST-to-MNIST/master"


def _file(folder: str, name: str, where: str, sha256: str, size: int, licence: str) -> DataFile:
    return DataFile(
        dataset=folder.lower(),
        path=f"{folder}/raw/{name}-ubyte.gz",
        sha256=sha256,
        size=size,
        urls=(f"{where}/{name}-ubyte.gz",),
        licence=licence,
    )


MNIST_TRAIN = (
    _file("MNIST", "train-images-idx3", _MNIST,
          "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9912422, "CC BY-SA 3.0"),
    _file("MNIST", "train-labels-idx1", _MNIST,
          "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28881, "CC BY-SA 3.0"),
)  # fmt: skip
"""60,000 digits: images and classes."""

MNIST_TEST = (
    _file("MNIST", "t10k-images-idx3", _MNIST,
          "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1648877, "CC BY-SA 3.0"),
    _file("MNIST", "t10k-labels-idx1", _MNIST,
          "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4542, "CC BY-SA 3.0"),
)  # fmt: skip
"""10,000 digits: images and classes."""

NOTMNIST_TEST = _file(
    "notMNIST", "t10k-images-idx3", _NOTMNIST,
    "70ae9e06201f2827e5b0a3781a3169d735dd2efc69996b9eeaee7f10ed4044d7", 3172375, "none stated by the author",
)  # fmt: skip
"""10,000 letters A to J of many fonts, a thousand each, out of notMNIST_small."""

FASHION_TEST = _file(
    "FashionMNIST", "t10k-images-idx3", _FASHION,
    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4422102, "MIT",
)  # fmt: skip
"""10,000 pieces of clothing."""

KMNIST_TEST = _file(
    "KMNIST", "t10k-images-idx3", _KMNIST,
    "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5", 3041136, "CC BY-SA 4.0",
)  # fmt: skip
"""10,000 cursive Japanese characters."""


@functools.lru_cache(maxsize=8)
def load(file: DataFile) -> Bytes:
    """The numbers of a file in their shape, read once: images (N, 28, 28), classes (N,).

    They are not to be written on. `DataError` where it is no idx file.
    """
    path = locate(file)
    try:
        return parse(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(f"data set {file.dataset}: {path}: {error}") from error


def parse(content: bytes) -> Bytes:
    """The numbers that the bytes of an idx file hold; `ValueError` where they are not one of bytes, whole."""
    start = 4 + 4 * content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    if not 0 < start <= len(content):
        raise ValueError("not an idx file of bytes")
    shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
    numbers = np.frombuffer(content, dtype=np.uint8, offset=start)
    if len(numbers) != np.prod(shape):
        raise ValueError(f"an idx file of shape {shape} has {len(numbers)} numbers")
    return numbers.reshape(shape).copy()
