"""CIFAR-10 and CIFAR-100: 50,000 training and 10,000 test images of 32 x 32 in colour, classes in equal shares.

The published files are pickles. They are not unpickled: of their opcodes, which `pickletools` lists, the one long
string holds the pixels, and the numbers behind the key of the labels are the labels.

TensorFlow Datasets (TFDS) has the images in another order, by the MD5 sums of the set's name and their number.
"""

from __future__ import annotations

import functools
import hashlib
import pickletools
import tarfile
from typing import TYPE_CHECKING

import numpy as np

from harness import DataError
from harness.tasks import DataFile, locate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Images = tuple[NDArray[np.uint8], NDArray[np.int64]]

_HOST = "https://www.cs.toronto.edu/~kriz"
_LICENCE = "none stated; cite A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009"
_SIDE = 32
_WHOLE = {"BININT", "BININT1", "BININT2", "INT"}


def _batch(name: str, size: int, sha256: str) -> DataFile:
    return DataFile(
        dataset="cifar10",
        path=f"cifar-10-batches-py/{name}",
        sha256=sha256,
        size=size,
        urls=(f"{_HOST}/cifar-10-python.tar.gz",),
        licence=_LICENCE,
        archive="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    )


CIFAR10_TRAIN = (
    _batch("data_batch_1", 31035704, "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd"),
    _batch("data_batch_2", 31035320, "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8"),
    _batch("data_batch_3", 31035999, "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9"),
    _batch("data_batch_4", 31035696, "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b"),
    _batch("data_batch_5", 31035623, "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154"),
)
CIFAR10_TEST = _batch("test_batch", 31035526, "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831")
CIFAR10 = (*CIFAR10_TRAIN, CIFAR10_TEST)
"""The batches, as torchvision's loader has them."""

CIFAR100 = DataFile(
    dataset="cifar100",
    path="cifar-100-python.tar.gz",
    sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
    size=169001437,
    urls=(f"{_HOST}/cifar-100-python.tar.gz",),
    licence=_LICENCE,
)
"""The archive itself, read as it is."""

HMC_PREDICTIONS = DataFile(
    dataset="cifar10-hmc",
    path="cifar10-hmc/probs.csv",
    sha256="4299e2e90a445fcdc6b20ebfc6f233cb214c1930635c11b3bf9c4b7e1c23b4c6",
    size=2500000,
    urls=("https://raw.githubusercontent.com/izmailovpavel/neurips_bdl_starter_kit/main/data/cifar10/probs.csv",),
    licence="none stated, so it is not shipped; cite P. Izmailov et al., ICML 2021",
)
"""Probabilities of the classes of CIFAR-10's test images, in TFDS order, averaged over draws of full-batch HMC."""


@functools.cache
def cifar10(part: str) -> Images:
    """Images (n, 32, 32, 3) and classes (n,) of "train" or "test"."""
    files = CIFAR10_TRAIN if part == "train" else (CIFAR10_TEST,)
    parts = [parse(locate(file).read_bytes(), "labels", file.path) for file in files]
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def tfds_order(part: str, count: int) -> NDArray[np.int64]:
    """The numbers of the images of a set, "train" or "test" (from 0, in the order of the files), in TFDS order.

    Source: TensorFlow Datasets, core/hashing.py and image_classification/cifar.py: sorted by the MD5 sum of the name of
    the set and the number.
    """
    sums = [hashlib.md5(f"{part}{i}".encode(), usedforsecurity=False).digest() for i in range(count)]
    return np.array(sorted(range(count), key=sums.__getitem__), dtype=np.int64)


@functools.cache
def hmc_predictions() -> NDArray[np.float64]:
    """The probabilities (10000, 10) of `HMC_PREDICTIONS`, in the order of the test file."""
    published = np.loadtxt(locate(HMC_PREDICTIONS))
    probabilities = np.empty_like(published)
    probabilities[tfds_order("test", len(published))] = published
    return probabilities


@functools.cache
def cifar100(part: str) -> Images:
    """Images (n, 32, 32, 3) and the fine classes (n,) of "train" or "test"."""
    member = f"cifar-100-python/{part}"
    with tarfile.open(locate(CIFAR100)) as archive:
        stream = archive.extractfile(member)
        if stream is None:
            raise DataError(f"data set cifar100: {CIFAR100.path} has no {member}")
        return parse(stream.read(), "fine_labels", f"{CIFAR100.path}: {member}")


def parse(pickled: bytes, key: str, where: str) -> Images:
    """The pixels, from planes (3, 32, 32) to (32, 32, 3), and the numbers behind `key`, of one published file."""
    pixels, labels, inside = "", [], False
    try:
        for opcode, value, _ in pickletools.genops(pickled):
            if isinstance(value, str):
                inside = value == key
                pixels = max(pixels, value, key=len)
            elif inside and opcode.name in _WHOLE:
                labels.append(value)
    except (ValueError, IndexError) as error:
        raise DataError(f"data set: {where} is not a file of CIFAR: {error}") from error
    planes = np.frombuffer(pixels.encode("latin-1"), dtype=np.uint8)
    if not labels or len(planes) != len(labels) * 3 * _SIDE * _SIDE:
        raise DataError(f"data set: {where} has {len(planes)} bytes of pixels for {len(labels)} {key}")
    images = planes.reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), np.array(labels, dtype=np.int64)
