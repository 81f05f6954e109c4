"""The relatives of msgld and asgld: their equations by hand, their law with the scale held still, and when it moves."""

import numpy as np
import pytest
from kernels import Line, stepped

from harness.engine.linear import stability_limit, stationary_variance
from plugins.samplers.adadelta_sgld import AdadeltaSGLD
from plugins.samplers.adamax_sgld import AdamaxSGLD
from plugins.samplers.msgld import MSGLD
from plugins.samplers.msgld_corrected import MSGLDCorrected
from plugins.samplers.pmsgld import PMSGLD

SHAPE = (4, 3)
CUBE = Line(lambda x: x.square().square() / 4, lambda x: x * x.square())


@pytest.fixture(name="T", params=[0.5, 1.0, 3.0])
def temperature(request):
    return request.param


@pytest.fixture(params=[0.003, 0.4])
def h(request):
    return request.param


@pytest.fixture
def numbers():
    theta, m, xi, V, W = np.random.default_rng(7).standard_normal((5, *SHAPE))
    return theta, m, xi, V**2, W**2


def same(position, expected):
    np.testing.assert_allclose(position, expected, rtol=1e-12, atol=1e-14)


def test_a_step_of_adamax_sgld(numbers, h, T):
    theta, m, xi, u, _ = numbers
    position, state = stepped(
        AdamaxSGLD(a=5.0, beta1=0.8, beta2=0.95, lam=0.1), theta, {"m": m, "u": u}, CUBE.potential(), h, T, xi
    )
    g = theta**3
    same(position, theta - h * (g + 5 * m / (u + 0.1)) + np.sqrt(2 * h * T) * xi)
    same(state["m"], 0.8 * m + 0.2 * g)
    same(state["u"], np.where(np.abs(g) > 0.95 * u, np.abs(g), 0.95 * u))


def test_a_step_of_adadelta_sgld(numbers, h, T):
    theta, p, xi, V, W = numbers
    sampler = AdadeltaSGLD(a=2.0, rho=0.9, lam=0.3, eps=0.2)
    position, state = stepped(sampler, theta, {"p": p, "V": V, "W": W}, CUBE.potential(), h, T, xi)
    g, d = theta**3, np.sqrt(W + 0.2) / np.sqrt(V + 0.3) * p
    same(position, theta - h * (g + 2 * d) + np.sqrt(2 * h * T) * xi)
    same(state["p"], g)
    same(state["V"], 0.9 * V + 0.1 * g**2)
    same(state["W"], 0.9 * W + 0.1 * d**2)


def test_a_step_of_pmsgld(numbers, h, T):
    theta, m, xi, V, _ = numbers
    sampler = PMSGLD(a=4.0, beta1=0.8, decay=0.9, lam=0.2)
    position, state = stepped(sampler, theta, {"m": m, "V": V}, CUBE.potential(), h, T, xi)
    g, G = theta**3, 1 / (0.2 + np.sqrt(V))
    same(position, theta - h * G * (g + 4 * m) + np.sqrt(2 * h * T * G) * xi)
    same(state["m"], 0.8 * m + 0.2 * g)
    same(state["V"], 0.9 * V + 0.1 * g**2)


def test_a_step_of_corrected_msgld(numbers, h, T):
    theta, m, xi, _, _ = numbers
    position, state = stepped(MSGLDCorrected(a=4.0, beta1=0.8), theta, {"m": m}, CUBE.potential(), h, T, xi)
    g = theta**3
    same(position, theta - h * (g + 4 * m) + np.sqrt(2 * h * 5 * T) * xi)
    same(state["m"], 0.8 * m + 0.2 * g)


@pytest.mark.parametrize("a", [0.02, 0.1])
@pytest.mark.parametrize("beta1", [0.0, 0.9])
@pytest.mark.parametrize("share", [1e-3, 0.3, 0.9])
def test_with_its_scale_at_rest_adamax_sgld_is_msgld(a, beta1, share):
    sampler, msgld = AdamaxSGLD(a=a, beta1=beta1, lam=0.01), MSGLD(a=a / 0.01, beta1=beta1)
    x = share * stability_limit(msgld)
    assert stability_limit(sampler) == pytest.approx(stability_limit(msgld), rel=1e-6)
    assert stationary_variance(sampler, x, 1.0) == pytest.approx(stationary_variance(msgld, x, 1.0), rel=1e-6)


@pytest.mark.parametrize(("lam", "eps"), [(1e-6, 1e-6), (1e-4, 4e-4), (1.0, 0.01)])
@pytest.mark.parametrize("share", [1e-3, 0.3, 0.9])
def test_with_its_scales_at_rest_adadelta_sgld_is_msgld_without_smoothing(lam, eps, share):
    sampler, msgld = AdadeltaSGLD(a=1.5, lam=lam, eps=eps), MSGLD(a=1.5 * np.sqrt(eps / lam), beta1=0.0)
    x = share * stability_limit(msgld)
    assert stationary_variance(sampler, x, 1.0) == pytest.approx(stationary_variance(msgld, x, 1.0), rel=1e-6)


@pytest.mark.parametrize("a", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("lam", [1e-5, 3.0])
def test_with_its_scale_at_rest_pmsgld_is_msgld_of_another_step(a, lam):
    """V is 1 at the start: G = 1 / (1 + lam)."""
    sampler, msgld = PMSGLD(a=a, lam=lam), MSGLD(a=a)
    limit = stability_limit(msgld)
    assert stability_limit(sampler) == pytest.approx((1 + lam) * limit, rel=1e-6)
    for share in (1e-3, 0.3, 0.9):
        variance = stationary_variance(sampler, share * limit * (1 + lam), 2.0)
        assert variance == pytest.approx(stationary_variance(msgld, share * limit, 2.0), rel=1e-6)
