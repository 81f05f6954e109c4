from __future__ import annotations

import numpy as np
import pytest

from harness.analysis.diagnostics import configurational_temperature, directional_temperatures


def test_by_hand():
    draws = np.array([[[1.0, 2.0]], [[3.0, 0.0]]])
    gradients = np.array([[[2.0, 1.0]], [[4.0, 5.0]]])
    # centre (1, 1): displacements (0, 1), (2, -1); products (0, 1), (8, -5)
    np.testing.assert_allclose(configurational_temperature(draws, gradients, [1.0, 1.0]), [1.0])
    np.testing.assert_allclose(directional_temperatures(draws, gradients, [1.0, 1.0], np.eye(2)), [[4.0, -2.0]])


@pytest.mark.statistical
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("offset", [0.0, 0.7])
def test_gaussian_draws_read_their_temperature_whatever_the_centre(temperature, offset):
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    eigenvalues = np.array([0.5, 2.0, 30.0])
    z = rng.normal(size=(100_000, 2, 3)) * np.sqrt(temperature / eigenvalues)
    draws, gradients = z @ basis.T, (z * eigenvalues) @ basis.T
    whole = configurational_temperature(draws, gradients, np.full(3, offset))
    parts = directional_temperatures(draws, gradients, np.full(3, offset), basis)
    assert whole.shape == (2,)
    assert parts.shape == (2, 3)
    # sd of (y - b) lambda y, y ~ N(0, T / lambda): at most sqrt(2) T + |b| sqrt(lambda T); |b| < 2 offset
    error = 5 * (1.5 * temperature + np.sqrt(eigenvalues * temperature) * 2 * offset) / np.sqrt(100_000)
    assert (np.abs(parts - temperature) < error).all()
    np.testing.assert_allclose(parts.mean(axis=1), whole, rtol=1e-10)


def test_one_average_hides_what_directions_show():
    # stiff direction at T = 1.5, soft one at 0.5: the distorted shape of msgld
    z = np.array([[1.0, 1.0], [-1.0, -1.0]]) * np.sqrt([1.5 / 10, 0.5])
    gradients = z * [10.0, 1.0]
    assert configurational_temperature(z, gradients, np.zeros(2)) == pytest.approx(1.0)
    np.testing.assert_allclose(directional_temperatures(z, gradients, np.zeros(2), np.eye(2)), [1.5, 0.5])


def test_refusals():
    x = np.zeros((4, 2))
    with pytest.raises(ValueError, match="one shape"):
        configurational_temperature(x, x[:3], np.zeros(2))
    with pytest.raises(ValueError, match="orthonormal"):
        directional_temperatures(x, x, np.zeros(2), 2 * np.eye(2))
    with pytest.raises(ValueError, match="directions must have shape"):
        directional_temperatures(x, x, np.zeros(2), np.eye(3))
