"""Corruptions of images against second routes: torch's convolutions and rotations, and moments of the noise."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import affine_grid, conv2d, grid_sample, pad

from tasks.shifts import SEVERITIES, shifted_rows
from tasks.vision import corruptions
from tasks.vision.corruptions import BLUR_SD, DEGREES, DISK, NOISE_SD, PHOTONS, REPLACED, SHIFTS, rotated

MEANS = {
    "gaussian_noise": (0.79324832790624, 0.79514501210426, 0.80650027593053, 0.78761543802067, 0.8049044853162),
    "shot_noise": (0.79393501984127, 0.7891875, 0.7801314484127, 0.80440145502645, 0.79912698412698),
    "impulse_noise": (0.78968253968254, 0.83604969765684, 0.78500566893424, 0.7806712962963, 0.77082152305367),
    "gaussian_blur": (0.78941536432129, 0.78854173179239, 0.78814952088898, 0.78776506400327, 0.78696427969869),
    "defocus_blur": (0.7891483082903, 0.78827371721006, 0.7874817657332, 0.78703700041865, 0.7852733686067),
    "rotation": (0.57587262172767, 0.56502133813968, 0.46332176625365, 0.54513617117294, 0.534952090409),
}
"""A weighted mean of a shifted ramp at each severity."""


def image(*shape, dtype=np.float64, seed=0):
    numbers = np.random.default_rng(seed).random(shape)
    return np.rint(255 * numbers).astype(np.uint8) if dtype == np.uint8 else numbers.astype(dtype)


def applied(name, pixels, severity, seed=0):
    return SHIFTS[name](pixels, severity, np.random.default_rng(seed))


def convolved(pixels, kernel, mode):
    reach = len(kernel) // 2
    padded = pad(torch.from_numpy(pixels)[None, None], (reach,) * 4, mode=mode)
    return conv2d(padded, torch.from_numpy(kernel)[None, None])[0, 0].numpy()


@pytest.mark.parametrize("severity", SEVERITIES)
def test_gaussian_blur_is_a_convolution_with_the_normal_density_cut_off_at_four_sds(severity):
    sd = BLUR_SD[severity - 1]
    reach = int(4 * sd + 0.5)
    line = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sd**2))
    pixels = image(28, 28)
    by_hand = convolved(pixels, np.outer(line, line) / line.sum() ** 2, "replicate")
    np.testing.assert_allclose(applied("gaussian_blur", pixels, severity), by_hand, atol=1e-12)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_defocus_blur_is_a_convolution_with_the_sources_disk(severity):
    """A disk in 17 x 17 pixels with sum 1, smoothed by a normal kernel of 3 x 3, as the source has it."""
    radius, sd = DISK[severity - 1]
    at = np.arange(-8, 9)
    x, y = np.meshgrid(at, at)
    inside = (x**2 + y**2 <= radius**2).astype(float)
    line = np.exp(-np.array([1.0, 0.0, 1.0]) / (2 * sd**2))
    kernel = convolved(inside / inside.sum(), np.outer(line, line) / line.sum() ** 2, "constant")
    pixels = image(28, 28)
    np.testing.assert_allclose(
        applied("defocus_blur", pixels, severity), convolved(pixels, kernel, "reflect"), atol=1e-12
    )


@pytest.mark.parametrize("shape", [(8, 8), (28, 28), (9, 9), (32, 32, 3)])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3, 4])
def test_rotations_by_right_angles_move_pixels_exactly(shape, quarters):
    pixels = image(*shape)
    expected = torch.rot90(torch.from_numpy(pixels), quarters, (0, 1)).numpy()
    np.testing.assert_allclose(rotated(pixels, 90 * quarters), expected, atol=1e-12)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_a_rotation_is_that_of_torchs_grid_away_from_the_corners(severity):
    pixels, angle = image(28, 28), np.deg2rad(DEGREES[severity - 1])
    turn = torch.tensor([[[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0]]])
    grid = affine_grid(turn, [1, 1, 28, 28], align_corners=False)
    by_torch = grid_sample(torch.from_numpy(pixels)[None, None], grid, align_corners=False)[0, 0].numpy()
    at = np.arange(28) - 13.5
    inner = at[:, None] ** 2 + at**2 < 13**2
    np.testing.assert_allclose(applied("rotation", pixels, severity)[inner], by_torch[inner], atol=1e-9)


def test_each_angle_goes_to_the_severity_of_its_place():
    pixels = image(9, 9)
    for severity, degrees in enumerate((15, 30, 45, 60, 75), 1):
        np.testing.assert_array_equal(applied("rotation", pixels, severity), rotated(pixels, degrees).clip(0, 1))


@pytest.mark.parametrize("severity", SEVERITIES)
def test_the_noises_have_the_moments_of_their_constants(severity):
    """Of 250,000 numbers at one half; five standard errors."""
    pixels = np.full((500, 500), 0.5)
    normal, shot, impulse = (applied(f"{name}_noise", pixels, severity) for name in ("gaussian", "shot", "impulse"))
    for noisy, sd in ((normal, NOISE_SD[severity - 1]), (shot, np.sqrt(0.5 / PHOTONS[severity - 1]))):
        assert abs(noisy.mean() - 0.5) < 5 * sd / 500
        assert abs(noisy.std() / sd - 1) < 5 / np.sqrt(2 * 250_000)
    np.testing.assert_allclose(shot * PHOTONS[severity - 1], np.rint(shot * PHOTONS[severity - 1]), atol=1e-9)
    share = REPLACED[severity - 1]
    assert set(np.unique(impulse)) == {0.0, 0.5, 1.0}
    for value in (0.0, 1.0):
        error = np.sqrt(share / 2 * (1 - share / 2)) / 500
        assert abs((impulse == value).mean() - share / 2) < 5 * error


def test_the_constants_are_those_of_cifar_10_c():
    """hendrycks/robustness, ImageNet-C/create_c/make_cifar_c.py, commit 8190fe3."""
    assert NOISE_SD == (0.04, 0.06, 0.08, 0.09, 0.10)
    assert PHOTONS == (500, 250, 100, 75, 50)
    assert REPLACED == (0.01, 0.02, 0.03, 0.05, 0.07)
    assert BLUR_SD == (0.4, 0.6, 0.7, 0.8, 1)
    assert DISK == ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))


@pytest.mark.parametrize("name", SHIFTS)
def test_images_keep_their_shape_and_type_and_bytes_are_the_rounded_numbers(name):
    for shape in ((8, 8), (32, 32, 3)):
        stored = image(*shape, dtype=np.uint8)
        before = stored.copy()
        for severity in SEVERITIES:
            shifted = applied(name, stored, severity)
            numbers = applied(name, stored / 255, severity)
            assert shifted.dtype == np.uint8
            assert shifted.shape == shape
            np.testing.assert_array_equal(shifted, np.rint(255 * numbers))
            assert applied(name, (stored / 255).astype(np.float32), severity).dtype == np.float32
        np.testing.assert_array_equal(stored, before)


@pytest.mark.parametrize("name", ["gaussian_blur", "defocus_blur", "rotation"])
def test_colours_are_not_mixed(name):
    pixels = image(16, 16, 3)
    for severity in SEVERITIES:
        each = np.stack([applied(name, pixels[..., k], severity) for k in range(3)], axis=-1)
        np.testing.assert_allclose(applied(name, pixels, severity), each, atol=1e-12)


@pytest.mark.parametrize("name", SHIFTS)
def test_images_are_further_from_what_they_were_at_each_severity(name):
    """The mean over digits of the distance, root mean square; a digit of some symmetry comes nearer again."""
    digits = (load_digits().images[:200] / 16).astype(np.float32)
    sets = shifted_rows(digits, {name: SHIFTS[name]}).reshape(6, 200, -1)
    distances = np.sqrt(((sets - sets[0]) ** 2).mean(2)).mean(1)
    assert distances[0] == 0
    assert (np.diff(distances) > 0).all(), distances


def test_a_row_is_shifted_in_the_same_way_whatever_else_is():
    x = image(5, 8, 8, dtype=np.uint8)
    by_set = shifted_rows(x, SHIFTS).reshape(1 + 5 * len(SHIFTS), 5, 8, 8)
    fewer = shifted_rows(x[:2], SHIFTS).reshape(-1, 2, 8, 8)
    np.testing.assert_array_equal(by_set[:, :2], fewer)
    backwards = dict(reversed(SHIFTS.items()))
    sets = shifted_rows(x, backwards).reshape(-1, 5, 8, 8)
    for k, name in enumerate(SHIFTS):
        j = list(backwards).index(name)
        np.testing.assert_array_equal(by_set[1 + 5 * k : 6 + 5 * k], sets[1 + 5 * j : 6 + 5 * j])
    other = x.copy()
    other[0] = 255 - other[0]
    np.testing.assert_array_equal(by_set[:, 1:], shifted_rows(other, SHIFTS).reshape(by_set.shape)[:, 1:])
    assert all(not np.array_equal(a, b) for a, b in zip(by_set[1:16, 0], by_set[1:16, 1], strict=True))


@pytest.mark.numbers
@pytest.mark.parametrize("name", SHIFTS)
def test_the_numbers_are_these_on_every_machine(name):
    ramp = np.add.outer(np.arange(8), 2 * np.arange(8)) / 21
    sets = shifted_rows(ramp[None], {name: SHIFTS[name]})[1:]
    weights = np.linspace(1, 2, ramp.size).reshape(ramp.shape)
    assert (sets * weights).mean((1, 2)) == pytest.approx(MEANS[name], abs=1e-12)
    assert corruptions.SHIFTS[name].__name__ == name
