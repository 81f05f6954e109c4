"""ImageNet by a residual network of 50 layers, from the folder that the user has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import DataError, param
from harness.tasks import Network, NetworkTask, Protocol
from tasks.networks.metrics import classifier_metrics
from tasks.vision.augment import normalise

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, DataProblem, Streams
    from tasks.datasets.imagefolder import ImageFolder
    from tasks.networks.observer import ClassifierObserver
    from tasks.vision.streamed import StreamedProblem

EPOCH = 5005
"""Batches of 256 that 1,281,167 images make."""


@dataclass(frozen=True, kw_only=True)
class ImageNet(NetworkTask):
    """1,000 classes of photographs, 1,281,167 to train on and 50,000 to be tried on, by torchvision's ResNet-50.

    Training images are random parts at 224 x 224, flipped or not; test images the centre of the image at 256. The prior
    is N(0, I / prior_precision) on all weights. The images are read from `folder`/train/CLASS and `folder`/val/CLASS
    while they are used. They are not among the checked data sets: the folder's name is part of the run, its bytes are
    not, and the number of images is compared with `images`.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC", ICLR 2020, section 5.2: ResNet-50, 120 epochs.
    """

    mean: ClassVar = (0.485, 0.456, 0.406)
    sd: ClassVar = (0.229, 0.224, 0.225)
    metrics: ClassVar = classifier_metrics(top=True)
    protocols: ClassVar = (
        Protocol(
            "csgmcmc",
            "120 epochs of batches of 256; the predictive distribution of the draws' mean",
            {"smoke": 30, "quick": EPOCH, "paper": 120 * EPOCH},
            seeds=(0,),
            thin=EPOCH,
            budget_settings={"smoke": {"task.test_images": 256, "run.thin": 1, "run.burn_in": 0.5}},
        ),
    )

    folder: str | None = param(
        None, meaning="with train/ and val/; none: imagenet/ in the data folder", source="the data"
    )
    batch: int = param(256, "[1, inf)", "n, images in a minibatch", source="ours: not stated")  # type: ignore[misc]
    prior_precision: float = param(128.1, "[0, inf)", "of all weights", source="ours: weight decay 1e-4 times N")  # type: ignore[misc]
    precision: str = param("float32", choices=("float32", "bfloat16"), meaning="of the forward pass", source="ours")  # type: ignore[misc]
    images: int = param(1_281_167, "[1, inf)", "N, images in train/", source="ILSVRC 2012")
    test_images: int = param(50_000, "[1, inf)", "of those in val/, at equal distances", source="all of them")
    classes: int = param(1000, "[2, inf)", "folders in train/ and val/", source="ILSVRC 2012")
    threads: int = param(8, "[1, 256]", "that decode images", source="changes no number")

    def terms(self) -> int:
        return self.images

    def network(self) -> Network:
        from tasks.networks.resnet import resnet50

        return Network(lambda: resnet50(self.classes))

    def files(self, part: str) -> ImageFolder:
        """The images of "train" or "test"."""
        from tasks.datasets.imagefolder import ImageFolder

        images = ImageFolder(self.folder, PARTS[part], self.classes)
        if part == "train" and len(images.paths) != self.images:
            raise DataError(
                f"{images.root} has {len(images.paths)} images, not {self.images}; where that is meant, "
                f"--set task.images={len(images.paths)}"
            )
        return images

    def rows(self, part: str, files: ImageFolder) -> NDArray[np.int64]:
        """The images of a set that are used, by their places in its folder."""
        count = len(files.paths)
        used = count if part == "train" else min(self.test_images, count)
        return np.linspace(0, count, used, endpoint=False).astype(np.int64)

    def inputs(self, x: Tensor) -> Tensor:
        return normalise(super().inputs(x), self.mean, self.sd)

    def changes(self, generator: np.random.Generator, shape: tuple[int, int]) -> Tensor:
        """A seed for each image, of which its part and its flip are drawn, (batches, n)."""
        import torch

        return torch.from_numpy(generator.integers(0, 2**63, shape, dtype=np.int64))

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> ClassifierObserver:
        from tasks.networks.observer import ClassifierObserver

        return ClassifierObserver(problem, chains, trajectory, cost)

    def build(self, streams: Sequence[Streams], device: str) -> StreamedProblem:
        from tasks.vision.streamed import StreamedProblem

        return StreamedProblem(self, streams, device)


PARTS = {"train": "train", "test": "val"}
"""The sets by the names of their folders."""
