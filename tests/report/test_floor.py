"""The floor of exact draws in the figures: c / n, against simulated chains of exact draws."""

import numpy as np
import pytest

from harness.analysis.diagnostics import DrawSums, JointMoments, LowError
from harness.contracts.truth import Truth
from reports.figures.floor import exact_draws
from tasks.synthetic.mixture25 import Mixture25

N, CHAINS, ROWS = 200, 1_600, 40
DENSE = np.array([[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 4.0]])


def normal(n, rng):
    return rng.multivariate_normal(np.array([1.0, 0.0, -2.0]), DENSE, n)


@pytest.mark.parametrize(
    ("truth", "sample"),
    [(Mixture25().truth(), Mixture25().sample), (Truth.normal(np.array([1.0, 0.0, -2.0]), DENSE), normal)],
    ids=["mixture25", "normal"],
)
def test_the_floor_is_what_simulated_chains_of_exact_draws_give(truth, sample):
    rng = np.random.default_rng(1)
    floor = exact_draws(truth, sample(5_000, rng))
    along = truth.directions
    sums = DrawSums(truth.mean, truth.covariance, along, truth.quantiles)
    low = LowError(sums, truth.z3, truth.z4, [N])
    for _ in range(2):
        draws = sample(N * CHAINS // 2, rng).reshape(N // 2, CHAINS, -1)
        weights = np.ones(draws.shape[:2])
        low.update(draws, weights)
    curves = low.curves()
    typical = max(np.median(curves[name][:, 0]) for name in ("b2_z_max", "b2_z2_max"))
    assert floor.typical / N == pytest.approx(typical, rel=0.08)
    squares = np.concatenate([low.final_errors(), JointMoments(sums).chain_errors()], axis=1) ** 2
    joint = squares.reshape(-1, ROWS, squares.shape[1]).mean(axis=1).max(axis=1)
    assert floor.joint(ROWS) / N == pytest.approx(joint.mean(), rel=0.08)
    few = squares.reshape(-1, 4, squares.shape[1]).mean(axis=1).max(axis=1)  # 800 sets: an sd to 5 % or so
    assert floor.joint_sd(4) / N == pytest.approx(few.std(), rel=0.25)
    assert floor.joint_sd(ROWS) / N == pytest.approx(joint.std(), rel=0.5)  # 80 sets
    assert squares.mean() == pytest.approx(1 / N, rel=0.04)  # of each f, for every n


def test_the_floor_does_not_depend_on_rounding():
    """Indicators of the modes of mixture25 depend on each other: their correlations have no unique root."""
    truth, draws = Mixture25().truth(), Mixture25().sample(2_000, np.random.default_rng(3))
    rounded = draws * (1 + 1e-13 * np.random.default_rng(4).standard_normal(draws.shape))
    one, other = (exact_draws(truth, x) for x in (draws, rounded))
    np.testing.assert_allclose(other.squares.mean(axis=1), one.squares.mean(axis=1), rtol=1e-6)
