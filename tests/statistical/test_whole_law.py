"""The whole law and time-homogeneity see what the laws of one step cannot."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from harness import Sampler, UsageError, param
from plugins.laws import forms, simulation
from plugins.laws.law import LEVEL, Broken
from plugins.laws.samplers import homogeneity, whole
from plugins.laws.slow import slow_limit
from plugins.laws.suite import check_sampler
from plugins.laws.targets import GRID, Target
from plugins.samplers.contour_sgld import ContourSGLD
from plugins.samplers.laws.thermostat import SGNHTLaw
from plugins.samplers.resgld import RESGLD
from plugins.samplers.santa import Santa
from plugins.samplers.sgfs import SGFS
from plugins.samplers.sgld import SGLD
from plugins.samplers.sgnht import SGNHT
from plugins.samplers.sqnlmc import SQNLMC

pytestmark = pytest.mark.statistical


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True, kw_only=True)
class Counted(SGLD):
    """Right, and its state counts the steps."""

    after: int = param(10**9)
    whole: bool = param(True)

    def init(self, theta, potential, h, T, noise):
        return {"t": torch.zeros((len(theta), 1), dtype=torch.int64 if self.whole else torch.float64)}

    def step(self, theta, state, potential, h, T, noise):
        late = state["t"] >= self.after
        xi = torch.where(late, self.late(), 1.0) * noise.normal(theta)
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * xi, {"t": state["t"] + 1}

    def late(self):
        return 0.5


SLIPS = {"TwiceTheNoise": "variance 2", "SameNoiseTwice": "neighbouring steps", "HalfAStepOfSGFS": "off by",
         "HalfAStepOfSQNLMC": "the first step moves"}  # fmt: skip


def broken(check, sampler):
    with pytest.raises(Broken) as found:
        check(sampler)
    return str(found.value)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("after", [100, 2_000, 20_000, 149_000])
def test_noise_that_halves_after_some_steps_is_seen_in_the_clock(after, whole):
    said = broken(homogeneity.clocks, Counted(after=after, whole=whole))
    assert "'t' counts steps" in said


def test_a_count_that_nothing_depends_on_is_no_fault():
    homogeneity.clocks(Counted())


class Hidden(SGLD):
    """Counts where no law of one step looks."""

    after = 2_000

    def step(self, theta, state, potential, h, T, noise):
        calls = vars(self).setdefault("_calls", [0])
        calls[0] += 1
        scale = 0.5 if calls[0] > self.after else 1.0
        return theta - h * potential.grad(theta) + scale * (2 * h * T).sqrt() * noise.normal(theta), state


class Slower(Hidden):
    """The law stays and the pace does not."""

    after = 20_000

    def step(self, theta, state, potential, h, T, noise):
        calls = vars(self).setdefault("_calls", [0])
        calls[0] += 1
        return super(Hidden, self).step(theta, state, potential, h / 2 if calls[0] > self.after else h, T, noise)


class Late(Hidden):
    after = 149_000


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [Hidden, Slower, Late])
def test_what_changes_late_is_seen_in_the_long_run(sampler):
    assert "in window" in broken(homogeneity.check, sampler())


@dataclass(frozen=True, kw_only=True)
class Preconditioned(Sampler):
    """psgld by another author, who declares nothing."""

    adaptive = ("V",)
    zero_temperature = None

    lam: float = param(0.5, "(0, inf)", "lam")
    decay: float = param(0.5, "[0, 1)", "decay")

    def init(self, theta, potential, h, T, noise):
        return {"V": potential.grad(theta) ** 2}

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        V = self.decay * state["V"] + (1 - self.decay) * g * g
        G = 1 / (self.lam + V.sqrt())
        return theta - h * G * g + (2 * h * T * G).sqrt() * noise.normal(theta), {"V": V}


@pytest.mark.slow
def test_a_preconditioner_that_follows_the_gradient_is_not_at_the_target():
    (derived,) = check_sampler(Preconditioned, ["derived-law"])
    assert derived.outcome == "passed"  # which holds V fixed
    assert "should be" in broken(whole.check, Preconditioned())


@pytest.mark.parametrize(("lam", "variance"), [(0.1, 1.8887), (0.5, 1.6147)])
def test_the_slow_limit_of_a_preconditioner_is_its_density_in_closed_form(lam, variance):
    c = np.sqrt(2 / np.pi)
    assert variance == pytest.approx((lam + 2 * c) / (lam + c), rel=1e-4)
    found = slow_limit(Preconditioned(lam=lam)).density(GRID, 1.0) @ GRID**2
    assert found == pytest.approx(variance, rel=1e-3)


class Tamed(SGLD):
    """Not linear, and right: the drift h g / (1 + h |g|) is h g as h -> 0."""

    def heat(self):
        return 1.0

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        return theta - h * g / (1 + h * g.abs()) + (2 * h * T * self.heat()).sqrt() * noise.normal(theta), state


class TamedFivePerCentOff(Tamed):
    def heat(self):
        return 1.05


class Independent(SGLD):
    """Of a Gaussian of unit variances it has the right marginals and no correlation: its drift is theta."""

    def step(self, theta, state, potential, h, T, noise):
        drift = theta + 0 * potential.grad(theta)
        return theta - h * drift + (2 * h * T).sqrt() * noise.normal(theta), state


class TwiceTheNoise(SGNHT):
    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T, _Scaled(noise, 2**0.5))


class _Scaled:
    def __init__(self, noise, factor):
        self.noise, self.factor = noise, factor

    def normal(self, like):
        return self.factor * self.noise.normal(like)


class SameNoiseTwice(SGNHT):
    """Every other step has the noise of the step before."""

    def init(self, theta, potential, h, T, noise):
        found = super().init(theta, potential, h, T, noise)
        return {**found, "xi": torch.zeros_like(theta), "odd": torch.zeros((len(theta), 1), dtype=torch.int64)}

    def step(self, theta, state, potential, h, T, noise):
        fresh = noise.normal(theta) + torch.zeros_like(theta)
        xi = torch.where(state["odd"] == 1, state["xi"], fresh)
        theta, new = super().step(theta, state, potential, h, T, _Given(xi))
        return theta, {**new, "xi": xi, "odd": 1 - state["odd"]}


class _Given:
    def __init__(self, xi):
        self.xi = xi

    def normal(self, _):
        return self.xi


class HalfAStepOfSGFS(SGFS):
    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h / 2, T, noise)


class HalfAStepOfSQNLMC(SQNLMC):
    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h / 2, T, noise)


class OldLawOfSwaps(RESGLD):
    """The rate of swaps without the temperature."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, _Heated(potential, T), h, T, noise)


