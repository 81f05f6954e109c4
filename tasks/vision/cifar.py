"""CIFAR-10 and CIFAR-100 by a residual network of 18 layers, as both papers have them, or of 20, as HMC was run on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import param
from harness.tasks import REFERENCE_METRICS, Classification, DataFile, Network, NetworkTask, Protocol
from tasks.datasets import cifar as files
from tasks.datasets.svhn import SVHN, svhn
from tasks.gauss_newton import PROVIDED, GaussNewtonProblem
from tasks.networks.metrics import classifier_metrics
from tasks.shifts import WithShifts, shift_metrics
from tasks.vision.augment import crop_and_flip, normalise
from tasks.vision.corruptions import SHIFTS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, DataProblem, Streams
    from tasks.networks.observer import ClassifierObserver

EPOCH_64 = 782
"""Batches of 64 that 50,000 images make."""

EPOCH_80 = 512
"""Batches of 80 that 40,960 images make."""

REACH = 4
"""Pixels that a crop may be off to each side."""

FILES: Mapping[str, tuple[DataFile, ...]] = {"cifar10": files.CIFAR10, "cifar100": (files.CIFAR100,), "svhn": (SVHN,)}
READERS = {"cifar10": files.cifar10, "cifar100": files.cifar100}

_NARROW: Mapping[str, Mapping[str, Any]] = {
    "smoke": {"task.width": 4, "task.test_images": 250, "run.thin": 1, "run.burn_in": 0.5},
    "quick": {"task.width": 16},
}
"""What makes the short budgets seconds and ten minutes on two cores: the network as published takes a second a step."""

_CSGMCMC = Protocol(
    "csgmcmc",
    "200 epochs of batches of 64; the predictive distribution of the draws' mean",
    {"smoke": 80, "quick": 4 * EPOCH_64, "paper": 200 * EPOCH_64},
    seeds=(0, 1, 2),
    thin=EPOCH_64,
    settings={"task.batch": 64, "task.prior_precision": 25.0},
    budget_settings=_NARROW,
)


@dataclass(frozen=True, kw_only=True)
class Cifar(NetworkTask):
    """Classes of 32 x 32 images by a residual network, prior N(0, I / prior_precision) on all its parameters.

    U is -log of likelihood and prior over all training images, so a learning rate on the mean loss is h N, and a weight
    decay on it is prior_precision / N. Batch normalisation makes U a function of the batch, no likelihood; with
    `normalisation=filter-response` or `group` exp(-U) is a posterior, up to the random crops and flips. `resnet20` has
    swish after the normalisation, `resnet18` what belongs to it, ReLU or max(x, tau).

    A draw is theta and the running statistics of its batch normalisation, which are used as they are. `datasets` and
    `metrics` of the class are all that it can have, those of an object what its settings make it read and report.

    dataset, other  the data set, and the CIFAR that has other classes

    Sources: R. Zhang et al., "Cyclical Stochastic Gradient MCMC", ICLR 2020, and its code; S. Kim, Q. Song, F. Liang,
    "Stochastic gradient Langevin dynamics with adaptive drifts", 2022, section 5.3 and appendix A.7.
    """

    provides: ClassVar = PROVIDED
    classes: ClassVar[int]
    dataset: ClassVar[str]
    other: ClassVar[str]
    mean: ClassVar[tuple[float, float, float]]
    sd: ClassVar[tuple[float, float, float]]
    in_laws: ClassVar = {  # without batch normalisation, which is no sum, and uncropped
        "width": 2, "normalisation": "group", "augment": False, "batch": 13, "train_images": 40, "test_images": 10,
        "unseen": "none", "train_accuracy": False, "by_cycle": False,
    }  # fmt: skip
    protocols: ClassVar = (
        _CSGMCMC,
        replace(
            _CSGMCMC,
            name="csgmcmc-100",
            summary="csgmcmc with chains of half the length, 100 epochs: the comparison at equal cost",
            budgets={**_CSGMCMC.budgets, "paper": 100 * EPOCH_64},
            chains=4,
        ),
        Protocol(
            "adaptive-drift",
            "250 epochs of batches of 100; accuracies of single draws, at the ends of the last five epochs",
            {"smoke": 80, "quick": 5 * 500, "paper": 250 * 500},
            burn_in=0.98,
            thin=500,
            settings={"task.batch": 100, "task.prior_precision": 25.0, "task.train_accuracy": True},
            budget_settings={
                "smoke": {**_NARROW["smoke"], "task.train_accuracy": False},
                "quick": {**_NARROW["quick"], "task.train_accuracy": False, "run.burn_in": 0.4},
            },
        ),
    )  # fmt: skip

    batch: int = param(64, "[1, inf)", "n, images in a minibatch", source="Zhang et al. 2020, code")  # type: ignore[misc]
    prior_precision: float = param(25.0, "[0, inf)", "of all weights", source="weight decay 5e-4 times 50,000, code")  # type: ignore[misc]
    normalisation: str = param(
        "batch", choices=("batch", "filter-response", "group"), meaning="between layers", source="both papers"
    )
    model: str = param("resnet18", choices=("resnet18", "resnet20"), meaning="the network", source="both papers")
    width: int = param(64, "[1, 1024]", "channels of the first stage", source="both papers")
    augment: bool = param(True, meaning="whether training images are cropped and flipped", source="both papers")
    precision: str = param("float32", choices=("float32", "bfloat16"), meaning="of the forward pass", source="ours")  # type: ignore[misc]
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
        strangers = [file for name in self.strangers() for file in FILES[name]]
        metrics = classifier_metrics(self.strangers(), train=self.train_accuracy)
        object.__setattr__(self, "datasets", (*FILES[self.dataset], *strangers))
        object.__setattr__(self, "metrics", metrics)

    def strangers(self) -> tuple[str, ...]:
        """The unseen sets by name."""
        return {"none": (), "svhn": ("svhn",), "cifar": (self.other,), "both": ("svhn", self.other)}[self.unseen]

    def terms(self) -> int:
        return self.train_images

    def build(self, streams: Sequence[Streams], device: str) -> GaussNewtonProblem:
        return GaussNewtonProblem(self, streams, device)

    def network(self) -> Network:
        from tasks.networks.resnet import ResNet18
        from tasks.networks.resnet20 import ResNet20

        build = {"resnet18": ResNet18, "resnet20": ResNet20}[self.model]
        return Network(lambda: build(self.classes, self.width, self.normalisation))

    def images(self, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The images (n, H, W, 3) and classes of a set: "train", "test", or one of `strangers`, whose mean nothing."""
        if name == "svhn":
            return svhn(), np.zeros(len(svhn()), dtype=np.int64)
        source, part = (READERS[self.dataset], name) if name in {"train", "test"} else (READERS[name], "test")
        pixels, labels = source(part)
        used, every = self.used(name), 2 if self.few else 1
        return pixels[used, ::every, ::every], labels[used]

    def used(self, name: str) -> slice | NDArray[np.int64]:
        """Which images of a set are used, of those in its files."""
        return slice({"train": self.train_images, "test": self.test_images}.get(name))

    def arrays(self, part: str) -> Mapping[str, NDArray[Any]]:
        pixels, labels = self.images(part)
        return {"x": pixels, "label": labels}

    def inputs(self, x: Tensor) -> Tensor:
        return normalise(super().inputs(x), *self.scaling())

    def scaling(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """What is taken off the colours, in [0, 1], and what they are divided by."""
        return self.mean, self.sd

    def changes(self, generator: np.random.Generator, shape: tuple[int, int]) -> Tensor | None:
        """Shifts down and right, in 0 ... 2 reach, and flips, (batches, n, 3) uint8."""
        import torch

        if not self.augment:
            return None
        shift = generator.integers(0, 2 * REACH + 1, (*shape, 2), dtype=np.uint8)
        flip = generator.integers(0, 2, (*shape, 1), dtype=np.uint8)
        return torch.from_numpy(np.concatenate([shift, flip], axis=2))

    def change(self, x: Tensor, changes: Tensor) -> Tensor:
        return crop_and_flip(x, changes[:, :2], changes[:, 2] > 0, REACH)

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> ClassifierObserver:
        from tasks.networks.observer import ClassifierObserver

        train = self.train_accuracy or self.by_cycle
        return ClassifierObserver(
            problem, chains, trajectory, cost, train=train, by_cycle=self.by_cycle, unseen=self.strangers()
        )


@dataclass(frozen=True, kw_only=True)
class Cifar10(WithShifts, Cifar):
    """CIFAR-10: 10 classes, 50,000 training and 10,000 test images.

    The protocol `corrupted` is `csgmcmc` with scores on the first 1,000 test images with some of the corruptions of
    CIFAR-10-C, made here by its constants, and rotated (`tasks.vision.corruptions`). They are not the published files.

    The protocol `hmc` is the posterior that full-batch HMC was run on, with the predictions published from it as a
    reference: agreement and total variation compare a run's averaged predictions with them. With `reference=hmc` the
    training images are the first of TFDS's order, as the authors' code takes them, and are scaled by its constants. The
    predictions were published in a competition that does not state its training images or its prior variance, which we
    presume to be the paper's, 1/5; its example has 5, `prior_precision=0.2`.

    Source of `hmc`: P. Izmailov, S. Vikram, M. D. Hoffman, A. G. Wilson, "What Are Bayesian Neural Network Posteriors
    Really Like?", ICML 2021, and its code, google-research/bnn_hmc.
    """

    classes: ClassVar = 10
    dataset: ClassVar = "cifar10"
    other: ClassVar = "cifar100"
    mean: ClassVar = (0.4914, 0.4822, 0.4465)
    sd: ClassVar = (0.2023, 0.1994, 0.2010)
    datasets: ClassVar = (*files.CIFAR10, files.HMC_PREDICTIONS, files.CIFAR100, SVHN)
    metrics: ClassVar = (
        *classifier_metrics(("svhn", "cifar100"), train=True), *REFERENCE_METRICS, *shift_metrics(Classification())
    )  # fmt: skip
    in_laws: ClassVar = {**Cifar.in_laws, "shifted_rows": 4}
    protocols: ClassVar = (
        *Cifar.protocols,
        Protocol(
            "hmc",
            "10,000 epochs of batches of 80; predictions against those published from full-batch HMC",
            {"smoke": 200, "quick": 4 * EPOCH_80, "paper": 10_000 * EPOCH_80},
            seeds=(0, 1, 2),
            burn_in=0.1,
            thin=10 * EPOCH_80,
            settings={
                "task.model": "resnet20", "task.normalisation": "filter-response", "task.width": 16, "task.batch": 80,
                "task.prior_precision": 5.0, "task.augment": False, "task.train_images": 40_960,
                "task.reference": "hmc",
            },
            budget_settings={
                "smoke": {**_NARROW["smoke"], "run.thin": 20},
                "quick": {"task.width": 8, "task.test_images": 1000, "run.thin": 20, "run.burn_in": 0.5},
            },
        ),
        replace(
            _CSGMCMC,
            name="corrupted",
            summary="csgmcmc, also on corrupted and rotated test images",
            settings={**_CSGMCMC.settings, "task.corrupted": True},
            budget_settings={**_NARROW, "smoke": {**_NARROW["smoke"], "task.shifted_rows": 20, "run.thin": 20}},
        ),
    )  # fmt: skip

    reference: str = param(
        "none", choices=("none", "hmc"), source="both papers have none",
        meaning="hmc: predictions are compared with HMC's, images ordered and scaled as in its code",
    )  # fmt: skip
    corrupted: bool = param(
        False, meaning="whether test images are also corrupted and rotated", source="changes no number", later=True
    )
    shifted_rows: int = param(  # type: ignore[misc]
        1000, "[1, 10000]", "the first of the test images, which are corrupted", source="ours", later=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.corrupted:
            object.__setattr__(self, "shifts", SHIFTS)
            object.__setattr__(self, "metrics", (*self.metrics, *shift_metrics(self.likelihood)))
        if self.reference == "hmc":
            object.__setattr__(self, "datasets", (*self.datasets, files.HMC_PREDICTIONS))
            object.__setattr__(self, "metrics", (*self.metrics, *REFERENCE_METRICS))

    def used(self, name: str) -> slice | NDArray[np.int64]:
        first = super().used(name)
        return files.tfds_order("train", 50_000)[first] if self.reference == "hmc" and name == "train" else first

    def scaling(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        return ((0.49, 0.48, 0.44), (0.2, 0.2, 0.2)) if self.reference == "hmc" else super().scaling()

    def arrays(self, part: str) -> Mapping[str, NDArray[Any]]:
        arrays = super().arrays(part)
        if self.reference == "none" or part != "test":
            return arrays
        return {**arrays, "reference": files.hmc_predictions()[: len(arrays["label"])]}


@dataclass(frozen=True, kw_only=True)
class Cifar100(Cifar):
    """CIFAR-100: 100 classes, 50,000 training and 10,000 test images."""

    classes: ClassVar = 100
    dataset: ClassVar = "cifar100"
    other: ClassVar = "cifar10"
    mean: ClassVar = (0.5071, 0.4867, 0.4408)
    sd: ClassVar = (0.2675, 0.2565, 0.2761)
    datasets: ClassVar = (files.CIFAR100, *files.CIFAR10, SVHN)
    metrics: ClassVar = classifier_metrics(("svhn", "cifar10"), train=True)
