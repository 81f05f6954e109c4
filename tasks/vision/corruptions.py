"""Corruptions of images at severities 1 to 5, with the constants of CIFAR-10-C, and rotations.

An image is (H, W) or (H, W, channels), of bytes or of floating-point numbers in [0, 1], and so is what is returned.

Source: D. Hendrycks, T. Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and Perturbations",
ICLR 2019; its code, hendrycks/robustness, ImageNet-C/create_c/make_cifar_c.py. Bytes are rounded here and truncated
there, so that the last bit of a floating-point number does not decide. The random numbers are others.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tasks.shifts import Array, Shift

    Generator = np.random.Generator

NOISE_SD = (0.04, 0.06, 0.08, 0.09, 0.10)
PHOTONS = (500, 250, 100, 75, 50)
"""Mean count of a white pixel."""
REPLACED = (0.01, 0.02, 0.03, 0.05, 0.07)
"""Share of the numbers that become 0 or 1."""
BLUR_SD = (0.4, 0.6, 0.7, 0.8, 1.0)
DISK = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))
"""Radius of a disk, and the sd by which it is smoothed, in pixels."""
DEGREES = (15, 30, 45, 60, 75)


def _on_unit_scale(corrupt: Shift) -> Shift:
    @functools.wraps(corrupt)
    def on_stored(image: Array, severity: int, generator: Generator) -> Array:
        stored = image.dtype
        scale = 255.0 if stored == np.uint8 else 1.0
        corrupted = scale * corrupt(image.astype(np.float64) / scale, severity, generator).clip(0, 1)
        return (np.rint(corrupted) if stored == np.uint8 else corrupted).astype(stored)

    return on_stored


@_on_unit_scale
def gaussian_noise(image: Array, severity: int, generator: Generator) -> Array:
    """Return x + N(0, c^2), c = `NOISE_SD`."""
    return image + NOISE_SD[severity - 1] * generator.standard_normal(image.shape)


@_on_unit_scale
def shot_noise(image: Array, severity: int, generator: Generator) -> Array:
    """Return Poisson(c x) / c, c = `PHOTONS`."""
    photons = PHOTONS[severity - 1]
    return generator.poisson(photons * image) / photons


@_on_unit_scale
def impulse_noise(image: Array, severity: int, generator: Generator) -> Array:
    """Return x with the share `REPLACED` of its numbers 0 or 1, each with probability one half."""
    replaced = generator.random(image.shape) < REPLACED[severity - 1]
    return np.where(replaced, generator.integers(2, size=image.shape), image)


@_on_unit_scale
def gaussian_blur(image: Array, severity: int, _: Generator) -> Array:
    """Return x convolved with a normal density of sd `BLUR_SD` in pixels, cut off at 4 sd; edges are repeated."""
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(image, BLUR_SD[severity - 1], mode="nearest", truncate=4.0, axes=(0, 1)))


@_on_unit_scale
def defocus_blur(image: Array, severity: int, _: Generator) -> Array:
    """Return x convolved with a smoothed `DISK`; edges are mirrored at the centre of the last pixel."""
    from scipy.ndimage import correlate

    kernel = disk(*DISK[severity - 1])
    return np.asarray(correlate(image, kernel.reshape(*kernel.shape, *[1] * (image.ndim - 2)), mode="mirror"))


@functools.cache
def disk(radius: float, sd: float) -> Array:
    """Return the pixels (7, 7) at most `radius` from the centre, smoothed by a normal kernel (3, 3), with sum 1."""
    from scipy.ndimage import correlate1d

    at = np.arange(-3, 4)
    inside = (at[:, None] ** 2 + at**2 <= radius**2).astype(np.float64)
    smooth = np.exp(-(np.arange(-1, 2) ** 2) / (2 * sd**2))
    for axis in (0, 1):
        inside = correlate1d(inside, smooth / smooth.sum(), axis, mode="constant")
    return np.asarray(inside / inside.sum())


@_on_unit_scale
def rotation(image: Array, severity: int, _: Generator) -> Array:
    """Return x rotated anticlockwise by `DEGREES`; ours, not of CIFAR-10-C."""
    return rotated(image, DEGREES[severity - 1])


def rotated(image: Array, degrees: float) -> Array:
    """Return an image rotated anticlockwise about its centre, by linear interpolation; what enters is 0."""
    from scipy.ndimage import rotate

    return np.asarray(rotate(image, degrees, reshape=False, order=1, mode="constant", cval=0.0))


SHIFTS: Mapping[str, Shift] = {
    one.__name__: one for one in (gaussian_noise, shot_noise, impulse_noise, gaussian_blur, defocus_blur, rotation)
}
"""What the tasks of images are shifted by: three kinds of noise, two of blur, and rotations."""