class _Heated:
    def __init__(self, potential, T):
        self.potential, self.T = potential, T

    def value_and_grad(self, x):
        U, g = self.potential.value_and_grad(x)
        return U * self.T[..., 0] if self.T.ndim else U * self.T, g


class HalvedWeights(ContourSGLD):
    def log_weight(self, state):
        return state["log_weight"] / 2


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [Tamed(), SGLD()], ids=repr)
def test_a_right_sampler_passes(sampler):
    whole.check(sampler)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampler", [SGFS(), Santa()], ids=repr,
)  # fmt: skip
def test_a_right_sampler_passes_at_length(sampler):
    whole.check(sampler)


@pytest.mark.parametrize("sampler", [TamedFivePerCentOff(), Independent()], ids=repr)
def test_a_wrong_sampler_is_seen(sampler):
    assert "should be" in broken(whole.check, sampler)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [OldLawOfSwaps(), HalvedWeights()], ids=repr)
def test_a_wrong_sampler_is_seen_at_length(sampler):
    broken(whole.check, sampler)


@pytest.mark.parametrize("slip", [TwiceTheNoise, SameNoiseTwice, HalfAStepOfSGFS, HalfAStepOfSQNLMC])
def test_a_slip_that_the_law_of_theta_hides_is_seen_by_the_samplers_own_law(slip):
    (result,) = check_sampler(slip, ["whole-law"])
    assert result.outcome == "failed"
    assert SLIPS[slip.__name__] in result.message


def test_what_the_extrapolation_leaves_of_a_half_power_of_h_is_allowed():
    h = np.array([1.0, 0.5, 0.25])
    for power in (1, 2):
        assert simulation.RICHARDSON @ h**power == pytest.approx(0, abs=1e-12)
    bias = h**1.5
    assert abs(simulation.RICHARDSON @ bias) / (bias[0] - bias[1]) == pytest.approx(simulation.HALF_POWERS, abs=1e-4)
    gaussian = Target("gaussian", 1.0, 2)
    assert [simulation.Simulation(one, gaussian).half_powers for one in (Tamed(), SGLD())] == [True, False]


def test_one_level_is_shared_by_a_samplers_own_law_and_its_simulations(monkeypatch):
    spent = []
    monkeypatch.setattr(SGNHTLaw, "check", lambda _self, _sampler: None)
    monkeypatch.setattr(whole, "judged", lambda _family, _seed, share: spent.append(share))
    for sampler in (SGNHT(), SGLD()):
        whole.check(sampler)
    assert spent == [1 - forms.SHARE, 1.0]
    assert pytest.approx(forms.SHARE * LEVEL) == forms.OWN_LEVEL


class Slowly(SGLD):
    """V follows at the rate .001, which no moment of theta depends on."""

    adaptive = ("V",)

    def init(self, theta, potential, h, T, noise):
        return {"V": potential.grad(theta) ** 2}

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        return theta - h * g + (2 * h * T).sqrt() * noise.normal(theta), {"V": 0.999 * state["V"] + 0.001 * g * g}


def test_the_burn_in_of_the_long_run_goes_by_how_fast_entries_adapt():
    # V goes from 1 to 4 = 2^2: within 1e-3 of it once 3 * .999^k < 4e-3
    assert homogeneity._burn_in(Slowly()) == pytest.approx(np.log(4e-3 / 3) / np.log(0.999), abs=2)
    assert homogeneity._burn_in(SGLD()) == homogeneity.FORGETTING


def test_the_targets_are_what_they_say():
    for kind, dim in (("correlated", 4), ("rotated", 10)):
        target = Target(kind, 2.0, dim)
        z = np.random.default_rng(0).standard_normal((200_000, dim)) @ np.linalg.inv(target.law.whiten)
        np.testing.assert_allclose(np.cov(z.T), 2 * np.linalg.inv(target.precision), atol=0.03)
    assert Target("rotated", 1.0, 10).condition == pytest.approx(100)
    assert np.abs(Target("rotated", 1.0, 10).precision).min() > 0.1


def test_other_settings_stay_in_range():
    for sampler in (SGLD(), SGNHT(), ContourSGLD()):
        for other in whole.other_settings(sampler):
            try:
                dataclasses.replace(other)
            except UsageError as error:  # pragma: no cover
                pytest.fail(str(error))
