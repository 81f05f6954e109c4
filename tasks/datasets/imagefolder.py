"""Image sets in folders, part/class/image: ImageNet as everyone unpacks it. Decoded on demand, by threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness import DataError
from harness.tasks import data_root

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

SIDE = 224
"""Rows and columns of an image as the network sees it."""

SHORT = 256
"""Length to which the shorter side of an evaluation image is brought before its centre is cut out."""

LARGEST = 2**26
"""Most pixels of an image, and of one whose shorter side is brought to `SHORT`."""

TRIED = 500
"""Images of a folder that are read before the first step: all, or as many at equal distances."""

TRIES = 10
HOW = (
    "ImageNet (ILSVRC 2012) is not free to copy: get it from https://www.image-net.org/download.php, unpack it as "
    "train/CLASS/*.JPEG and val/CLASS/*.JPEG, and put that folder at BENCH_DATA/imagenet or say where it is by "
    "--set task.folder=PATH"
)


class ImageFolder:
    """The images of one part, in the order of classes and file names.

    paths    of the images
    labels   their classes (n,), numbers of the class folders in the order of their names
    classes  the names of these folders

    Images of any mode are converted to RGB of 8 bits: 0 ... 65535 becomes 0 ... 255. `DataError` names an image that is
    damaged, animated or too large, or whose range of values is not known (32 bits, floats).
    """

    def __init__(self, folder: str | None, part: str, classes: int) -> None:
        import torchvision

        root = (Path(folder) if folder else data_root() / "imagenet") / part
        if not root.is_dir():
            raise DataError(f"there is no folder {root}. {HOW}")
        try:
            images = torchvision.datasets.ImageFolder(os.fspath(root))
        except (FileNotFoundError, OSError) as error:
            raise DataError(f"{root}: {error}. {HOW}") from error
        if len(images.classes) != classes:
            raise DataError(f"{root} has {len(images.classes)} folders of classes, not {classes}; see task.classes")
        self.root = root
        self.paths = [path for path, _ in images.samples]
        self.labels = np.array(images.targets, dtype=np.int64)
        self.classes: list[str] = images.classes
        tried = np.linspace(0, len(self.paths), min(len(self.paths), TRIED), endpoint=False).astype(int)
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._open, tried.tolist()))

    def training(self, index: int, seed: int) -> NDArray[np.uint8]:
        """A random part of the image of 8 to 100 % of its area and a ratio of 3/4 to 4/3, at full size, flipped or not.

        As torchvision's RandomResizedCrop and RandomHorizontalFlip draw it, from `seed` alone. (224, 224, 3).
        """
        from torchvision.transforms import functional

        generator = np.random.default_rng(seed)
        image = self._open(index)
        top, left, height, width = crop(generator, image.height, image.width)
        cut = functional.resized_crop(image, top, left, height, width, [SIDE, SIDE])
        pixels = np.asarray(cut)
        return np.ascontiguousarray(pixels[:, ::-1]) if generator.random() < 0.5 else pixels

    def evaluation(self, index: int) -> NDArray[np.uint8]:
        """The centre of the image, its shorter side brought to 256. (224, 224, 3)."""
        from torchvision.transforms import functional

        return np.asarray(functional.center_crop(functional.resize(self._open(index), SHORT), [SIDE, SIDE]))

    def _open(self, index: int) -> Image:
        from PIL import Image

        path = self.paths[index]
        try:
            with Image.open(path) as image:
                return _colours(image)
        except Exception as error:  # the decoders raise errors of many types for damaged files
            raise DataError(f"{path} is no image that can be read: {error}") from error


def _colours(image: Image) -> Image:
    """Return an image in RGB, with its range of values; raise `ValueError` if it has not one picture of known range."""
    from PIL import Image

    width, height = image.size
    if max(width * height, SHORT**2 * max(width, height) // min(width, height)) > LARGEST:
        raise ValueError(f"{width:,} x {height:,} is too large")
    if getattr(image, "is_animated", False) and image.format != "MPO":  # a phone's photograph with a preview
        raise ValueError(f"it has {image.n_frames} frames")  # type: ignore[attr-defined]
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
        pixels = np.asarray(image).astype(np.float64)
        return Image.fromarray((pixels / 257).round().astype(np.uint8)).convert("RGB")
    if image.mode[0] in "IF":
        raise ValueError(f"the range of its values is not known (mode {image.mode}); save it with 8 or 16 bits")
    return (image.convert("RGBA") if "transparency" in image.info else image).convert("RGB")


def crop(generator: np.random.Generator, height: int, width: int) -> tuple[int, int, int, int]:
    """Top, left, height, width of a random part; the largest centred one of an allowed ratio where ten tries fail."""
    for _ in range(TRIES):
        area = height * width * generator.uniform(0.08, 1.0)
        ratio = np.exp(generator.uniform(np.log(3 / 4), np.log(4 / 3)))
        across, down = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            top, left = generator.integers(0, height - down + 1), generator.integers(0, width - across + 1)
            return int(top), int(left), down, across
    down, across = min(height, round(width * 4 / 3)), min(width, round(height * 4 / 3))
    return (height - down) // 2, (width - across) // 2, down, across
