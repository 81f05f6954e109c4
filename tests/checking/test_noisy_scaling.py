"""The law noisy-scaling: the change of a variance by gradient noise, measured against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from planted.bugs import BUGS

from plugins.checking.sampler_law import SamplerLaw
from plugins.checking.samplers import noisy_scaling
from plugins.checking.suite import check_sampler
from plugins.samplers.hmc import HMC
from plugins.samplers.msgld import MSGLD
from plugins.samplers.psgld import PSGLD
from plugins.samplers.sa_sgld import SASGLD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD

pytestmark = pytest.mark.usefixtures("one_thread")
NAME = noisy_scaling.LAW.name


@pytest.mark.parametrize("sampler", [SGLD(), SGHMC(), MSGLD()])
def test_noise_leaves_the_law_of_a_linear_step_exactly(sampler):
    for noise in noisy_scaling.NOISE:
        measured = noisy_scaling.measure(sampler, noise)
        assert measured.variance == pytest.approx(sampler.limit_bias(), abs=1e-3)
        assert abs(measured.change) < measured.left
    (result,) = check_sampler(sampler, [NAME])
    assert result.outcome == "passed", result


def test_what_has_no_minibatch_or_states_nothing_of_its_settings_is_skipped():
    for sampler in (HMC(), PSGLD(lam=1.0)):
        (result,) = check_sampler(sampler, [NAME])
        assert result.outcome == "skipped"


def test_a_stated_variance_is_compared_with_the_measured_one(monkeypatch):
    """A sampler that states variances which it does not have."""
    monkeypatch.setattr(noisy_scaling, "law_of", lambda _: SamplerLaw)
    for stated, outcome in (({1.0: 1.0, 9.0: 1.0}, "passed"), ({1.0: 1.0, 9.0: 1.2}, "failed")):
        monkeypatch.setattr(SamplerLaw, "noisy_variance", stated)
        (result,) = check_sampler(SGLD(), [NAME])
        assert result.outcome == outcome, result


@pytest.mark.statistical
def test_draws_count_with_their_weights():
    """Noise changes the variance of plain averages of sa-sgld by 0.04: its steps are shorter where z is large."""
    measured = noisy_scaling.measure(SASGLD(), 1.0)
    assert measured.variance == pytest.approx(1, abs=0.04)
    assert abs(measured.change) < 0.02
    (result,) = check_sampler(SASGLD(), [NAME])
    assert result.outcome == "passed", result


@pytest.mark.numbers
def test_a_step_by_its_noisy_gradient_is_found():
    (bug,) = (bug for bug in BUGS if bug.name == "StepByTheNoisyGradient")
    (result,) = check_sampler(bug.sampler(), [NAME])
    assert result.outcome == "failed"
    assert "gradient noise of variance 1 changes the variance by 0.2" in result.message
    assert "declare exempt = {'noisy-scaling'" in result.message


def slow_limit(lam, V):
    """The variance of psgld without memory: the density (1 / S) exp(-sum D / S), D = E G g, S = E G, g = x + b."""
    x = np.linspace(-8, 8, 3201)
    nodes, shares = np.polynomial.hermite_e.hermegauss(200)
    g = x[:, None] + np.sqrt(V) * nodes
    G = 1 / (lam + np.abs(g))
    D, S = ((values * shares).sum(1) / shares.sum() for values in (G * g, G))
    slope = D / S
    potential = np.concatenate([[0], np.cumsum((slope[1:] + slope[:-1]) / 2) * (x[1] - x[0])])
    mass = np.exp(-(potential - potential.min())) / S
    return mass @ x**2 / mass.sum()


@pytest.mark.slow
@pytest.mark.statistical
def test_the_variance_of_psgld_is_that_of_its_slow_limit():
    measured = noisy_scaling.measure(PSGLD(decay=0.0, lam=2.0), 1.0)
    expected = slow_limit(2.0, 1.0)
    assert expected == pytest.approx(1.392, abs=1e-3)
    assert measured.variance == pytest.approx(expected, abs=0.1)
