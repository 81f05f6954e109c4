"""Small densities in closed form: the potential is the density's, the metrics are what exact draws give."""

import math

import numpy as np
import pytest
import torch

from harness.contracts.randomness import Streams
from harness.contracts.task import Cost
from harness.contracts.truth import quantile_levels
from plugins.schedules.constant import Constant
from tasks.synthetic.bimodal1d import GRID, Bimodal1D, cell_masses
from tasks.synthetic.curved import Banana, Rosenbrock
from tasks.synthetic.funnel import Funnel, scored
from tasks.synthetic.gaussian import IllConditionedGaussian
from tasks.synthetic.gaussian2d import Gaussian2D
from tasks.synthetic.mixture2d import Mixture2D
from tasks.synthetic.mixture5 import Mixture5
from tasks.synthetic.mixture25 import Mixture25
from tasks.synthetic.noise import KINDS, SPREAD, rotation

pytestmark = pytest.mark.numbers


def observed(task, draws):
    """The metrics of draws (n, C, D)."""
    n, chains, _ = draws.shape
    problem = task.build([Streams(0, c) for c in range(chains)], "cpu")
    observer = problem.observer(slice(0, chains), Constant(step_size=1.0).trajectory(n, 1), Cost(0.0, 1.0))
    observer.observe(torch.from_numpy(draws), torch.ones((n, chains), dtype=torch.float64), np.arange(1, n + 1))
    return observer.outcome().metrics


@pytest.mark.parametrize(
    "task",
    [
        Gaussian2D(), Gaussian2D(rho=-0.4), Bimodal1D(), Mixture2D(), Banana(), Rosenbrock(),
        IllConditionedGaussian(dimension=3, condition=50.0),
    ],
    ids=lambda task: type(task).__name__,
)  # fmt: skip
def test_the_potential_is_minus_the_log_density_but_for_a_constant(task):
    points = np.random.default_rng(0).normal(size=(6, task.dim()))
    problem = task.build([Streams(0, c) for c in range(6)], "cpu")
    gap = problem.energy(torch.from_numpy(points), None).numpy() + task.log_density(points)
    assert gap == pytest.approx(np.full(6, gap[0]), abs=1e-12)


def test_densities_integrate_to_one():
    assert np.trapezoid(np.exp(Bimodal1D().log_density(GRID[:, None])), GRID) == pytest.approx(1, abs=1e-12)
    assert sum(cell_masses()) == pytest.approx(1, abs=1e-9)
    ticks = np.linspace(-8, 8, 401)
    points = np.stack([axis.ravel() for axis in np.meshgrid(ticks, ticks)], axis=1)
    for task in (Gaussian2D(), Mixture2D()):
        assert np.exp(task.log_density(points)).sum() * (ticks[1] - ticks[0]) ** 2 == pytest.approx(1, abs=1e-9)


def test_the_noise_of_gradients_has_the_stated_variance():
    for task, sd in ((Gaussian2D(), 1.0), (Bimodal1D(), 2.0), (Mixture2D(noise=0.5), 0.5)):
        tilt = task.build([Streams(0, 0)], "cpu").draw_batches(20_000)["tilt"].numpy()
        assert tilt.std() == pytest.approx(sd, rel=5 / math.sqrt(2 * tilt.size))
    assert Gaussian2D(noise=0.0).build([Streams(0, 0)], "cpu").draw_batches(3) == {}


def test_exact_draws_of_the_gaussian_have_its_correlation():
    n = 40_000
    draws = np.random.default_rng(1).multivariate_normal([0, 0], Gaussian2D().covariance, size=n)
    metrics = observed(Gaussian2D(), draws.reshape(-1, 2, 2))
    assert metrics["correlation"] == pytest.approx(0.9, abs=5 * (1 - 0.81) / math.sqrt(n))
    assert metrics["wasserstein2_normal"] < 5 / math.sqrt(n) * math.sqrt(2)


def test_exact_draws_of_the_bimodal_differ_from_it_by_chance_alone():
    n = 50_000
    weights = np.exp(Bimodal1D().log_density(GRID[:, None]))
    x = np.random.default_rng(2).choice(GRID, size=n, p=weights / weights.sum())
    metrics = observed(Bimodal1D(), x.reshape(-1, 1, 1))
    p = np.array(cell_masses())
    expected = 0.5 * np.sqrt(2 * p * (1 - p) / (np.pi * n)).sum()  # the mean of |share - p| / 2, summed over cells
    assert metrics["density_tv"] == pytest.approx(expected, rel=0.4)
    assert metrics["mass_right"] == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(n))


def test_exact_draws_of_the_mixture_meet_the_stated_targets():
    task, n = Mixture2D(), 100_000
    metrics = observed(task, task.sample(n, np.random.default_rng(4)).reshape(-1, 4, 2))
    targets = {metric.name: metric.target for metric in task.metrics}
    assert metrics["modes_covered"] == 4
    ratio = targets["within_mode_covariance_ratio"]
    assert metrics["within_mode_covariance_ratio"] == pytest.approx(ratio, abs=5 / math.sqrt(n))
    share = targets["share_within_r"]
    assert metrics["share_within_r"] == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / n))


SAMPLED = {
    **{type(task).__name__: (task.sample, task.truth(), 400_000)
       for task in (Banana(), Rosenbrock(), Mixture5(), Mixture25())},
    **{f"Funnel, T = {T}": (lambda n, rng, T=T: scored(Funnel(dimension=3).sample(n, rng, T)),
                            Funnel(dimension=3).scored_truth(T), 100_000) for T in (0.5, 1.0, 1.3)},
}  # fmt: skip


