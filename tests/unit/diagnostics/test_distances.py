from itertools import permutations

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from harness.analysis.diagnostics import distances, energy_distance, kernel_stein_discrepancy, wasserstein2

pytestmark = pytest.mark.numbers


def test_equals_the_best_of_all_pairings():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 2)), rng.normal(1.0, 2.0, size=(6, 2))
    best = min(np.mean(np.sum((x - y[list(p)]) ** 2, axis=1)) for p in permutations(range(6)))
    assert wasserstein2(x, y) == pytest.approx(np.sqrt(best))


def test_in_one_dimension_it_pairs_the_order_statistics():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=300), rng.gamma(2.0, size=300)
    expected = np.sqrt(np.mean((np.sort(x) - np.sort(y)) ** 2))
    assert wasserstein2(x[:, None], y[:, None]) == pytest.approx(expected)


PAIRED = {
    "near": lambda rng, n: rng.normal(size=(n, 2)),
    "in one mode": lambda rng, n: 0.01 * rng.normal(size=(n, 2)),
    "a random walk": lambda rng, n: np.cumsum(0.1 * rng.normal(size=(n, 2)), axis=0),
    "far": lambda rng, n: 1e6 + rng.normal(size=(n, 2)),
    "one point": lambda rng, n: np.full((n, 2), rng.normal()),
    "repeated": lambda rng, n: rng.normal(size=(n, 2))[rng.integers(n // 4 + 1, size=n)],
    "tiny": lambda rng, n: 1e-200 * rng.normal(size=(n, 2)),
    "huge": lambda rng, n: 1e150 * rng.normal(size=(n, 2)),
    "one far away": lambda rng, n: np.vstack([[[1e8, 0.0]], rng.normal(size=(n - 1, 2))]),
    "heavy tails": lambda rng, n: rng.standard_cauchy(size=(n, 2)) ** 3,
}


@pytest.mark.parametrize("n", [1, 2, 3, 150])
@pytest.mark.parametrize("shape", PAIRED)
def test_prices_of_the_columns_do_not_change_the_best_pairing(shape, n, monkeypatch):
    rng = np.random.default_rng(4)
    x, y = PAIRED[shape](rng, n), rng.normal(size=(n, 2))
    cost = cdist(x, y, "sqeuclidean")
    best = np.sqrt(cost[linear_sum_assignment(cost)].mean())
    assert wasserstein2(x, y) == pytest.approx(best, rel=1e-12)
    monkeypatch.setattr(distances, "compiled", lambda _: None)
    assert wasserstein2(x, y) == best


def test_the_search_is_for_the_least_sum_with_the_prices_of_an_auction(monkeypatch):
    """With them, almost every row has a column of its own among its cheapest."""
    rng = np.random.default_rng(5)
    cost = cdist(0.1 * rng.normal(size=(200, 2)), rng.normal(size=(200, 2)), "sqeuclidean")

    def cheapest(costs):
        return len(set(costs.argmin(axis=1)))

    seen = []
    monkeypatch.setattr("scipy.optimize.linear_sum_assignment", lambda costs: seen.append(costs) or ([], [0]))
    distances.cheapest_pairing(cost)
    if distances.compiled(distances.PRICES) is None:
        pytest.skip("there is no C++ compiler")
    assert cheapest(seen[0]) > 0.5 * len(cost) > cheapest(cost)


def test_a_shift_costs_its_length_and_a_shuffle_nothing():
    x = np.random.default_rng(2).normal(size=(200, 3))
    assert wasserstein2(x, x[::-1]) == 0.0
    assert wasserstein2(x, x[::-1] + np.array([3.0, 0.0, 4.0])) == pytest.approx(5.0)


@pytest.mark.parametrize("y", [np.zeros((3, 2)), np.zeros((4, 3)), np.full((4, 2), np.nan)])
def test_refuses_samples_that_cannot_be_paired(y):
    with pytest.raises(ValueError, match="both samples"):
        wasserstein2(np.zeros((4, 2)), y)


def pair_mean(values, weights):
    """The mean of values (n, n) over pairs of two different draws, pair by pair."""
    pairs = list(permutations(range(len(weights)), 2))
    total = sum(weights[i] * weights[j] for i, j in pairs)
    return sum(weights[i] * weights[j] * values[i][j] for i, j in pairs) / total


def weighted(n, chains, dim, seed=3):
    rng = np.random.default_rng(seed)
    return rng.normal(0.3, 1.2, size=(n, chains, dim)), rng.uniform(0.1, 3.0, size=(n, chains))


def test_the_energy_distance_is_that_of_all_pairs_in_two_dimensions():
    draws, weights = weighted(9, 3, 2)
    exact = np.random.default_rng(4).normal(size=(7, 2))
    for c, value in enumerate(energy_distance(draws, weights, exact)):
        x, w = draws[:, c], weights[:, c]
        across = sum(w[i] * np.linalg.norm(x[i] - y) for i in range(9) for y in exact) / w.sum() / 7
        within = pair_mean([[np.linalg.norm(a - b) for b in x] for a in x], w)
        apart = pair_mean([[np.linalg.norm(a - b) for b in exact] for a in exact], np.ones(7))
        assert value == pytest.approx(2 * across - within - apart)


def test_in_one_dimension_the_energy_distance_is_scipy_s_but_for_pairs_of_one_draw():
    draws, weights = weighted(40, 2, 1)
    exact = np.random.default_rng(5).gamma(2.0, size=(30, 1))
    for c, value in enumerate(energy_distance(draws, weights, exact)):
        x, w = draws[:, c, 0], weights[:, c] / weights[:, c].sum()
        within = pair_mean(np.abs(x[:, None] - x), w)
        apart = pair_mean(np.abs(exact - exact[:, 0]), np.ones(30))
        with_themselves = stats.energy_distance(x, exact[:, 0], w) ** 2
        assert value == pytest.approx(with_themselves - within * (w**2).sum() - apart / 30)


def test_the_energy_distance_of_normals_is_the_closed_form():
    """E|x - y| of normals is sd sqrt(2 / pi), sd^2 being that of the difference."""
    rng, v, n, chains = np.random.default_rng(6), 1.3, 200, 200
    means = np.sqrt(2 / np.pi) * np.sqrt([1 + v, 2 * v, 2.0])
    exact = rng.normal(size=(2_000, 1))
    for scale, expected in ((1.0, 0.0), (v, 2 * means[0] - means[1] - means[2])):
        draws = rng.normal(0, np.sqrt(scale), size=(n, chains, 1))
        values = energy_distance(draws, np.ones((n, chains)), exact)
        assert values.mean() == pytest.approx(expected, abs=5 * values.std() / np.sqrt(chains) + 2 / 2_000)
    assert expected > 0.005


def stein_kernel(energy, x, y):
    """s_x s_y k + s_x dk/dy + s_y dk/dx + tr d2k/dxdy, all by automatic differentiation."""

    def k(a, b):
        return (1 + (a - b).square().sum()) ** -0.5

    along_x, along_y = (torch.func.grad(k, argnums=part) for part in (0, 1))
    trace = torch.func.jacrev(along_x, argnums=1)(x, y).trace()
    s, t = (-torch.func.grad(energy)(point) for point in (x, y))
    return float(s @ t * k(x, y) + s @ along_y(x, y) + t @ along_x(x, y) + trace)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_stein_discrepancy_is_that_of_derivatives_of_the_kernel(dim):
    def energy(x):
        return x.pow(4).sum() / 4 + x.sin().sum() + x.sum().square()

    draws, weights = weighted(6, 2, dim)
    points = torch.from_numpy(draws)
    gradients = torch.func.vmap(torch.func.vmap(torch.func.grad(energy)))(points).numpy()
    values = kernel_stein_discrepancy(draws, gradients, weights)
    for c, value in enumerate(values):
        pairs = [[stein_kernel(energy, a, b) for b in points[:, c]] for a in points[:, c]]
        assert value == pytest.approx(pair_mean(pairs, weights[:, c]))


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (0.0, 1.3), (0.4, 1.0)])
def test_the_stein_discrepancy_of_a_normal_is_that_of_quadrature(mean, variance):
    """Of q from p it is the integral of q(x) d(x) k(x, y) d(y) q(y), where d is the difference of the scores."""
    x = np.linspace(-9, 9, 1_201)
    q = np.exp(-((x - mean) ** 2) / 2 / variance)
    q /= q.sum()
    difference = q * ((x - mean) / variance - x)
    expected = difference @ (1 + (x[:, None] - x) ** 2) ** -0.5 @ difference
    value = kernel_stein_discrepancy(x[:, None, None], x[:, None, None], q[:, None])[0]
    itself = (q**2 * (x**2 + 1)).sum()  # of each point with itself: s^2 + D
    assert value * (1 - (q**2).sum()) + itself == pytest.approx(expected, abs=1e-12)
    assert (expected > 0.005) == ((mean, variance) != (0.0, 1.0))


