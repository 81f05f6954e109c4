"""The joint error that follows from a sampler's equations, before a run."""

import math

import numpy as np
import pytest

from harness import Bench
from harness.tasks import Truth
from plugins.running import error_forecast
from plugins.running.error_forecast import of_axes, variance_of_mean
from plugins.samplers.baoab import BAOAB
from plugins.samplers.hmc import HMC
from plugins.samplers.psgld import PSGLD
from plugins.samplers.sgld import SGLD
from reports.orderings import gradient_noise
from tasks.synthetic.gaussian2d import Gaussian2D

pytestmark = pytest.mark.numbers


@pytest.mark.parametrize("draws", [1, 2, 7, 1000])
def test_the_variance_of_a_mean_is_the_mean_of_the_correlations(draws):
    A, P = np.array([[0.9, 0.1], [-0.2, 0.7]]), np.array([[2.0, 0.3], [0.3, 1.0]])
    lags = [(np.linalg.matrix_power(A, k) @ P)[0, 0] / P[0, 0] for k in range(draws)]
    j, k = np.indices((draws, draws))
    for power, (M, Q) in ((1, (A, P)), (2, (np.kron(A, A), np.kron(P, P)))):
        by_hand = np.mean(np.array(lags)[abs(j - k)] ** power)
        assert variance_of_mean(M, Q, draws) == pytest.approx(by_hand, rel=1e-9)


def test_sgld_by_hand():
    """theta <- (1 - x) theta + sqrt(2 x) xi has the variance 1 / (1 - x / 2) and correlations (1 - x)^k."""
    x, n = 0.02, 10_000
    r = 1 / (1 - x / 2)
    forecast = of_axes(SGLD(), x, 1.0, [1.0], [0.0], 1, n, n)
    tau = (2 - x) / x
    assert forecast.error == pytest.approx(r * tau / n, rel=0.02)
    assert forecast.steps == pytest.approx(r * tau / 0.01, rel=0.02)
    noisy = of_axes(SGLD(), x, 1.0, [1.0], [400.0], 1, n, n)  # h^2 V is four times 2 h T
    assert noisy.error > ((5 * r - 1) ** 2) / 2
    assert noisy.steps == math.inf


def test_the_worst_axis_decides_and_thinning_keeps_the_error():
    both = of_axes(SGLD(), 0.02, 1.0, [1.0, 25.0], [0.0, 0.0], 1, 10_000, 10_000)
    slow = of_axes(SGLD(), 0.02, 1.0, [25.0], [0.0], 1, 10_000, 10_000)
    assert both == slow
    thinned = of_axes(SGLD(), 0.02, 1.0, [25.0], [0.0], 10, 1000, 10_000)
    assert thinned.error == pytest.approx(slow.error, rel=0.05)
    assert thinned.steps == pytest.approx(slow.steps, rel=0.05)


@pytest.mark.parametrize("sampler", [PSGLD(), HMC()])
def test_there_is_none_of_samplers_that_are_not_linear(sampler):
    assert of_axes(sampler, 0.1, 1.0, [1.0], [0.0], 1, 100, 100) is None


def test_a_run_that_is_far_too_short_has_the_variance_of_one_draw():
    for sampler, x in ((SGLD(), 1e-12), (BAOAB(), 1e-12), (SGLD(), 1e-6)):
        assert of_axes(sampler, x, 1.0, [1.0], [0.0], 1, 10, 10).error == pytest.approx(1, rel=1e-3)


def test_there_is_none_of_an_unstable_step():
    assert of_axes(SGLD(), 3.0, 1.0, [1.0], [0.0], 1, 100, 100) is None


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["sgld", "sghmc", "baoab"])
def test_runs_have_the_error_that_was_forecast(tmp_path, sampler):
    """On a Gaussian with noisy gradients, at a step size with a bias: of 8 chains and 20 seeds, within a third."""
    bench = Bench(tmp_path)
    asked = {"seeds": range(20), "chains": 8, "budget": "quick", "study": "one-setting"}
    (item, *_), _ = bench.prepared(bench.requests(sampler, "gaussian2d", **asked), "cpu", 1, None)
    forecast = error_forecast.of_run(item.spec)
    results = bench.run(sampler, "gaussian2d", **asked)
    (row,) = [r for r in results.report("leaderboard").records if r["ranked_by"]]
    assert forecast.error == pytest.approx(row["mean"], rel=1 / 3)


def test_the_noise_is_that_along_the_axes_of_the_truth(monkeypatch):
    """Of a target with one wide and one narrow axis, whose noise is along one of them, in turned coordinates."""
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    seen = {}

    def of_axes(*given):
        seen.update(zip(*(np.round(along, 9) for along in given[3:5]), strict=True))

    task = Gaussian2D()
    monkeypatch.setattr(Gaussian2D, "truth", lambda _: Truth.normal(np.zeros(2), turn @ np.diag([4.0, 1.0]) @ turn.T))
    monkeypatch.setattr(error_forecast, "gradient_noise", lambda *_: turn @ np.diag([9.0, 0.5]) @ turn.T)
    monkeypatch.setattr(error_forecast, "of_axes", of_axes)
    bench = Bench()
    (item,), _ = bench.prepared(bench.requests("sgld", "gaussian2d", seeds=[0], budget="smoke"), "cpu", 1, None)
    error_forecast.of_run(item.spec)
    assert seen == {4.0: 9.0, 1.0: 0.5}
    noise = gradient_noise(task, np.zeros(2))
    assert np.abs(noise - np.eye(2)).max() < 0.1  # that of 4,000 gradients


def test_plan_shows_it_and_says_never_and_not_known(tmp_path):
    bench = Bench(tmp_path)
    asked = {"seeds": [0], "budget": "quick", "study": "one-setting"}
    frame = bench.plan("sgld,hmc", "gaussian2d", forecast=True, **asked)
    sgld, hmc = frame["forecast_error"].to_list()
    assert 0.02 < sgld < 0.1
    assert hmc is None
    assert frame["forecast_steps"].to_list() == [math.inf, None]
