"""The search for an interpretation of the ravine: each one runs a sampler of U as the paper's would run on c U."""

import pytest
import torch

from plugins.samplers.asgld import ASGLD
from plugins.samplers.msgld import MSGLD
from plugins.samplers.psgld import PSGLD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD
from tasks.regression import ravine_data as data
from tasks.regression.ravine_search import settings


class Scaled:
    """A gradient of c U at fixed noise: what a reading means, apart from how it is run."""

    terms = data.N

    def __init__(self, c):
        self.c = c

    def grad(self, x):
        return self.c * 1e5 * torch.sin(3 * x) + self.c * 1e4


class Fixed:
    def __init__(self):
        self.generator = torch.Generator().manual_seed(1)

    def normal(self, like):
        return torch.randn(like.shape, generator=self.generator, dtype=like.dtype)


LITERAL = {
    "sgld": (SGLD(), 1e-4),
    "sghmc": (SGHMC(friction=0.1), 1e-5),
    "asgld": (ASGLD(a=1000.0, beta1=0.9, beta2=0.999, lam=1e-5), 1e-4),
    "msgld": (MSGLD(a=10.0, beta1=0.99), 1e-4),
}


def path(sampler, h, T, c, steps=6):
    noise, potential = Fixed(), Scaled(c)
    theta = torch.tensor([[1.0, -2.0], [0.3, 4.0]], dtype=torch.float64)
    h, T = (torch.tensor(v, dtype=torch.float64) for v in (h, T))
    state = sampler.init(theta, potential, h, T, noise)
    for _ in range(steps):
        theta, state = sampler.step(theta, state, potential, h, T, noise)
    return theta.numpy()


@pytest.mark.parametrize("method", LITERAL)
@pytest.mark.parametrize("c", [1.0, 0.01, 1e-4])
def test_a_reading_of_c_u_is_run_as_one_of_u(method, c):
    sampler, step = LITERAL[method]
    h, parameters = settings(method, c)
    assert path(type(sampler)(**parameters), h, 0.3 / c, 1.0) == pytest.approx(path(sampler, step, 0.3, c), rel=1e-9)


@pytest.mark.parametrize("c", [1.0, 0.01])
def test_psgld_takes_v_from_the_mean_gradient(c):
    """One step by hand: G = 1 / (1e-6 + |c g| / N), theta - 1e-4 G c g + sqrt(2 1e-4 T G) xi, V starting at g^2."""
    h, parameters = settings("psgld", c)
    start = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    g = Scaled(c).grad(start)
    xi = Fixed().normal(start)
    G = 1 / (1e-6 + g.abs() / data.N)
    expected = start - 1e-4 * G * g + (2 * 1e-4 * 0.3 * G).sqrt() * xi
    sampler, noise = PSGLD(**parameters), Fixed()
    tensors = [torch.tensor(v, dtype=torch.float64) for v in (h, 0.3 / c)]
    state = {"V": Scaled(1.0).grad(start).square()}
    theta, _ = sampler.step(start, state, Scaled(1.0), *tensors, noise)
    assert theta.numpy() == pytest.approx(expected.numpy(), rel=1e-9)
