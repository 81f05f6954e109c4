from __future__ import annotations

import numpy as np
import pytest

from harness.analysis.diagnostics import Moments

pytestmark = pytest.mark.numbers


def test_from_draws_reproduces_the_moments_of_x_squared():
    x = np.random.default_rng(0).gamma(2.0, size=(1000, 3)) + np.array([0.0, -3.0, 5.0])
    truth = Moments.from_draws(x)
    np.testing.assert_allclose(truth.var_x2, (x**2).var(axis=0))
    z = (x - truth.mean) / truth.sd
    np.testing.assert_allclose(truth.var_z2, (z**2).var(axis=0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sd": [1.0, 0.0]}, "sd must be positive"),
        ({"sd": [1.0]}, "sd must have shape"),
        ({"z4": [3.0, 1.0]}, "z4"),
        ({"mean": [0.0, np.nan]}, "mean must be finite"),
    ],
)
def test_impossible_moments_are_refused(change, message):
    good = {"mean": [0.0, 0.0], "sd": [1.0, 1.0], "z3": [0.0, 0.0], "z4": [3.0, 3.0]}
    Moments(**{name: np.array(value) for name, value in good.items()})
    with pytest.raises(ValueError, match=message):
        Moments(**{name: np.array(value) for name, value in (good | change).items()})
