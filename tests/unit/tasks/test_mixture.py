import math

import numpy as np
import pytest
import torch

from harness.contracts.randomness import Streams
from harness.contracts.task import Cost
from plugins.schedules.constant import Constant
from tasks.synthetic.mixture5 import Mixture5
from tasks.synthetic.mixture25 import Mixture25
from tasks.synthetic.observer import MixtureObserver

pytestmark = pytest.mark.numbers

PATH = Constant(step_size=0.1)
BOTH = [Mixture5(), Mixture25()]


def build(task, chains=4):
    return task.build([Streams(0, chain) for chain in range(chains)], "cpu")


def observe(task, draws, *, burn_in=0, passes=1.0, weights=None):
    """The outcome of draws (n, C, D), and the observer."""
    path = PATH.trajectory(burn_in + len(draws), 1).with_burn_in(burn_in)
    observer = MixtureObserver(task, draws.shape[1], path, Cost(0.0, passes))
    x = torch.from_numpy(draws)
    w = torch.ones(draws.shape[:2], dtype=torch.float64) if weights is None else torch.from_numpy(weights)
    observer.observe(x, w, np.arange(len(draws)) + burn_in + 1)
    return observer.outcome(), observer


def exact(task, n, chains, seed=3):
    return task.sample(n * chains, np.random.default_rng(seed)).reshape(n, chains, 2)


def test_mixture5_is_the_density_of_the_paper_normalised():
    points = np.array([[0.0, 0.0], [-3.0, -1.5], [2.0, 7.0]])
    centres = np.array([[-3, -3], [-3, 0], [0, 0], [3, 0], [3, 3]])
    printed = np.exp(-((points[:, None] - centres) ** 2).sum(2)).sum(1) / (10 * np.pi)
    assert Mixture5().log_density(points) == pytest.approx(np.log(2 * printed))


@pytest.mark.parametrize("task", BOTH)
def test_the_potential_is_minus_the_log_density_near_and_far(task):
    points = np.array([[0.1, -0.2], [3.9, 4.1], [1.0, 1.0], [10.0, -10.0], [60.0, 80.0]])
    energy = build(task).energy(torch.from_numpy(points), None)
    assert energy.numpy() == pytest.approx(-task.log_density(points), rel=1e-12)


@pytest.mark.parametrize("task", BOTH)
def test_chains_start_in_the_whole_box_each_on_its_own(task):
    starts = build(task, 200).initial().numpy()
    assert np.abs(starts).max() <= task.box
    assert (starts.min(0) < -0.9 * task.box).all()
    assert (starts.max(0) > 0.9 * task.box).all()
    assert len(np.unique(starts)) == starts.size


def test_gradient_noise_is_a_tilt_with_the_stated_spread():
    problem = build(Mixture25(noise=2.0), 2)
    theta = problem.initial()
    tilts = problem.draw_batches(5000)["tilt"]
    assert float(tilts.std()) == pytest.approx(2.0, rel=5 / math.sqrt(2 * tilts.numel()))
    batch = {"tilt": tilts[0]}
    assert torch.allclose(problem.gradient(theta, batch) - problem.gradient(theta, None), tilts[0])
    assert build(Mixture25(noise=0.0)).draw_batches(10) == {}


@pytest.mark.parametrize("task", BOTH)
def test_exact_draws_score_their_targets(task):
    n, chains = 20_000, 4
    outcome, _ = observe(task, exact(task, n, chains))
    metrics, total = outcome.metrics, n * chains
    assert metrics["modes_covered"] == len(task.centres)
    assert metrics["mode_mass_tv"] < 5 * math.sqrt(len(task.centres) / total)
    targets = {m.name: m.target for m in task.metrics}
    assert metrics["within_mode_covariance_ratio"] == pytest.approx(
        targets["within_mode_covariance_ratio"], abs=5 / math.sqrt(total)
    )
    share = targets["share_within_r"]
    assert metrics["share_within_r"] == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / total))
    assert metrics["mean_error"] < 5 / math.sqrt(total)
    assert metrics["variance_ratio"] == pytest.approx(1, abs=5 * math.sqrt(task.truth().z4.max() / total))
    assert 0.5 < metrics["wasserstein2"] / metrics["wasserstein2_baseline"] < 2


