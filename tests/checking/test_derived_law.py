"""The law derived from `step` against the closed forms of the literature, and moments along a schedule."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import Fixed, stepped
from planted.bugs import EulerOrder

from harness.engine.linear import derive, propagate, stability_limit, stationary_variance
from harness.system.errors import UsageError
from plugins.checking.law import trajectory
from plugins.samplers.hmc import HMC
from plugins.samplers.msgld import MSGLD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD
from plugins.schedules.cyclical import Cyclical

STEPS = (1e-4, 0.01, 0.1, 0.5, 1.5)
TEMPERATURES = (0.5, 1.0, 3.0)


def msgld_variance(x, a, b):
    d = b - b * x + a * x * (1 - b)
    f = 1 - x + b
    return 2 * x * ((1 + b * b) * (1 + d) - 2 * b * f) / ((1 - d) * ((1 + d) ** 2 - f * f))


def msgld_limit(a, b):
    bounds = ((1 - b, a * (1 - b) - b), (2 * (1 + b), 1 + b - a * (1 - b)))
    return min(above / below for above, below in bounds if below > 0)


@pytest.mark.parametrize("x", STEPS)
@pytest.mark.parametrize("T", TEMPERATURES)
def test_sgld_has_variance_one_over_one_minus_half_x(x, T):
    assert stationary_variance(SGLD(), x, T) == pytest.approx(T / (1 - x / 2), rel=1e-9)


@pytest.mark.parametrize("V", [0.3, 4.0])
def test_gradient_noise_adds_its_share_and_a_known_variance_takes_it_off_again(V):
    h, T = 0.1, 1.0
    exact = T / (1 - h / 2)
    noisy = stationary_variance(SGLD(), h, T, gradient_variance=V)
    assert noisy == pytest.approx((2 * h * T + h * h * V) / (2 * h * T) * exact, rel=1e-9)
    assert stationary_variance(SGLD(gradient_variance=V), h, T, gradient_variance=V) == pytest.approx(exact, rel=1e-9)
    wrong = stationary_variance(SGLD(gradient_variance=2 * V), h, T, gradient_variance=V)
    assert wrong == pytest.approx((2 * h * T - h * h * V) / (2 * h * T) * exact, rel=1e-9)


def test_a_correction_larger_than_the_noise_is_refused():
    sampler = SGLD(gradient_variance=30.0)
    sampler.check_steps([0.06, 0.5], [1.0, 0.0])
    with pytest.raises(UsageError, match=r"h = 0\.07"):
        sampler.check_steps([0.01, 0.07], [1.0, 1.0])


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("x", STEPS[:-1])
@pytest.mark.parametrize("T", TEMPERATURES)
def test_sghmc_has_its_variances_of_position_and_velocity(alpha, x, T):
    step = derive(SGHMC(friction=alpha), x, T)
    P = step.stationary()
    factor = 1 / (1 - x / (2 * (2 - alpha)))
    assert P[0, 0] == pytest.approx(T * factor, rel=1e-8)
    assert P[1, 1] == pytest.approx(x * T * 2 / (2 - alpha) * factor, rel=1e-8)


@pytest.mark.parametrize("a", [0.0, 1.0, 5.0, 10.0, 20.0])
@pytest.mark.parametrize("beta1", [0.0, 0.9, 0.99])
@pytest.mark.parametrize("T", TEMPERATURES)
def test_msgld_has_its_closed_form(a, beta1, T):
    sampler = MSGLD(a=a, beta1=beta1)
    for share in (1e-3, 0.1, 0.9):
        x = share * msgld_limit(a, beta1)
        assert stationary_variance(sampler, x, T) == pytest.approx(T * msgld_variance(x, a, beta1), rel=1e-8)


def test_msgld_without_bias_is_sgld():
    theta, m, xi, g = np.random.default_rng(0).standard_normal((4, 3, 5))
    plain, _ = stepped(SGLD(), theta, {}, Fixed(g), 0.2, 1.5, xi)
    np.testing.assert_array_equal(stepped(MSGLD(a=0.0), theta, {"m": m}, Fixed(g), 0.2, 1.5, xi)[0], plain)


@pytest.mark.parametrize(
    ("sampler", "limit"),
    [
        (SGLD(), 2.0), (SGLD(gradient_variance=3.0), 2.0), (SGHMC(friction=0.1), 3.8), (SGHMC(friction=1.0), 2.0),
        (EulerOrder(friction=0.1), 0.1), (HMC(), None),
        *((MSGLD(a=a, beta1=b), msgld_limit(a, b)) for a, b in ((1, 0.9), (5, 0.9), (10, 0.9), (20, 0.9), (10, 0.99))),
    ],
    ids=str,
)  # fmt: skip
def test_the_limit_of_stability(sampler, limit):
    assert stability_limit(sampler) == (None if limit is None else pytest.approx(limit, rel=1e-9))


def test_curvatures_do_not_mix():
    P = derive(MSGLD(a=2.0), 0.1, 1.0, (0.5, 1.0, 4.0)).stationary()
    expected = [msgld_variance(0.1 * lam, 2.0, 0.9) / lam for lam in (0.5, 1.0, 4.0)]
    np.testing.assert_allclose(P[:3, :3], np.diag(expected), rtol=1e-9, atol=1e-12)


def test_moments_of_cyclical_sgld_at_every_step():
    path = Cyclical(step_size=0.8, cycles=3, beta=0.25, temperature=2.0).trajectory(60, 1)
    lam, P, expected = 1.5, 0.7, []
    for h, T in zip(path.step_size, path.temperature, strict=True):
        P = (1 - h * lam) ** 2 * P + 2 * h * T
        expected.append(P)
    covariances = propagate(SGLD(), path, (lam,), np.array([[0.7]]))
    np.testing.assert_allclose(covariances[:, 0, 0], expected, rtol=1e-12)
    assert (path.temperature == 0).sum() == 15


def test_a_sampler_that_is_not_linear_has_no_exact_moments():
    with pytest.raises(ValueError, match="HMC is not linear"):
        propagate(HMC(), trajectory([0.1], 1.0), (1.0,), np.eye(1))
