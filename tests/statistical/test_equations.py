"""One step by hand: gradient and noise fixed, the samplers are their published equations, in NumPy and float64."""

import numpy as np
import pytest
from kernels import Fixed, scalars, stepped, tensor

from harness.engine.linear import ScriptedNoise
from plugins.samplers.msgld import MSGLD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD

THETA, MEMORY, G, XI = np.random.default_rng(5).standard_normal((4, 4, 3))
pytestmark = [pytest.mark.parametrize("T", [0.5, 1.0, 3.0]), pytest.mark.parametrize("h", [0.003, 0.4])]


def step(sampler, state, h, T):
    return stepped(sampler, THETA, state, Fixed(G), h, T, XI)


@pytest.mark.parametrize("V", [0.0, 1.7])
def test_sgld(h, T, V):
    position, state = step(SGLD(gradient_variance=V), {}, h, T)
    np.testing.assert_allclose(position, THETA - h * G + np.sqrt(2 * h * T - h**2 * V) * XI, rtol=1e-13)
    assert state == {}


def test_sghmc(h, T):
    position, state = step(SGHMC(friction=0.3), {"v": MEMORY}, h, T)
    new = 0.7 * MEMORY - h * G + np.sqrt(2 * 0.3 * h * T) * XI
    np.testing.assert_allclose(state["v"], new, rtol=1e-12)
    np.testing.assert_allclose(position, THETA + new, rtol=1e-12)
    start = SGHMC().init(tensor(THETA), None, *scalars(h, T), ScriptedNoise([tensor(XI)]))
    np.testing.assert_allclose(start["v"].numpy(), np.sqrt(h * T) * XI, rtol=1e-13)


def test_msgld_uses_the_momentum_of_past_gradients_alone(h, T):
    position, state = step(MSGLD(a=5.0, beta1=0.9), {"m": MEMORY}, h, T)
    np.testing.assert_allclose(position, THETA - h * (G + 5.0 * MEMORY) + np.sqrt(2 * h * T) * XI, rtol=1e-13)
    np.testing.assert_allclose(state["m"], 0.9 * MEMORY + 0.1 * G, rtol=1e-13)
    assert not MSGLD().init(tensor(THETA), None, None, None, None)["m"].any()
