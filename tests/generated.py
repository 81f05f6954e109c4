"""Image tasks on images that are made up, for tests that need no data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from tasks.vision.cifar import Cifar10


@dataclass(frozen=True, kw_only=True)
class Generated(Cifar10):
    """Coloured noise of 8 x 8 with classes that show in its mean."""

    datasets: ClassVar = ()
    side: ClassVar[int] = 8

    def images(self, name):
        side = self.side * 2 if self.few else self.side
        size = {"train": self.train_images, "test": self.test_images}.get(name, 20)
        generator = torch.Generator().manual_seed(len(name))
        labels = torch.randint(0, 10, (size,), generator=generator)
        noise = torch.randint(0, 64, (size, side, side, 3), generator=generator)
        return (noise + 18 * labels[:, None, None, None]).numpy().astype(np.uint8), labels.numpy()


class Exact(Generated):
    """The same in float64."""

    dtype: ClassVar[str] = "float64"


SMALL = {"width": 2, "batch": 16, "train_images": 70, "test_images": 30}
"""70 images in batches of 16: the last one of an epoch has 6."""

EVEN_SIDES = {"width": 2, "batch": 8, "train_images": 16, "test_images": 10, "augment": False}
"""Two batches an epoch, none of them short, of images as they are."""