@pytest.mark.parametrize(("sample", "truth", "n"), SAMPLED.values(), ids=SAMPLED)
def test_the_truth_is_that_of_exact_draws(sample, truth, n):
    """Moments to the fourth and quantiles, along all directions."""
    draws = sample(n, np.random.default_rng(5))
    assert (np.abs(draws.mean(0) - truth.mean) < 5 * truth.sd / math.sqrt(n)).all()
    along = draws @ truth.directions.T
    sd = np.sqrt((truth.directions @ truth.covariance * truth.directions).sum(1))
    z = (along - truth.directions @ truth.mean) / sd
    for power, stated in ((2, np.ones(len(sd))), (3, truth.z3), (4, truth.z4)):
        assert (np.abs((z**power).mean(0) - stated) < 5 * (z**power).std(0) / math.sqrt(n)).all()
    for x, cuts in zip(along.T, truth.quantiles, strict=True):
        assert (x[:, None] < cuts).mean(0) == pytest.approx(quantile_levels(), abs=5 * 0.5 / math.sqrt(n))


def test_the_condition_of_the_gaussian_is_the_one_that_was_asked_for():
    for dim, condition in ((2, 1.0), (10, 1e4), (60, 1e6), (1000, 1e6)):
        task = IllConditionedGaussian(dimension=dim, condition=condition)
        values = np.linalg.eigvalsh(task.truth().covariance)
        assert values[-1] / values[0] == pytest.approx(condition, rel=1e-6)
        assert task.curvature() == pytest.approx(1 / values[0], rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_has_mean_zero_variance_one_and_its_kind(kind):
    task = IllConditionedGaussian(dimension=4, noise=3.0, noise_kind=kind)
    n = 100_000
    x = task.build([Streams(0, 0)], "cpu").draw_batches(n)["tilt"].numpy()[:, 0] / 3
    assert np.abs(x.mean(0)).max() < 5 * x.std() / math.sqrt(n)
    covariance = np.cov(x.T)
    assert np.trace(covariance) / 4 == pytest.approx(1, abs=0.05)
    even = np.linalg.eigvalsh(covariance)
    wide = 0.3 if kind == "skewed" else 0.1  # the variance of its square is that of exp(4 xi)
    alike = kind not in {"anisotropic", "correlated"}
    assert even[-1] / even[0] == pytest.approx(1 if alike else SPREAD, rel=wide)
    apart = np.abs(covariance - np.diag(np.diag(covariance))).max()
    assert (apart > 0.1) == (kind == "correlated")
    kurtosis = ((x**4).mean(0) / (x**2).mean(0) ** 2).mean()
    heavy = kind in {"student-t", "laplace", "skewed"}
    assert (kurtosis > 4) == heavy
    assert ((x**3).mean() > 1) == (kind == "skewed")


def test_the_rotation_is_orthogonal_and_fixed():
    Q = rotation(7)
    np.testing.assert_allclose(Q @ Q.T, np.eye(7), atol=1e-12)
    assert (rotation(7) == Q).all()


@pytest.mark.parametrize("T", [0.7, 1.0, 2.0])
def test_quantiles_of_the_funnel_s_log_x_are_those_of_quadrature(T):
    """P(log|x| < c) is the mean over t of erf(exp(c - t / 2) / sqrt(2 T))."""
    from scipy.special import erf, ndtr

    truth = Funnel(dimension=4).scored_truth(T)
    nodes = np.linspace(-9, 9, 2001)
    mass = np.exp(-(nodes**2) / 2)
    t = 9 * 3 * (T - 1) / 2 + 3 * math.sqrt(T) * nodes
    below = erf(np.exp(truth.quantiles[2][:, None] - t / 2) / math.sqrt(2 * T)) @ mass / mass.sum()
    assert below == pytest.approx((np.arange(40) + 0.5) / 40, abs=1e-9)
    z = (truth.quantiles[0] - truth.mean[0]) / (3 * math.sqrt(T))
    assert ndtr(z) == pytest.approx((np.arange(40) + 0.5) / 40, abs=1e-9)


def test_the_funnel_s_law_at_a_temperature_is_that_of_its_energy():
    """U / T differs from minus the log density of t ~ N(9 (d-1)(T-1)/2, 9 T), x | t ~ N(0, T e^t) by a constant."""
    task, T, rng = Funnel(dimension=4), 1.7, np.random.default_rng(8)
    theta = rng.normal(size=(6, 4))
    t, x = theta[:, 0], theta[:, 1:]
    log_density = -((t - 27 * (T - 1) / 2) ** 2) / (18 * T) - (x**2).sum(1) / (2 * T * np.exp(t)) - 3 * t / 2
    gap = task.energy(torch.from_numpy(theta)).numpy() / T + log_density
    assert gap == pytest.approx(np.full(6, gap[0]), abs=1e-12)


def test_the_funnel_scores_exact_draws_as_chance_does_and_others_worse():
    task, n = Funnel(), 20_000
    draws = task.sample(4 * n, np.random.default_rng(9)).reshape(n, 4, 10)
    assert observed(task, draws)["joint_error"] < 20 / n
    assert observed(task, draws * 1.5)["joint_error"] > 0.02
    lost = draws.copy()
    lost[5, 1, 2] = np.inf
    assert observed(task, lost)["joint_error"] is None