def test_curves_have_the_cost_in_passes_and_the_shapes_of_the_contract():
    outcome, _ = observe(Mixture5(), exact(Mixture5(), 3000, 3), burn_in=500, passes=2.0)
    for f in ("z", "z2", "x", "x2"):
        for contraction in ("max", "mean"):
            x, y = outcome.curves[f"joint_b2_{f}_{contraction}"]
            assert x[0] == 2.0 * 501
            assert x[-1] == 2.0 * 3500
            assert y.shape == (3, len(x))
            assert 100 < len(x) <= 200
    x, y = outcome.curves["modes_covered"]
    assert (x[0], x[-1]) == (501, 3500)
    assert y.shape == (1, len(x))
    assert (np.diff(y[0]) >= 0).all()
    assert y[0, -1] == outcome.metrics["modes_covered"]
    along = len(Mixture5().truth().directions)
    shapes = {
        "chain_error_z": (3, 2), "joint_error": (3, 42 * along), "whitened_mean": (1, 2), "whitened_second": (1, 3),
        "distribution_error": (1, 40 * along),
    }  # fmt: skip
    for name, shape in shapes.items():
        x, y = outcome.curves[name]
        assert x.tolist() == list(range(shape[1]))
        assert y.shape == shape
    squares = outcome.curves["joint_error"][1] ** 2
    assert outcome.metrics["joint_error"] == pytest.approx(squares.mean(axis=0).max())
    ends = np.maximum(*(outcome.curves[f"joint_b2_{f}_max"][1][:, -1] for f in ("z", "z2")))
    assert ends == pytest.approx(squares.max(axis=1))


def test_the_last_mode_is_censored_until_it_is_seen():
    task = Mixture25(count=0)
    draws = np.repeat(task.means[:, None], 1, axis=1)
    missing, _ = observe(task, draws[:-1])
    whole, _ = observe(task, draws)
    assert missing.metrics["last_mode_first_visit"] is None
    assert whole.metrics["last_mode_first_visit"] == 25
    assert (missing.metrics["modes_covered"], whole.metrics["modes_covered"]) == (24, 25)


def test_weights_enter_every_number():
    task = Mixture5()
    near, far = exact(task, 4000, 1), np.full((4000, 1, 2), 40.0)
    draws = np.concatenate([near, far])
    weights = np.concatenate([np.ones((4000, 1)), np.zeros((4000, 1))])
    weighted, _ = observe(task, draws, weights=weights)
    plain, _ = observe(task, near)
    for name in ("mode_mass_tv", "within_mode_covariance_ratio", "share_within_r", "mean_error", "variance_ratio"):
        assert weighted.metrics[name] == pytest.approx(plain.metrics[name])
    assert weighted.metrics["wasserstein2"] == pytest.approx(plain.metrics["wasserstein2"], rel=0.5)


def test_a_run_without_draws_or_with_huge_ones_has_no_numbers_instead_of_wrong_ones():
    task = Mixture5()
    empty = MixtureObserver(task, 1, PATH.trajectory(10, 1), Cost(0.0, 1.0)).outcome()
    assert set(empty.metrics) == {m.name for m in task.metrics}
    assert set(empty.metrics.values()) == {None}
    draws = exact(task, 50, 1)
    draws[20:] = 1e200
    huge, _ = observe(task, draws)
    assert huge.metrics["wasserstein2"] is None
    assert huge.metrics["variance_ratio"] is None
    assert all(value is None or math.isfinite(value) for value in huge.metrics.values())
