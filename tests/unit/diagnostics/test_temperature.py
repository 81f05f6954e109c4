import numpy as np
import pytest

from tasks.regression.temperature import configurational_temperature, directional_temperatures

pytestmark = pytest.mark.numbers


def test_by_hand():
    draws = np.array([[[1.0, 2.0]], [[3.0, 0.0]]])
    gradients = np.array([[[2.0, 1.0]], [[4.0, 5.0]]])
    # centre (1, 1): displacements (0, 1), (2, -1); products (0, 1), (8, -5)
    np.testing.assert_allclose(configurational_temperature(draws, gradients, [1.0, 1.0]), [1.0])
    np.testing.assert_allclose(directional_temperatures(draws, gradients, [1.0, 1.0], np.eye(2)), [[4.0, -2.0]])


def test_one_average_hides_what_directions_show():
    # stiff direction at T = 1.5, soft one at 0.5: the distorted shape of msgld
    z = np.array([[1.0, 1.0], [-1.0, -1.0]]) * np.sqrt([1.5 / 10, 0.5])
    gradients = z * [10.0, 1.0]
    assert configurational_temperature(z, gradients, np.zeros(2)) == pytest.approx(1.0)
    np.testing.assert_allclose(directional_temperatures(z, gradients, np.zeros(2), np.eye(2)), [1.5, 0.5])
