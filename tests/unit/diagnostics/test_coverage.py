import numpy as np
import pytest

from tasks.synthetic.modes import ModeCounts

pytestmark = pytest.mark.numbers

MIXTURE25 = np.array([(i, j) for i in (-4, -2, 0, 2, 4) for j in (-4, -2, 0, 2, 4)], dtype=float)


def exact_draws(n, chains, seed=0):
    rng = np.random.default_rng(seed)
    return MIXTURE25[rng.integers(25, size=(n, chains))] + rng.normal(0, np.sqrt(0.03), size=(n, chains, 2))


def test_against_a_double_loop():
    rng = np.random.default_rng(1)
    means, radius, variance = rng.normal(size=(4, 3)), 0.9, np.array([0.5, 1.0, 1.5, 2.0])  # balls overlap
    draws, weights = rng.normal(size=(50, 2, 3)), rng.uniform(size=(50, 2))
    steps = np.arange(100, 200, 2)
    mode_counts = ModeCounts(means, radius, variance)
    for part in (slice(0, 1), slice(1, 20), slice(20, 20), slice(20, 50)):
        mode_counts.update(draws[part], weights[part], steps[part])
    counts, mass, squares, first = np.zeros(4), np.zeros(4), 0.0, np.full(4, -1)
    within = 0.0
    for b in range(50):
        for c in range(2):
            distance = np.linalg.norm(draws[b, c] - means, axis=1)
            counts += distance <= radius
            mass[distance.argmin()] += weights[b, c]
            squares += weights[b, c] * distance.min() ** 2 / variance[distance.argmin()]
            within += weights[b, c] * (distance.min() <= radius)
            first[(first < 0) & (distance <= radius)] = steps[b]
    np.testing.assert_array_equal(mode_counts.counts, counts)
    np.testing.assert_array_equal(mode_counts.first_visit, first)
    np.testing.assert_allclose(mode_counts.mass, mass)
    assert mode_counts.share_within_r() == pytest.approx(within / weights.sum())
    assert mode_counts.within_mode_variance_ratio() == pytest.approx(squares / (3 * weights.sum()))
    truth = np.array([0.1, 0.2, 0.3, 0.4])
    assert mode_counts.mode_mass_tv(truth) == pytest.approx(0.5 * np.abs(mass / mass.sum() - truth).sum())


def one_mode(draws, radius=1.0):
    counts = ModeCounts([[0.0]], radius, 1.0)
    counts.update(np.reshape(draws, (-1, 1, 1)), np.ones((len(draws), 1)), np.arange(len(draws)))
    return counts


def test_covered_means_more_than_n():
    counts = one_mode([0.0] * 100)
    assert counts.modes_covered(99) == 1
    assert counts.modes_covered(100) == 0


def test_the_radius_itself_is_within():
    assert one_mode([1.0, -1.0, 1.0000001]).counts[0] == 2


def test_first_visits_are_censored_until_all_modes_are_found():
    counts = ModeCounts([[0.0], [10.0]], 1.0, 1.0)
    ones = np.ones((2, 2))
    counts.update([[[0.0], [0.0]], [[5.0], [5.0]]], ones, [3, 4])
    assert counts.last_mode_first_visit() is None
    counts.update([[[0.0], [0.0]], [[0.0], [10.0]]], ones, [5, 6])
    counts.update([[[10.0], [10.0]], [[0.0], [10.0]]], ones, [7, 8])
    assert counts.last_mode_first_visit() == 6
    np.testing.assert_array_equal(counts.first_visit, [3, 6])


def test_divergence_is_no_crash_and_shows():
    counts = one_mode([0.5, np.nan, np.inf, 1e200, -np.inf])
    assert counts.counts[0] == 1
    assert counts.share_within_r() == pytest.approx(0.2)
    assert counts.within_mode_variance_ratio() == np.inf
    assert np.isfinite(counts.mass).all()


def test_state_round_trip_is_exact_and_independent():
    draws, ones = exact_draws(600, 2), np.ones((600, 2))
    first, second = ModeCounts(MIXTURE25, 0.25, 0.03), ModeCounts(MIXTURE25, 0.25, 0.03)
    first.update(draws[:20], ones[:20], np.arange(20))
    saved = first.state()
    second.load(saved)
    for counts in (first, second):
        counts.update(draws[20:], ones[20:], np.arange(20, 600))
    for name, array in first.state().items():
        np.testing.assert_array_equal(second.state()[name], array)
        assert not np.array_equal(saved[name], array)
    assert first.share_within_r() == second.share_within_r()