def test_the_stein_discrepancy_does_not_see_the_masses_of_modes_far_apart():
    """The energy distance does."""
    rng, n, chains = np.random.default_rng(8), 300, 20

    def gradient(x):
        return x - 15 * np.tanh(15 * x)  # of an equal mixture of N(-15, 1) and N(15, 1)

    def scores(share):
        draws = rng.normal(np.where(rng.uniform(size=(n, chains, 1)) < share, 15.0, -15.0))
        equal = np.ones((n, chains))
        exact = rng.normal(np.where(np.arange(1_000) % 2, 15.0, -15.0))[:, None]
        return kernel_stein_discrepancy(draws, gradient(draws), equal), energy_distance(draws, equal, exact)

    (stein, energy), (stein_of_one, energy_of_one) = scores(0.5), scores(1.0)
    error = 5 * stein_of_one.std() / np.sqrt(chains)
    assert stein_of_one.mean() == pytest.approx(0, abs=error)
    assert error < 0.02
    assert energy_of_one.min() > 10 > 20 * abs(energy.mean())
    assert abs(stein.mean()) < 0.02


def both(draws, weights):
    yield energy_distance(draws, weights, np.random.default_rng(9).normal(size=(5, draws.shape[2])))
    yield kernel_stein_discrepancy(draws, draws, weights)


