"""From stored images to what a network sees: crop, flip and normalise, on the device that holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.tasks import constant

if TYPE_CHECKING:
    from torch import Tensor


def crop_and_flip(images: Tensor, shift: Tensor, flip: Tensor, reach: int) -> Tensor:
    """Images (n, H, W, ch) with `reach` zeros put around each, cut out again at `shift` (n, 2), from 0 to 2 reach.

    Where `flip` (n,), the columns of the cut come in reverse. A shift of `reach` and no flip leaves an image as it is.
    """
    import torch

    n, height, width, _ = images.shape
    padded = torch.nn.functional.pad(images, (0, 0, reach, reach, reach, reach))
    down, across = shift.to(torch.int64).unbind(1)
    places = torch.arange(width, device=images.device)
    columns = across[:, None] + torch.where(flip[:, None], width - 1 - places, places)
    rows = down[:, None] + torch.arange(height, device=images.device)
    each = torch.arange(n, device=images.device)
    return padded[each[:, None, None], rows[:, :, None], columns[:, None, :]]


def normalise(images: Tensor, mean: tuple[float, ...], sd: tuple[float, ...]) -> Tensor:
    """(x / 255 - mean) / sd of images (n, H, W, ch), written over them, as (n, ch, H, W) in `channels_last` order."""
    x = images.div_(255).sub_(constant(mean, images)).div_(constant(sd, images))
    return x.permute(0, 3, 1, 2)
