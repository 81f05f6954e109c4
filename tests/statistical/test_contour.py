"""contour-sgld on a tilted double well, by quadrature: weighted moments, learned masses, and what weights are for."""

import numpy as np
import pytest
import torch
from kernels import Noise, scalars

from harness.engine.linear import ScriptedNoise
from harness.system.errors import UsageError
from plugins.samplers.contour_sgld import ContourSGLD
from plugins.samplers.sgld import SGLD

GRID = np.linspace(-2.5, 2.5, 20_001)
H, CHAINS, STEPS, BURN = 0.004, 96, 16_000, 6_000


class Well:
    """U = 3 (x^2 - 1)^2 + x / 2, two wells of unlike mass; U asked for is counted."""

    terms = 1

    def __init__(self):
        self.calls = 0

    def energy(self, x):
        return 3 * (x**2 - 1) ** 2 + x / 2

    def value_and_grad(self, x):
        self.calls += 1
        return self.energy(x)[:, 0], 12 * x * (x**2 - 1) + 0.5

    def grad(self, x):
        return self.value_and_grad(x)[1]


def expected(function, T):
    mass = np.exp(-(Well().energy(GRID)) / T)
    return float((function(GRID) * mass).sum() / mass.sum())


def walked(sampler, T, steps=STEPS, burn=BURN):
    """Positions (K, C), weights (K, C) and the last state, every fourth step kept."""
    noise = Noise(21)
    h, heat = scalars(H, T)
    potential = Well()
    theta = torch.where(torch.arange(CHAINS)[:, None] % 2 == 0, -1.0, 1.0).double()
    state = sampler.init(theta, potential, h, heat, noise)
    kept, weights = [], []
    for k in range(steps):
        theta, state = sampler.step(theta, state, potential, h, heat, noise)
        if k >= burn and k % 4 == 0:
            kept.append(theta[:, 0])
            log = sampler.log_weight(state)
            weights.append(torch.zeros(CHAINS) if log is None else log)
    return torch.stack(kept).numpy(), torch.stack(weights).exp().numpy(), state


def estimated(function, x, weights):
    """A weighted mean over all chains, and its error by the spread among groups of eight."""
    groups = [slice(i, i + 8) for i in range(0, CHAINS, 8)]
    each = [(function(x[:, g]) * weights[:, g]).sum() / weights[:, g].sum() for g in groups]
    return np.mean(each), np.std(each, ddof=1) / np.sqrt(len(each))


@pytest.fixture(scope="module", params=[pytest.param((1.0, 20.0), marks=pytest.mark.slow), (1.0, 2.0)], ids=str)
def walk(request):
    """At a temperature, with an energy range that reaches so high: with 2.0 a good part of the draws is out of it."""
    T, high = request.param
    sampler = ContourSGLD(low=-1.0, high=high, bins=round((high + 1) * 5))
    return T, sampler, *walked(sampler, T)


@pytest.mark.slow
@pytest.mark.parametrize("function", [lambda x: x, lambda x: x**2, lambda x: x < 0], ids=["x", "x2", "left"])
def test_weighted_moments_are_those_of_the_target(walk, function):
    T, _, x, weights, _ = walk
    estimate, error = estimated(function, x, weights)
    assert error < 0.05
    assert estimate == pytest.approx(expected(function, T), abs=4 * error + 0.03)  # of first order in h


@pytest.mark.slow
def test_the_landscape_that_it_learns_is_the_mass_of_each_bin(walk):
    T, sampler, _, _, state = walk
    energy = Well().energy(GRID)
    index = np.floor((energy - sampler.low) / sampler.width).clip(0, sampler.bins - 1).astype(int)
    mass = np.bincount(index, weights=np.exp(-energy / T), minlength=sampler.bins)
    mass /= mass.sum()
    masses = state["G"].numpy().mean(0)
    assert masses.sum() == pytest.approx(1, abs=1e-9)
    assert np.abs(masses - mass).sum() / 2 < 0.08  # total variation


def test_with_zeta_zero_it_is_sgld():
    plain, _, _ = walked(SGLD(), 1.0, steps=200, burn=0)
    path, weights, _ = walked(ContourSGLD(zeta=0.0), 1.0, steps=200, burn=0)
    assert np.array_equal(path, plain)
    assert (weights == 1).all()


def flattening(sampler, G, energy, T):
    """s and log Psi^zeta at an energy, bin by bin as the docstring has it."""
    s = [0.0] + [sampler.zeta * T * np.log(G[j] / G[j - 1]) / sampler.width for j in range(1, sampler.bins)]
    s = np.clip(s, -sampler.cap, sampler.cap)
    position = (energy - sampler.low) / sampler.width
    heaviest = int(np.argmax(G))
    log_psi = sampler.zeta * np.log(G[heaviest])  # at the upper end of the heaviest bin
    at = min(max(position, 0.0), float(sampler.bins))
    for j in range(sampler.bins):  # what lies between here and there, bin by bin
        between = min(max(at, j), j + 1) - min(max(heaviest + 1.0, j), j + 1)
        log_psi += between * s[j] * sampler.width / T
    return (s[int(position)] if 0 <= position < sampler.bins else 0.0), log_psi


@pytest.mark.parametrize("cap", [0.4, 50.0])
@pytest.mark.parametrize("energy", [-0.5, 0.4, 1.7, 2.2, 3.9, 5.0])
def test_a_step_by_hand(energy, cap):
    """m = 4 bins of width 1 from 0: x moves by 1 + s; the new x counts for its bin, and weighs Psi^zeta."""
    sampler, T = ContourSGLD(zeta=0.5, bins=4, low=0.0, high=4.0, fastest=0.5, decay=40.0, cap=cap), 1.5
    G = np.array([[0.1, 0.2, 0.4, 0.3]])
    x, g, xi = 0.3, 1.3, 0.8
    state = {
        "G": torch.from_numpy(G), "gradient": torch.full((1, 1), g, dtype=torch.float64),
        "energy": torch.full((1, 1), energy, dtype=torch.float64), "t": torch.tensor([[31]]),
        "log_weight": torch.zeros(1, dtype=torch.float64),
    }  # fmt: skip

    potential = Well()
    theta = torch.full((1, 1), x, dtype=torch.float64)
    position, after = sampler.step(
        theta, state, potential, *scalars(H, T), ScriptedNoise([torch.full((1, 1), xi, dtype=torch.float64)])
    )
    slope, _ = flattening(sampler, G[0], energy, T)
    new = x - H * (1 + slope) * g + np.sqrt(2 * H * T) * xi
    assert position.item() == pytest.approx(new, rel=1e-12)
    assert potential.calls == 1
    U = Well().energy(new)
    w = min(0.5, 40.0 / (32**0.8 + 100))
    expected_G = G + w * np.exp(flattening(sampler, G[0], U, T)[1]) * (np.eye(4)[int(U)] - G)
    np.testing.assert_allclose(after["G"].numpy(), expected_G, rtol=1e-12)
    assert (after["energy"].item(), after["t"].item()) == (pytest.approx(U, rel=1e-12), 32)
    expected = flattening(sampler, G[0], U, T)[1]
    np.testing.assert_allclose(sampler.log_weight(after).numpy(), [expected], rtol=1e-11)


def test_an_empty_range_of_energies_is_refused():
    with pytest.raises(UsageError, match="low = 3 is not below high = 3"):
        ContourSGLD(low=3.0, high=3.0)