def test_draws_without_weight_and_the_unit_of_weights_do_not_count():
    draws, weights = weighted(12, 2, 2)
    absent = weights.copy()
    absent[8:] = 0
    far = draws.copy()
    far[8:] = 1e6
    for others in (both(draws, absent), both(far, absent), both(draws[:8], 1e3 * weights[:8])):
        for value, other in zip(both(draws[:8], weights[:8]), others, strict=True):
            assert value == pytest.approx(other)


def test_a_chain_without_two_finite_draws_has_no_distance_and_leaves_the_others_theirs():
    draws, weights = weighted(6, 3, 2)
    lost, single = draws.copy(), weights.copy()
    lost[2, 1] = np.inf
    single[1:, 1] = 0
    for x, w in ((lost, weights), (np.where(lost > 1e9, np.nan, lost), weights), (draws, single), (draws, 0 * weights)):
        for value, whole in zip(both(x, w), both(draws, weights), strict=True):
            assert np.isnan(value[1])
            if w.any():
                assert value[[0, 2]] == pytest.approx(whole[[0, 2]])
    for value in both(draws[:1], weights[:1]):
        assert np.isnan(value).all()


def test_gradients_of_another_shape_are_refused():
    draws, weights = weighted(4, 2, 3)
    with pytest.raises(ValueError, match="expected 3"):
        kernel_stein_discrepancy(draws, draws[:, :, :2], weights)
