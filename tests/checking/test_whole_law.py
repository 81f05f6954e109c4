"""The whole law and time-homogeneity see what the laws of one step cannot."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from planted import maker
from planted.bugs import (
    BiasOfThePreconditioner,
    StepByTheNorm,
    StepHardlyByTheNorm,
    SwapsAtAnotherTemperature,
    ThermostatNoiseTimesRootTwo,
)
from planted.plain import ByTheNorm, Halved, Louder, Plain, Tamed

from harness.engine.linear import ScriptedNoise
from plugins.checking import one_step_drift, simulation
from plugins.checking.law import Broken
from plugins.checking.samplers import homogeneity, whole
from plugins.checking.slow import slow_limit
from plugins.checking.suite import check_sampler
from plugins.checking.targets import GRID, Target
from plugins.samplers.laws.preconditioned import PreconditionedSGHMCLaw
from plugins.samplers.laws.preconditioned import variance as preconditioned_variance
from plugins.samplers.sgfs import SGFS
from plugins.samplers.sghmc_prec import PreconditionedSGHMC
from plugins.samplers.sgld import SGLD
from plugins.samplers.sgnht import SGNHT
from plugins.samplers.sqnlmc import SQNLMC

pytestmark = [pytest.mark.statistical, pytest.mark.usefixtures("one_thread")]


def broken(check, sampler):
    with pytest.raises(Broken) as caught:
        check(sampler)
    return str(caught.value)


bug = maker(globals() | {"torch": torch, "ScriptedNoise": ScriptedNoise, "Louder": Louder})
COUNTS = "calls = vars(self).setdefault('_calls', [0]); calls[0] += 1; "
# Counts where no law of one step looks; of the second the law stays and the pace does not.
Hidden = bug("Hidden", SGLD, last=2_000, before=f"{COUNTS}noise = Louder(noise, 0.5 if calls[0] > self.last else 1.0)")
Late = bug("Late", Hidden, last=149_000)
Slower = bug("Slower", SGLD, before=f"{COUNTS}h = h / 2 if calls[0] > 20_000 else h")


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [Hidden, Slower, Late])
def test_what_changes_late_is_seen_in_the_long_run(sampler):
    assert "in window" in broken(homogeneity.check, sampler())


@pytest.mark.parametrize(("lam", "variance"), [(0.1, 1.8887), (0.5, 1.6147)])
def test_the_slow_limit_of_a_preconditioner_is_its_density_in_closed_form(lam, variance):
    c = np.sqrt(2 / np.pi)
    assert variance == pytest.approx((lam + 2 * c) / (lam + c), rel=1e-4)
    second_moment = slow_limit(BiasOfThePreconditioner(lam=lam, decay=0.5)).density(GRID, 1.0) @ GRID**2
    assert second_moment == pytest.approx(variance, rel=1e-3)


def test_the_slow_limit_knows_what_a_momentum_still_carries():
    """The exponent 1 - c of the density of sghmc-prec, by the sum in closed form; without the momentum it is 1."""
    for decay, friction, lam in ((0.9, 0.5, 1.0), (0.5, 0.3, 0.5)):
        sampler = PreconditionedSGHMC(decay=decay, friction=friction, lam=lam)
        second_moment = slow_limit(sampler).density(GRID, 1.0) @ GRID**2
        assert second_moment == pytest.approx(PreconditionedSGHMCLaw().variance(sampler), rel=1e-3)
        assert second_moment < 0.97 * preconditioned_variance(lam, 1.0)


# Of a Gaussian of unit variances it has the right marginals and no correlation.
Independent = bug("Independent", Plain, gradient="theta + 0 * gradient")
SameNoiseTwice = bug("SameNoiseTwice", SGNHT,  # every other step has the noise of the step before
     init="{**init, 'xi': torch.zeros_like(theta), 'odd': torch.zeros((len(theta), 1), dtype=torch.int64)}",
     step="xi = torch.where(state['odd'] == 1, state['xi'], noise.normal(theta) + torch.zeros_like(theta)); "
     "theta, new = super().step(theta, state, potential, h, T, ScriptedNoise([xi])); "
     "theta, {**new, 'xi': xi, 'odd': 1 - state['odd']}")  # fmt: skip
HalfAStepOfSGFS = bug("HalfAStepOfSGFS", (Halved, SGFS))
HalfAStepOfSQNLMC = bug("HalfAStepOfSQNLMC", (Halved, SQNLMC))


# The same with a memory that does nothing, so that it is simulated.
StepByTheNormWithMemory = bug("StepByTheNormWithMemory", StepByTheNorm, init="{'s': 0 * theta}")
NoiseOnePerCentTooWide = bug("NoiseOnePerCentTooWide", Tamed, heat="1.01 * heat")


@pytest.mark.parametrize("slip", [StepByTheNorm, StepHardlyByTheNorm, NoiseOnePerCentTooWide])
def test_a_step_that_moves_exact_draws_is_seen_and_its_right_form_is_not(slip):
    assert "from exact draws" in broken(whole.check, slip())
    for right in (ByTheNorm(), Tamed(), SGLD()):
        one_step_drift.stays(right, whole.dims(right))


def test_a_sampler_that_is_not_coordinate_wise_is_simulated_in_few_dimensions():
    sampler = StepByTheNormWithMemory()
    assert not one_step_drift.applies(sampler)
    family = whole.simulations(sampler)
    assert {1, 2, 20} == {one.target.dim for one in family}
    small = [one for one in family if one.target.dim < 20]
    assert "E z^2 as h -> 0" in broken(lambda _: simulation.judged(small, 1), sampler)
    assert {one.target.dim for one in whole.simulations(SGLD())} == {20}


def test_a_wrong_correlation_is_seen():
    assert "should be" in broken(lambda one: simulation.judged(whole.simulations(one), 1), Independent())


@pytest.mark.slow
def test_swaps_at_another_temperature_are_seen_at_length():
    broken(whole.check, SwapsAtAnotherTemperature())


@pytest.mark.parametrize(("slip", "said"), [
    (ThermostatNoiseTimesRootTwo, "variance 2"), (SameNoiseTwice, "neighbouring steps"), (HalfAStepOfSGFS, "off by"),
    (HalfAStepOfSQNLMC, "the first step moves"),
])  # fmt: skip
def test_a_slip_that_the_law_of_theta_hides_is_seen_by_the_samplers_own_law(slip, said):
    (result,) = check_sampler(slip, ["whole-law"])
    assert result.outcome == "failed"
    assert said in result.message


def test_what_the_extrapolation_leaves_of_a_half_power_of_h_is_allowed():
    h = np.array([1.0, 0.5, 0.25])
    for power in (1, 2):
        assert simulation.RICHARDSON @ h**power == pytest.approx(0, abs=1e-12)
    bias = h**1.5
    assert abs(simulation.RICHARDSON @ bias) / (bias[0] - bias[1]) == pytest.approx(simulation.HALF_POWERS, abs=1e-4)
    gaussian = Target("gaussian", 1.0, 2)
    assert [simulation.Simulation(one, gaussian).half_powers for one in (Tamed(), SGLD())] == [True, False]
