"""Grey images of digits by a small convolutional network, with unseen images and shifted ones: MNIST, and 8 x 8."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import DataError, param
from harness.tasks import Classification, Network, NetworkTask, Protocol, constant, unseen_metrics
from tasks.datasets import idx
from tasks.gauss_newton import PROVIDED, GaussNewtonProblem
from tasks.shifts import WithShifts, shift_metrics
from tasks.vision import notmnist
from tasks.vision.corruptions import SHIFTS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from harness.tasks import Streams

    Images = tuple[NDArray[Any], NDArray[np.int64]]

MNIST_EPOCH = 600
"""Batches of 100 that 60,000 images make."""
DIGITS_EPOCH = 46
"""Batches of 32 that 1,442 images make."""
HELD_OUT = 5
"""One image of each class out of this many is a test image."""
DIGITS = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
"""The SHA-256 of the 1,797 images and classes, as bytes."""
GENERATED = ("noise", "scrambled")
IMAGES = tuple(notmnist.UNSEEN)


@dataclass(frozen=True, kw_only=True)
class GreyImages(WithShifts, NetworkTask):
    """Ten classes of grey images by two convolutions and two linear layers; the prior is normal.

        U(theta) = -sum_i log softmax(f(x_i; theta))_{y_i} + prior_precision |theta|^2 / 2

    f: convolutions of 3 x 3 to `channels` and to 2 `channels`, each with ReLU and the maxima of 2 x 2 places, a layer
    of `hidden` ReLU units, and the log-odds. No normalisation layers, so exp(-U) is a posterior. Inputs are less the
    mean of the training images' numbers, by their sd. Chains start at PyTorch's own initialisation.

    side    pixels of a side, a multiple of 4
    moments  mean and sd of the numbers of the training images, in [0, 1]
    """

    provides: ClassVar = PROVIDED
    shifts: ClassVar = SHIFTS
    side: ClassVar[int]
    moments: ClassVar[tuple[float, float]]
    in_laws: ClassVar = {"channels": 2, "hidden": 4, "batch": 13, "shifted_rows": 4}

    channels: int = param(16, "[1, inf)", "of the first convolution", source="ours")
    hidden: int = param(32, "[1, inf)", "units of the hidden layer", source="ours")
    batch: int = param(100, "[1, inf)", "n, images in a minibatch", source="ours")  # type: ignore[misc]
    prior_precision: float = param(  # type: ignore[misc]
        3.0, "[0, inf)", "of the prior N(0, I / prior_precision)", source="ours: of 1 to 300, by held-out digits"
    )
    shifted_rows: int = param(1000, "[1, inf)", "the first of the test images, which are shifted", source="ours")  # type: ignore[misc]

    def network(self) -> Network:
        return Network(lambda: small_cnn(self.side, self.channels, self.hidden))

    def images(self, name: str) -> Images:
        """Images (n, side, side) and classes (n,) of "train", "test", or an unseen set (then zeros)."""
        raise NotImplementedError

    def arrays(self, part: str) -> Mapping[str, NDArray[Any]]:
        images, classes = self.images(part)
        return {"x": images, "label": classes}

    def inputs(self, x: Tensor) -> Tensor:
        import torch

        scale = 255 if x.dtype == torch.uint8 else 1
        x = super().inputs(x)[:, None]
        mean, sd = (constant(scale * number, x) for number in self.moments)
        return (x - mean) / sd

    def build(self, streams: Sequence[Streams], device: str) -> GaussNewtonProblem:
        return GaussNewtonProblem(self, streams, device)


def small_cnn(side: int, channels: int, hidden: int) -> nn.Module:
    """Return the network of `GreyImages`."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2 * channels * (side // 4) ** 2, hidden), nn.ReLU(), nn.Linear(hidden, 10),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MnistCNN(GreyImages):
    """MNIST, 60,000 training and 10,000 test images of 28 x 28, by a network of 55,338 weights.

    Unseen: the test images of notMNIST, FashionMNIST and KMNIST, as `notmnist` has them. Shifted: the first
    `shifted_rows` test images, 1,000 unless a budget says otherwise.

    Source: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-Based Learning Applied to Document Recognition", 1998,
    for the data. The network, the prior and the protocol are ours.
    """

    side: ClassVar = 28
    moments: ClassVar = (0.1307, 0.3081)
    size: ClassVar = 60_000
    unseen: ClassVar = {name: name for name in IMAGES}
    datasets: ClassVar = (*idx.MNIST_TRAIN, *idx.MNIST_TEST, *notmnist.UNSEEN.values())
    protocols: ClassVar = (
        Protocol(
            "default",
            "batches of 100, half of the run as burn-in, then four draws an epoch",
            {"smoke": MNIST_EPOCH // 10, "quick": 3 * MNIST_EPOCH, "paper": 40 * MNIST_EPOCH},
            burn_in=0.5,
            thin=MNIST_EPOCH // 4,
            budget_settings={
                "smoke": {"run.thin": 10, "task.channels": 8, "task.shifted_rows": 20},
                "quick": {"task.channels": 8},
            },
        ),
    )

    def images(self, name: str) -> Images:
        if name in {"train", "test"}:
            images, classes = idx.MNIST_TRAIN if name == "train" else idx.MNIST_TEST
            return idx.load(images), idx.load(classes).astype(np.int64)
        images = idx.load(notmnist.UNSEEN[name])
        return images, np.zeros(len(images), dtype=np.int64)


_DIGITS = Protocol(
    "default",
    "batches of 32, half of the run as burn-in, then a draw an epoch",
    {"smoke": 10 * DIGITS_EPOCH, "quick": 100 * DIGITS_EPOCH, "paper": 1000 * DIGITS_EPOCH},
    burn_in=0.5,
    thin=DIGITS_EPOCH,
    budget_settings={"smoke": {"task.shifted_rows": 50}},
)


@dataclass(frozen=True, kw_only=True)
class DigitsCNN(GreyImages):
    """The digits that come with scikit-learn, 1,797 images of 8 x 8, by a network of 20,378 weights; no file is needed.

    Every fifth image of a class, in the order of the data, is a test image: 1,442 are for training, 355 for the test,
    and all of these are shifted. Numbers are those of the data, 0 to 16, by 16.

    Unseen: "noise" has independent uniform numbers, "scrambled" the test images with their 64 pixels in one fixed
    random order. With `unseen_images=files`, as in the protocol `unseen`, they are the sets that `mnist-cnn` meets,
    with two rows of zeros around them and averaged over blocks of 4 x 4, as the digits were made of 32 x 32 pixels.

    Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998, its test set, as in
    `sklearn.datasets.load_digits`. The network, the prior and the protocols are ours.
    """

    side: ClassVar = 8
    moments: ClassVar = (0.3051, 0.3762)
    size: ClassVar = 1442
    datasets: ClassVar = tuple(notmnist.UNSEEN.values())
    metrics: ClassVar = (
        *Classification.metrics, *unseen_metrics(Classification(), (*GENERATED, *IMAGES)),
        *shift_metrics(Classification()),
    )  # fmt: skip
    protocols: ClassVar = (
        _DIGITS,
        replace(
            _DIGITS,
            name="unseen",
            summary="default with notMNIST, FashionMNIST and KMNIST, as images of 8 x 8, as unseen images",
            settings={"task.unseen_images": "files"},
        ),
    )

    hidden: int = param(112, "[1, inf)", "units of the hidden layer", source="ours")
    batch: int = param(32, "[1, inf)", "n, images in a minibatch", source="ours")  # type: ignore[misc]
    unseen_images: str = param(
        "generated", choices=("generated", "files"), meaning="the unseen sets: made here, or of idx files",
        source="ours: the default needs no file",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        names, files = (GENERATED, ()) if self.unseen_images == "generated" else (IMAGES, type(self).datasets)
        metrics = (
            *Classification.metrics, *unseen_metrics(Classification(), names), *shift_metrics(Classification())
        )  # fmt: skip
        object.__setattr__(self, "unseen", {name: name for name in names})
        object.__setattr__(self, "datasets", files)
        object.__setattr__(self, "metrics", metrics)

    def images(self, name: str) -> Images:
        if name in IMAGES:
            images = np.pad(idx.load(notmnist.UNSEEN[name]), ((0, 0), (2, 2), (2, 2)))
            blocks = images.reshape(-1, 8, 4, 8, 4).mean((2, 4)) / 255
            return blocks.astype(np.float32), np.zeros(len(blocks), dtype=np.int64)
        images, classes = digits(name if name == "train" else "test")
        generator = np.random.default_rng(0)
        if name == "noise":
            images = generator.random(images.shape, dtype=np.float32)
        elif name == "scrambled":
            images = images.reshape(-1, 64)[:, generator.permutation(64)].reshape(images.shape)
        return images, classes


@functools.cache
def digits(name: str) -> Images:
    """The images (n, 8, 8) in [0, 1] and classes (n,) of "train" or "test"; `DataError` if scikit-learn has others."""
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    content = images.astype(np.uint8).tobytes() + classes.astype(np.uint8).tobytes()
    if hashlib.sha256(content).hexdigest() != DIGITS:
        raise DataError("scikit-learn's digits are not the 1,797 images that digits-cnn is defined by")
    rank = np.array([np.count_nonzero(classes[:i] == k) for i, k in enumerate(classes)])
    chosen = (rank % HELD_OUT == HELD_OUT - 1) == (name == "test")
    return (images[chosen] / 16).astype(np.float32).reshape(-1, 8, 8), classes[chosen].astype(np.int64)
