"""CIFAR-10 and CIFAR-100 by a residual network of 18 layers, as both papers have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from harness import DataFile, Protocol, Task, UsageError, param
from tasks.datasets import cifar as files
from tasks.datasets.svhn import SVHN, svhn
from tasks.vision.metrics import classifier_metrics

if TYPE_CHECKING:
    from harness import Streams
    from tasks.networks.flat import FlatModule
    from tasks.vision.convolutional import Images, ModuleClassifier

EPOCH_64 = 782
"""Batches of 64 that 50,000 images make."""

REACH = 4
"""Pixels that a crop may be off to each side."""

FILES: Mapping[str, tuple[DataFile, ...]] = {"cifar10": files.CIFAR10, "cifar100": (files.CIFAR100,), "svhn": (SVHN,)}
READERS = {"cifar10": files.cifar10, "cifar100": files.cifar100}

_NARROW: Mapping[str, Mapping[str, Any]] = {
    "smoke": {"task.width": 4, "task.test_images": 250, "run.thin": 1, "run.burn_in": 0.5},
    "quick": {"task.width": 8},
}
"""What makes the short budgets seconds and minutes on two cores: the network as published takes a second a step."""


@dataclass(frozen=True, kw_only=True)
class Cifar(Task):
    """Classes of 32 x 32 images: ResNet-18, cropped and flipped images, prior N(0, I / prior_precision) on all weights.

    U is -log of likelihood and prior over all training images, so a learning rate on the mean loss is h N, and a weight
    decay on it is prior_precision / N. Batch normalisation makes U a function of the batch, no likelihood; with
    `normalisation=filter-response` or `group` exp(-U) is a posterior, up to the random crops and flips.

    A draw is theta and the running statistics of its batch normalisation, which are used as they are. `datasets` and
    `metrics` of the class are all that it can have, those of an object what its settings make it read and report.

    own, other  the data set, and the CIFAR that has other classes
    every       of how many rows and columns of the images one is used

    Sources: R. Zhang et al., "Cyclical Stochastic Gradient MCMC", ICLR 2020, and its code; S. Kim, Q. Song, F. Liang,
    "Stochastic gradient Langevin dynamics with adaptive drifts", 2022, section 5.3 and appendix A.7.
    """

    classes: ClassVar[int]
    own: ClassVar[str]
    other: ClassVar[str]
    every: ClassVar[int] = 1
    mean: ClassVar[tuple[float, float, float]]
    sd: ClassVar[tuple[float, float, float]]
    dtype: ClassVar[str] = "float32"
    opaque: ClassVar = True
    provides: ClassVar = frozenset({"terms", "layout"})
    protocols: ClassVar = (
        Protocol(
            "csgmcmc",
            "200 epochs of batches of 64; the predictive distribution of the draws' mean",
            {"smoke": 80, "quick": 4 * EPOCH_64, "paper": 200 * EPOCH_64},
            seeds=(0, 1, 2),
            thin=EPOCH_64,
            settings={"batch": 64, "prior_precision": 25.0},
            budget_settings=_NARROW,
        ),
        Protocol(
            "csgmcmc-100",
            "csgmcmc with chains of half the length, 100 epochs: the comparison at equal cost",
            {"smoke": 80, "quick": 4 * EPOCH_64, "paper": 100 * EPOCH_64},
            seeds=(0, 1, 2),
            chains=4,
            thin=EPOCH_64,
            settings={"batch": 64, "prior_precision": 25.0},
            budget_settings=_NARROW,
        ),
        Protocol(
            "adaptive-drift",
            "250 epochs of batches of 100; accuracies of single draws, at the ends of the last five epochs",
            {"smoke": 80, "quick": 5 * 500, "paper": 250 * 500},
            burn_in=0.98,
            thin=500,
            settings={"batch": 100, "prior_precision": 25.0, "train_accuracy": True},
            budget_settings={
                "smoke": {**_NARROW["smoke"], "task.train_accuracy": False},
                "quick": {**_NARROW["quick"], "task.train_accuracy": False, "run.burn_in": 0.4},
            },
        ),
    )  # fmt: skip

    batch: int = param(64, "[1, inf)", "n, images in a minibatch", source="Zhang et al. 2020, code")
    prior_precision: float = param(25.0, "[0, inf)", "of all weights", source="weight decay 5e-4 times 50,000, code")  # type: ignore[misc]
    normalisation: str = param(
        "batch", choices=("batch", "filter-response", "group"), meaning="between layers", source="both papers"
    )
    width: int = param(64, "[1, 1024]", "channels of the first stage", source="both papers")
    augment: bool = param(True, meaning="whether training images are cropped and flipped", source="both papers")
    precision: str = param("float32", choices=("float32", "bfloat16"), meaning="of the forward pass", source="ours")
    unseen: str = param(
        "none", choices=("none", "svhn", "cifar", "both"), meaning="sets of other classes: SVHN, the other CIFAR",
        source="changes no number",
    )  # fmt: skip
    train_accuracy: bool = param(
        False, meaning="whether draws are tried on the training images too", source="changes no number"
    )
    by_cycle: bool = param(
        False, meaning="whether what `bench report cycle-weights` needs is kept", source="changes no number"
    )
    train_images: int = param(50_000, "[1, 50000]", "N, the first of the training images", source="all of them")
    test_images: int = param(
        10_000, "[1, 10000]", "the first of the test images, which draws are tried on", source="all"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch > self.train_images:
            raise UsageError(f"task.batch = {self.batch} is more than the {self.train_images} training images")
        strangers = [file for name in self.strangers() for file in FILES[name]]
        metrics = classifier_metrics(self.strangers(), train=self.train_accuracy)
        object.__setattr__(self, "datasets", (*FILES[self.own], *strangers))
        object.__setattr__(self, "metrics", metrics)

    def strangers(self) -> tuple[str, ...]:
        """The unseen sets by name."""
        return {"none": (), "svhn": ("svhn",), "cifar": (self.other,), "both": ("svhn", self.other)}[self.unseen]

    def dim(self) -> int:
        return self.network().dim

    def terms(self) -> int:
        return self.train_images

    def batch_terms(self) -> int:
        return self.batch

    def max_block(self, device: str) -> int:
        return 1

    def for_laws(self) -> Self:
        """The same code in float64 on few small images, uncropped; without batch normalisation, which is no sum."""
        small = type(f"Small{type(self).__name__}", (type(self),), {"dtype": "float64", "every": 2})
        settings = {field.name: getattr(self, field.name) for field in fields(self)} | {
            "width": 2, "normalisation": "group", "augment": False, "batch": 13, "train_images": 40,
            "test_images": 10, "unseen": "none", "train_accuracy": False, "by_cycle": False,
        }  # fmt: skip
        made: Self = small(**settings)
        return made

    def network(self) -> FlatModule:
        """The network as a function of its weights."""
        from tasks.networks.flat import FlatModule
        from tasks.networks.resnet import ResNet18

        return FlatModule(lambda: ResNet18(self.classes, self.width, self.normalisation))

    def images(self, name: str) -> Images:
        """The images of a set: "train", "test", or one of `strangers`."""
        import torch

        from tasks.vision.convolutional import Images

        if name == "svhn":
            pixels = svhn()
            return Images(torch.from_numpy(pixels), torch.zeros(len(pixels), dtype=torch.int64))
        source, part = (READERS[self.own], name) if name in {"train", "test"} else (READERS[name], "test")
        pixels, labels = source(part)
        limit = {"train": self.train_images, "test": self.test_images}.get(name)
        return Images(torch.from_numpy(pixels[:limit, :: self.every, :: self.every]), torch.from_numpy(labels[:limit]))

    def build(self, streams: Sequence[Streams], device: str) -> ModuleClassifier:
        import torch

        from tasks.vision.convolutional import Model, ModuleClassifier

        model = Model(
            self.network(), self.classes, self.mean, self.sd, self.prior_precision, self.precision,
            getattr(torch, self.dtype),
        )  # fmt: skip
        return ModuleClassifier(
            model,
            {name: self.images(name) for name in ("train", "test", *self.strangers())},
            streams,
            device,
            batch=self.batch,
            reach=REACH if self.augment else 0,
            watched={
                "train": self.train_accuracy or self.by_cycle,
                "by_cycle": self.by_cycle,
            },
        )


@dataclass(frozen=True, kw_only=True)
class Cifar10(Cifar):
    """CIFAR-10: 10 classes, 50,000 training and 10,000 test images."""

    classes: ClassVar = 10
    own: ClassVar = "cifar10"
    other: ClassVar = "cifar100"
    mean: ClassVar = (0.4914, 0.4822, 0.4465)
    sd: ClassVar = (0.2023, 0.1994, 0.2010)
    datasets: ClassVar = (*files.CIFAR10, files.CIFAR100, SVHN)
    metrics: ClassVar = classifier_metrics(("svhn", "cifar100"), train=True)


@dataclass(frozen=True, kw_only=True)
class Cifar100(Cifar):
    """CIFAR-100: 100 classes, 50,000 training and 10,000 test images."""

    classes: ClassVar = 100
    own: ClassVar = "cifar100"
    other: ClassVar = "cifar10"
    mean: ClassVar = (0.5071, 0.4867, 0.4408)
    sd: ClassVar = (0.2675, 0.2565, 0.2761)
    datasets: ClassVar = (files.CIFAR100, *files.CIFAR10, SVHN)
    metrics: ClassVar = classifier_metrics(("svhn", "cifar10"), train=True)
