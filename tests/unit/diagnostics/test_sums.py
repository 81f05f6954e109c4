"""The sums over draws, by C++ and by NumPy, against their definition, at ordinary and at odd numbers."""

import numpy as np
import pytest

from harness.analysis.diagnostics import DrawSums, counting, directions, pooled_errors
from tasks.synthetic.modes import ModeCounts

pytestmark = pytest.mark.numbers

ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324])
NAMES = ("weight", "weight2", "z", "z2", "pairs", "below")


BY_BOTH = pytest.mark.usefixtures("by")


@pytest.fixture(params=["compiled", "plain"])
def by(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(counting, "code", lambda: None)
    elif counting.code() is None:
        pytest.skip("there is no C++ compiler")


def truth_of(dim):
    factor = np.random.default_rng(dim).standard_normal((dim, dim))
    covariance = factor @ factor.T + np.eye(dim)
    return np.arange(dim) - 1.0, covariance, directions(covariance)


def cuts_of(levels, mean, covariance, along):
    sd = np.sqrt((along @ covariance * along).sum(axis=1))
    return (along @ mean)[:, None] + sd[:, None] * np.asarray(levels, dtype=float)


def fill(sums, draws, weights, sizes):
    for part in np.split(np.arange(len(draws)), np.cumsum(sizes)[:-1]):
        sums.update(draws[part], weights[part])
    return sums


@BY_BOTH
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("chains", [1, 3, 8, 9, 40])
@pytest.mark.parametrize("dim", [1, 2, 5, 70])
def test_the_sums_are_those_of_the_definition_however_blocks_are_cut(chains, dim, weighted):
    mean, covariance, along = truth_of(dim)
    rng = np.random.default_rng(0)
    draws, weights = mean + 2 * rng.standard_normal((71, chains, dim)), rng.uniform(0.5, 2.0, (71, chains))
    weights = weights if weighted else np.ones_like(weights)
    cuts = cuts_of([-1.0, 0.0, 0.5, 2.0], mean, covariance, along)
    d = draws - mean
    z = d @ along.T / np.sqrt((along @ covariance * along).sum(axis=1))
    full = np.concatenate([np.ones((71, chains, 1)), d], axis=2)
    above = (draws @ along.T)[..., None] > cuts  # (B, C, K, m)
    cells = above.sum(axis=3)[..., None] == np.arange(5)
    for sizes in ([71], [1, 0, 50, 20]):
        sums = fill(DrawSums(mean, covariance, along, cuts), draws, weights, sizes)
        np.testing.assert_allclose(sums.weight, weights.sum(axis=0))
        np.testing.assert_allclose(sums.weight2, (weights**2).sum(axis=0))
        np.testing.assert_allclose(sums.z, (weights[..., None] * z).sum(axis=0), atol=1e-9)
        np.testing.assert_allclose(sums.z2, (weights[..., None] * (z**2 - 1)).sum(axis=0), atol=1e-9)
        np.testing.assert_allclose(sums.pairs, np.einsum("bc,bci,bcj->ij", weights, full, full), atol=1e-8)
        np.testing.assert_allclose(sums.below, (weights[..., None, None] * cells).sum(axis=0))


@BY_BOTH
@pytest.mark.parametrize("dim", [3, 70])
def test_directions_may_have_any_order(dim):
    mean, covariance, along = truth_of(dim)
    draws, weights = np.random.default_rng(0).standard_normal((300, 9, dim)), np.ones((300, 9))
    cuts = cuts_of([-1.0, 0.0, 2.0], mean, covariance, along)
    sums = fill(DrawSums(mean, covariance, along, cuts), draws, weights, [300])
    turned = fill(DrawSums(mean, covariance, along[::-1], cuts[::-1]), draws, weights, [300])
    for name in ("z", "z2", "below"):
        np.testing.assert_allclose(getattr(turned, name)[:, ::-1], getattr(sums, name), atol=1e-9)


@BY_BOTH
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dim", [2, 70])
def test_a_draw_that_is_not_finite_changes_its_chain_alone(dim, value):
    mean, covariance, along = truth_of(dim)
    draws, weights = np.random.default_rng(0).standard_normal((300, 9, dim)), np.ones((300, 9))
    cuts = cuts_of([-1.0, 0.0, 2.0], mean, covariance, along)
    clean = fill(DrawSums(mean, covariance, along, cuts), draws, weights, [300])
    draws[250, 4, dim // 2] = value
    spoiled = fill(DrawSums(mean, covariance, along, cuts), draws, weights, [300])
    others = np.arange(9) != 4
    assert not np.isfinite(spoiled.z[4]).all()
    np.testing.assert_array_equal(spoiled.weight, clean.weight)
    for name in ("z", "z2", "below"):
        np.testing.assert_allclose(getattr(spoiled, name)[others], getattr(clean, name)[others], rtol=1e-9)
    np.testing.assert_array_equal(spoiled.below.sum(axis=2), clean.below.sum(axis=2))


LEVELS = {
    "none": [],
    "one": [0.0],
    "equal": [-1.0, -0.5, -0.5, 0.0, 0.3],
    "crowded": [-1.0, -1e-9, 0.0, 1e-9, 2.0],
    "many": np.linspace(-2, 2, 39),
}


@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("chains", [1, 7, 8, 33])
def test_odd_numbers_are_in_the_cells_where_numpy_puts_them(levels, chains, monkeypatch):
    if counting.code() is None:
        pytest.skip("there is no C++ compiler")
    one = np.ones((1, 1))
    rng = np.random.default_rng(1)
    draws, weights = rng.standard_normal((50, chains, 1)), rng.exponential(size=(50, chains))
    chosen = rng.choice([*ODD, *levels], size=draws.flat[::3].size)
    draws.flat[::3] = chosen
    compiled, plain = (DrawSums(np.zeros(1), one, one, np.array([levels], dtype=float)) for _ in range(2))
    compiled.update(draws, weights)
    monkeypatch.setattr(counting, "code", lambda: None)
    plain.update(draws, weights)
    np.testing.assert_allclose(compiled.below, plain.below, rtol=1e-13)
    for name in NAMES[:4]:
        np.testing.assert_allclose(getattr(compiled, name), getattr(plain, name), rtol=1e-12)


def test_modes_are_the_same_by_both(monkeypatch):
    if counting.code() is None:
        pytest.skip("there is no C++ compiler")
    rng = np.random.default_rng(2)
    for shape in ((40, 1, 1), (51, 3, 2), (30, 40, 5)):
        means = 4 * rng.permutation(np.stack(np.meshgrid(*[np.arange(-1, 2)] * shape[2]), -1).reshape(-1, shape[2]))
        draws = rng.integers(-12, 13, size=shape) / 2  # many ties
        weights = rng.exponential(size=shape[:2])
        draws.flat[::17] = rng.choice(ODD, size=draws.flat[::17].size)
        weights.flat[::19] = np.nan
        compiled, plain = (ModeCounts(means, 1.0, 0.5) for _ in range(2))
        compiled.update(draws, weights, np.arange(shape[0]) * 2)
        with monkeypatch.context() as patch:
            patch.setattr(counting, "code", lambda: None)
            plain.update(draws, weights, np.arange(shape[0]) * 2)
        for name, value in plain.state().items():
            np.testing.assert_allclose(compiled.state()[name], value, rtol=1e-12)


@BY_BOTH
@pytest.mark.parametrize("argument", range(4))
@pytest.mark.parametrize("layout", [np.asfortranarray, lambda a: np.repeat(a, 2, axis=0)[::2], np.float32])
def test_arrays_of_any_layout_and_precision_are_taken(argument, layout):
    mean, covariance, along = truth_of(3)
    given = [mean, covariance, along, cuts_of([-1.0, 0.0, 0.5, 2.0], mean, covariance, along).astype(np.float32)]
    given = [np.ascontiguousarray(each, np.float32).astype(np.float64) for each in given]  # exact in both precisions
    changed = [layout(each) if k == argument else each for k, each in enumerate(given)]
    draws, weights = mean + np.random.default_rng(0).standard_normal((20, 3, 3)), np.ones((20, 3))
    sums, expected = (fill(DrawSums(*arrays), draws, weights, [20]) for arrays in (changed, given))
    for name in NAMES:
        np.testing.assert_allclose(getattr(sums, name), getattr(expected, name), rtol=1e-6)


@BY_BOTH
def test_pooled_errors_follow_the_definition():
    mean, covariance, along = truth_of(2)
    rng = np.random.default_rng(3)
    draws, weights = rng.normal(5.0, 2.0, (90, 3, 2)), rng.uniform(0.1, 2.0, (90, 3))
    for w in (weights, np.ones_like(weights)):
        error, ratio = pooled_errors(fill(DrawSums(mean, covariance, along), draws, w, [40, 50]))
        flat, variances = draws.reshape(-1, 2), np.diag(covariance)
        np.testing.assert_allclose(error, (np.average(flat, axis=0, weights=w.ravel()) - mean) / variances**0.5)
        np.testing.assert_allclose(ratio, np.diag(np.cov(flat.T, aweights=w.ravel())) / variances)


@BY_BOTH
def test_no_variance_from_one_draw_and_none_without_weight():
    sums = DrawSums(np.zeros(1), np.eye(1), np.eye(1))
    sums.update(np.ones((1, 1, 1)), np.ones((1, 1)))
    error, ratio = pooled_errors(sums)
    assert error[0] == 1
    assert np.isnan(ratio[0])
    sums.update(np.ones((3, 1, 1)), np.ones((3, 1)))
    assert pooled_errors(sums)[1][0] == 0
    weightless = DrawSums(np.zeros(1), np.eye(1), np.eye(1))
    weightless.update(np.ones((2, 2, 1)), np.zeros((2, 2)))
    assert np.isnan(pooled_errors(weightless)).all()


@BY_BOTH
def test_a_diverged_chain_leaves_the_sums_of_the_others_alone():
    mean, covariance, along = truth_of(2)
    rng = np.random.default_rng(4)
    draws, weights = rng.standard_normal((60, 9, 2)), np.ones((60, 9))
    broken = draws.copy()
    broken[30:, 4] = np.inf
    clean, diverged = (DrawSums(mean, covariance, along) for _ in range(2))
    clean.update(draws, weights)
    diverged.update(broken, weights)
    assert not np.isfinite(diverged.z[4]).any()
    others = np.arange(9) != 4
    for name in ("z", "z2", "below"):
        np.testing.assert_array_equal(getattr(diverged, name)[others], getattr(clean, name)[others])


@BY_BOTH
def test_state_round_trip_is_exact_and_independent():
    mean, covariance, along = truth_of(2)
    cuts = cuts_of([-1.0, 1.0], mean, covariance, along)
    rng = np.random.default_rng(5)
    draws, weights = rng.standard_normal((60, 3, 2)), rng.uniform(0.1, 2.0, (60, 3))
    first, second = (DrawSums(mean, covariance, along, cuts) for _ in range(2))
    first.update(draws[:20], weights[:20])
    saved = first.state()
    second.load(saved)
    for sums in (first, second):
        sums.update(draws[20:], weights[20:])
    for name in NAMES:
        np.testing.assert_array_equal(second.state()[name], first.state()[name])
        assert not np.array_equal(saved[name], first.state()[name])
    with pytest.raises(ValueError, match="directions"):
        DrawSums(np.zeros(1), np.eye(1), np.eye(1)).load(saved)
    with pytest.raises(ValueError, match="this block has 2 chains"):
        first.update(draws[:, :2], weights[:, :2])


@pytest.mark.parametrize("rotation", [0, 1])
def test_directions_do_not_depend_on_the_basis_of_a_repeated_eigenvalue(monkeypatch, rotation):
    """Libraries choose another one on other processors, and the metrics that use them would differ."""
    scale = np.array([1.0, *[0.5] * 7])
    covariance = 9 * np.outer(scale, scale) + np.diag([0.0, *[1.2] * 7])
    expected = directions(covariance)
    eigh = np.linalg.eigh

    def other(matrix):
        values, vectors = eigh(matrix)
        turn = np.linalg.qr(np.random.default_rng(rotation).normal(size=(6, 6)))[0]
        return values, np.concatenate([vectors[:, :1], vectors[:, 1:7] @ turn, vectors[:, 7:]], axis=1)

    monkeypatch.setattr(np.linalg, "eigh", other)
    np.testing.assert_allclose(directions(covariance), expected, atol=1e-12)
