"""ImageNet by a residual network of 50 layers, from the folder that the user has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import DataError, Protocol, Task, UsageError, param
from tasks.vision.metrics import classifier_metrics

if TYPE_CHECKING:
    from harness import Streams
    from tasks.networks.flat import FlatModule
    from tasks.vision.streamed import StreamedClassifier

EPOCH = 5005
"""Batches of 256 that 1,281,167 images make."""


@dataclass(frozen=True, kw_only=True)
class ImageNet(Task):
    """1,000 classes of photographs, 1,281,167 to train on and 50,000 to be tried on, by torchvision's ResNet-50.

    Training images are random parts at 224 x 224, flipped or not; test images the centre of the image at 256. The prior
    is N(0, I / prior_precision) on all weights. The images are read from `folder`/train/CLASS and `folder`/val/CLASS
    while they are used. They are not among the checked data sets: the folder's name is part of the run, its bytes are
    not, and the number of images is compared with `images`.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC", ICLR 2020, section 5.2: ResNet-50, 120 epochs.
    """

    mean: ClassVar = (0.485, 0.456, 0.406)
    sd: ClassVar = (0.229, 0.224, 0.225)
    dtype: ClassVar[str] = "float32"
    opaque: ClassVar = True
    provides: ClassVar = frozenset({"terms", "layout"})
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
    batch: int = param(256, "[1, inf)", "n, images in a minibatch", source="ours: not stated")
    prior_precision: float = param(128.1, "[0, inf)", "of all weights", source="ours: weight decay 1e-4 times N")  # type: ignore[misc]
    precision: str = param("float32", choices=("float32", "bfloat16"), meaning="of the forward pass", source="ours")
    images: int = param(1_281_167, "[1, inf)", "N, images in train/", source="ILSVRC 2012")
    test_images: int = param(50_000, "[1, inf)", "of those in val/, at equal distances", source="all of them")
    classes: int = param(1000, "[2, inf)", "folders in train/ and val/", source="ILSVRC 2012")
    threads: int = param(8, "[1, 256]", "that decode images", source="changes no number")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch > self.images:
            raise UsageError(f"task.batch = {self.batch} is more than the {self.images} training images")

    def dim(self) -> int:
        return self.network().dim

    def terms(self) -> int:
        return self.images

    def batch_terms(self) -> int:
        return self.batch

    def max_block(self, device: str) -> int:
        return 1

    def network(self) -> FlatModule:
        """The network as a function of its weights."""
        from tasks.networks.flat import FlatModule
        from tasks.networks.resnet import resnet50

        return FlatModule(lambda: resnet50(self.classes))

    def build(self, streams: Sequence[Streams], device: str) -> StreamedClassifier:
        import torch

        from tasks.datasets.imagefolder import ImageFolder
        from tasks.vision.convolutional import Model
        from tasks.vision.streamed import StreamedClassifier

        folders = {name: ImageFolder(self.folder, part, self.classes) for name, part in PARTS.items()}
        train, test = (len(folders[name].paths) for name in ("train", "test"))
        if train != self.images:
            raise DataError(
                f"{folders['train'].place} has {train} images, not {self.images}; where that is meant, "
                f"--set task.images={train}"
            )
        chosen = np.linspace(0, test, min(self.test_images, test), endpoint=False).astype(np.int64)
        model = Model(
            self.network(), self.classes, self.mean, self.sd, self.prior_precision, self.precision,
            getattr(torch, self.dtype),
        )  # fmt: skip
        return StreamedClassifier(
            model, folders, chosen, streams, device,
            batch=self.batch, threads=self.threads,
        )  # fmt: skip


PARTS = {"train": "train", "test": "val"}
"""The sets by the names of their folders."""
