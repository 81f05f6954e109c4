"""The samplers of the field since 2020: closed forms, equations apart from `step`, exactness where it is claimed."""

from statistics import NormalDist

import numpy as np
import pytest
import torch
from kernels import Line, stepped

from harness import UsageError
from harness.engine.linear import stability_limit, stationary_variance
from harness.engine.stepping.potential import BoundPotential
from plugins.checking.gaussian import GaussianProblem
from plugins.samplers import microcanonical
from plugins.samplers.amagold import AMAGOLD
from plugins.samplers.contour_sgld import ContourSGLD
from plugins.samplers.entropy_mcmc import EntropyMCMC
from plugins.samplers.ggmc import GGMC
from plugins.samplers.hmc import HMC
from plugins.samplers.laws.microcanonical import PSMILELaw, SMILELaw, ratios
from plugins.samplers.mclmc import MCLMC
from plugins.samplers.obabo import OBABO
from plugins.samplers.resgld import RESGLD
from plugins.samplers.sa_sgld import SASGLD
from plugins.samplers.sglrw import SGLRW
from plugins.samplers.smile import PSMILE, SMILE, quantile

SHAPE = (4, 3)
QUARTIC = Line(lambda x: x.square().square() / 4, lambda x: x * x.square())


@pytest.mark.parametrize("x", [1e-3, 0.5, 2.0, 3.9])
@pytest.mark.parametrize("alpha", [0.05, 0.5, 1.0])
def test_obabo_has_the_closed_form_at_every_step_size(alpha, x):
    assert stationary_variance(OBABO(friction=alpha), x, 1.5) == pytest.approx(1.5 / (1 - x / 4), rel=1e-7)


def test_obabo_is_the_splitting_with_its_borders_merged():
    h, T, a, steps = 0.05, 1.3, 0.8, 30
    rng = np.random.default_rng(2)
    theta, v = rng.standard_normal((2, *SHAPE))
    x, state, last = theta, None, 0.0
    for first, second in rng.standard_normal((steps, 2, *SHAPE)):
        v = np.sqrt(a) * v + np.sqrt((1 - a) * h * T) * first  # O, then B A B, then O
        v = v - h / 2 * theta**3
        if state is None:
            state = {"v": v}
            x = theta + v
        else:
            # O twice is one O: the noise of both, at the weights that it has there.
            merged = (np.sqrt(a) * np.sqrt((1 - a) * h * T) * last + np.sqrt((1 - a) * h * T) * first) / np.sqrt(
                (1 - a * a) * h * T
            )
            x, state = stepped(OBABO(friction=1 - a), x, state, QUARTIC.potential(), h, T, merged)
        theta = theta + v
        np.testing.assert_allclose(x, theta, rtol=1e-9, atol=1e-11)
        v = v - h / 2 * theta**3
        v, last = np.sqrt(a) * v + np.sqrt((1 - a) * h * T) * second, second


@pytest.mark.parametrize("x", [1e-3, 0.1, 0.5])
def test_entropy_mcmc_has_the_closed_form(x):
    eta = 1.25
    k = x / eta
    D = 1 - x / 2 - k + k * x / 4
    assert stationary_variance(EntropyMCMC(eta=eta), x, 2.0) == pytest.approx(2.0 * (1 - k) / D, rel=1e-7)


def test_entropy_mcmc_wants_steps_below_eta():
    with pytest.raises(UsageError, match="not below eta"):
        EntropyMCMC(eta=0.01).check_steps([0.02], [1.0])


def test_obabo_is_stable_up_to_four():
    assert stability_limit(OBABO()) == pytest.approx(4.0, rel=1e-9)


def simulated(sampler, potential, h, T, steps, chains, *, noise=0.0, within=np.inf):
    """Positions (steps, chains) in one dimension and their log weights; `noise` is the sd of the gradient's."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: torch.from_numpy(rng.standard_normal(shape))  # noqa: E731

    class Random:
        normal = staticmethod(lambda like: draw(*like.shape))
        uniform = staticmethod(lambda shape: torch.from_numpy(rng.random(tuple(shape))))

    class Noisy:
        def __init__(self, sd, slope=0.0):
            self.sd, self.slope = sd, slope

        def grad(self, x):
            slope, several = self.slope, sampler.batches_per_step > 1
            self.slope = self.sd * draw(chains, 1) if self.sd and several else slope
            return potential(x)[1] + slope

        def value_and_grad(self, x):
            return potential(x)[0], self.grad(x)

        @property
        def full(self):
            return Noisy(0.0)

    h, T = torch.tensor(h, dtype=torch.float64), torch.tensor(T, dtype=torch.float64)
    theta, kept = draw(chains, 1).clamp(-within, within), []
    state = sampler.init(theta, Noisy(0.0), h, T, Random())
    for _ in range(steps):
        theta, state = sampler.step(theta, state, Noisy(noise, noise * draw(chains, 1)), h, T, Random())
        kept.append((theta[:, 0].numpy(), sampler.log_weight(state)))
    return kept


def double_well(x):
    """(x^2 - 1)^2."""
    return (x * x - 1).square()[:, 0], 4 * x * (x * x - 1)


WELL_T = 0.7
WELL = 0.8337
"""E theta^2 of exp(-(theta^2 - 1)^2 / 0.7), by quadrature."""


def test_the_well_by_quadrature():
    x = np.linspace(-5, 5, 20_001)
    p = np.exp(-((x * x - 1) ** 2) / WELL_T)
    assert p @ (x * x) / p.sum() == pytest.approx(WELL, abs=1e-4)


@pytest.mark.parametrize("sampler", [GGMC(turns=4, friction=0.2), AMAGOLD(turns=4, b=0.1)], ids=["ggmc", "amagold"])
def test_corrected_samplers_are_exact_on_a_double_well_under_gradient_noise(sampler):
    """Gradient noise of variance 4. Chains start where h lambda < 4: beyond it every proposal is refused."""
    kept = simulated(sampler, double_well, 0.06, WELL_T, 800, 4000, noise=2.0, within=1.3)
    means = np.square(np.stack([x for x, _ in kept[200:]])).mean(0)
    error = means.std(ddof=1) / np.sqrt(len(means))
    assert error < 0.001
    assert abs(means.mean() - WELL) < 4 * error


@pytest.mark.slow
def test_without_its_flip_ggmc_is_not_exact():
    """What the authors' code does."""

    class Unflipped(GGMC):
        def step(self, theta, state, potential, h, T, noise):
            moved, new = super().step(theta, state, potential, h, T, noise)
            refused = (moved == theta).all(1, keepdim=True)
            return moved, {**new, "r": torch.where(refused, -new["r"], new["r"])}

    def deviation(cls):
        kept = simulated(cls(turns=4, friction=0.2), double_well, 0.2, WELL_T, 800, 4000, noise=2.0, within=1.3)
        means = np.square(np.stack([x for x, _ in kept[200:]])).mean(0)
        return abs(means.mean() - WELL) * np.sqrt(len(means)) / means.std(ddof=1)

    assert deviation(GGMC) < 4
    assert deviation(Unflipped) > 10


def quadratic(x):
    """x^2 / 2."""
    return (x * x / 2)[:, 0], x


@pytest.mark.parametrize(("x", "expected"), [(0.1, 1.0), (0.5, 1.03), (1.0, 1.19), (1.9, 1.63)])
def test_sglrw_has_the_variance_of_the_target_until_it_clips(x, expected):
    kept = simulated(SGLRW(), quadratic, x, 1.0, round(300 / x), 2000)
    means = np.square(np.stack([theta for theta, _ in kept[round(20 / x) :]])).mean(0)
    assert means.mean() == pytest.approx(expected, abs=0.01 + 4 * means.std(ddof=1) / np.sqrt(len(means)))


def test_gradient_noise_does_not_widen_sglrw():
    """sgld has 1 + h V / (2 T) times the variance: 1.1 here."""
    kept = simulated(SGLRW(), quadratic, 0.02, 1.0, 6000, 2000, noise=np.sqrt(10.0))
    means = np.square(np.stack([theta for theta, _ in kept[600:]])).mean(0)
    assert means.mean() == pytest.approx(1.0, abs=0.02)


def test_weights_make_sa_sgld_right_and_their_lack_does_not():
    sampler = SASGLD(alpha=1.0, least=0.2, most=2.0)
    kept = simulated(sampler, quadratic, 0.01, 1.0, 8000, 400)[800:]
    squares = np.square(np.stack([theta for theta, _ in kept]))
    weights = np.exp(np.stack([weight.numpy() for _, weight in kept]))
    assert (weights * squares).sum() / weights.sum() == pytest.approx(1.0, abs=0.03)
    assert squares.mean() > 1.1


def test_a_kick_turns_the_velocity_towards_descent_and_counts_its_energy():
    rng = np.random.default_rng(3)
    u, g = torch.from_numpy(rng.standard_normal((2, 5, 7)))
    u = microcanonical.normalised(u)
    length, T = torch.tensor(0.3, dtype=torch.float64), torch.tensor(1.7, dtype=torch.float64)
    turned, energy = microcanonical.kick(u, g, length, T)
    # The flow du/ds = -(1 - u u') g / (T (D - 1)), in many small steps, with dK/ds = -u.(-g) / T = u.g / T.
    x, total, steps = u.clone(), torch.zeros(5, 1, dtype=torch.float64), 20_000
    for _ in range(steps):
        slope = g - x * (x * g).sum(1, keepdim=True)
        half = microcanonical.normalised(x - length / steps / 2 * slope / (T * 6))
        total = total - (half * g).sum(1, keepdim=True) * length / steps / T
        slope = g - half * (half * g).sum(1, keepdim=True)
        x = microcanonical.normalised(x - length / steps * slope / (T * 6))
    torch.testing.assert_close(turned, x, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(energy, total, rtol=1e-5, atol=1e-6)


def test_a_kick_from_rest_has_the_direction_of_descent():
    g = torch.tensor([[3.0, -4.0]], dtype=torch.float64)
    one = torch.tensor(1.0, dtype=torch.float64)
    u, _ = microcanonical.kick(torch.zeros_like(g), g, one, one)
    torch.testing.assert_close(u, torch.tensor([[-0.6, 0.8]], dtype=torch.float64))


def test_a_step_of_mclmc_conserves_the_energy_to_third_order():
    problem = GaussianProblem(torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64))
    rng = np.random.default_rng(4)
    theta, u = torch.from_numpy(rng.standard_normal((2, 50, 4)))
    u, T = microcanonical.normalised(u), torch.tensor(1.0, dtype=torch.float64)
    potential = BoundPotential(problem, 1).full
    errors = []
    for epsilon in (0.2, 0.1):
        U, g = potential.value_and_grad(theta)
        x, _, _, K = microcanonical.mclachlan(
            theta, u, g, torch.tensor(epsilon, dtype=torch.float64), T, potential.grad
        )
        errors.append(float((K[:, 0] + potential.value_and_grad(x)[0] - U).abs().mean()))
    assert 6 < errors[0] / errors[1] < 11


ONES = np.ones(20)
UNEVEN = np.repeat([36.0, 0.25], [5, 15])
"""Variances of gradient noise: sd 6 and sd 0.5."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "noise", "first", "others"),
    [
        (SMILE(), 9 * ONES, (1.03, 1.1), (1.03, 1.1)),
        (SMILE(), UNEVEN, (4.2, 5.2), (0.05, 0.1)),
        (PSMILE(), 9 * ONES, (1.03, 1.1), (1.03, 1.1)),
        (PSMILE(), UNEVEN, (1.8, 2.3), (0.65, 0.8)),
    ],
    ids=["smile, even noise", "smile, uneven noise", "psmile, even noise", "psmile, uneven noise"],
)
def test_uneven_gradient_noise_biases_smile_and_psmile_less(sampler, noise, first, others):
    mean_ratios = ratios(sampler, ONES, noise, 1.0, 0.05, 500, 1500).mean(0)
    assert first[0] < mean_ratios[:5].mean() < first[1]
    assert others[0] < mean_ratios[5:].mean() < others[1]


@pytest.mark.slow
def test_the_law_of_psmile_does_not_hold_of_smile():
    with pytest.raises(AssertionError, match=r"lambda var / T of coordinate \d+ tends to"):
        PSMILELaw().check(SMILE())


class OneDimensionShort(SMILE):
    """Its kicks are those of D + 1 dimensions: too weak by (D - 1) / D."""

    def step(self, theta, state, potential, h, T, noise):
        D = theta.shape[1]
        return super().step(theta, state, potential, h, T * D / (D - 1), noise)


@pytest.mark.slow
def test_the_law_of_smile_sees_kicks_of_another_dimension():
    with pytest.raises(AssertionError, match="in 2 dimensions lambda var / T of coordinate"):
        SMILELaw().check(OneDimensionShort())


class Given:
    """A quadratic potential of curvatures 1, 2 and 3 plus <slope, x>."""

    curvature = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)

    def __init__(self, slope=0.0):
        self.slope = slope

    def grad(self, x):
        return self.curvature * x + self.slope

    def value_and_grad(self, x):
        return (self.curvature * x * x / 2 + self.slope * x).sum(1), self.grad(x)


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def test_a_step_of_smile_is_mclachlan_s_with_the_gradient_of_the_batch_before():
    rng = np.random.default_rng(6)
    theta, u, g = torch.from_numpy(rng.standard_normal((3, 4, 3)))
    u, h, T = microcanonical.normalised(u), number(0.1), number(1.7)
    potential = Given(0.4)
    x, new = SMILE().step(theta, {"u": u, "g": g}, potential, h, T, None)
    expected = microcanonical.mclachlan(theta, u, g, (3 * h * T).sqrt(), T, potential.grad)
    for part, right in zip((x, new["u"], new["g"]), expected, strict=False):
        torch.testing.assert_close(part, right)


def test_psmile_with_d_held_is_smile_in_other_coordinates():
    rng = np.random.default_rng(7)
    theta, u, g = torch.from_numpy(rng.standard_normal((3, 4, 3)))
    u, h, T = microcanonical.normalised(u), number(0.1), number(1.7)
    sampler, V = PSMILE(rate=1e-14), torch.tensor([[4.0, 1.0, 0.25]], dtype=torch.float64).expand(4, 3)
    D = V.sqrt() / V.mean(1, keepdim=True).sqrt()

    class Scaled:
        def grad(self, y):
            return Given(0.4).grad(y / D) / D

    x, new = sampler.step(theta, {"u": u, "g": g, "m": g, "V": V}, Given(0.4), h, T, None)
    y, other = SMILE().step(D * theta, {"u": u, "g": g / D}, Scaled(), h, T, None)
    torch.testing.assert_close(D * x, y)
    torch.testing.assert_close(new["u"], other["u"])


def test_the_guard_of_smile_takes_a_step_back_and_stops_the_velocity():
    sampler, h, T = SMILE(guard=0.98), number(0.01), number(1.0)
    theta = torch.ones((2, 3), dtype=torch.float64)
    state = sampler.init(theta, Given(), h, T, None)
    for slope in 0.1 * np.random.default_rng(8).standard_normal(40):
        theta, state = sampler.step(theta, dict(state), Given(slope), h, T, None)
    slope = torch.tensor([[0.1], [1e4]], dtype=torch.float64)  # of the second chain alone
    moved, new = sampler.step(theta, dict(state), Given(slope), h, T, None)
    assert (moved != theta).all(1).tolist() == [True, False]
    assert (moved[1] == theta[1]).all()
    assert (new["u"][1] == 0).all()
    for name in ("g", "energy"):
        assert (new[name][1] == state[name][1]).all()
    early = {**state, "t": torch.full((2, 1), 8.0, dtype=torch.float64)}
    assert (sampler.step(theta, early, Given(slope), h, T, None)[0] != theta).all()  # not yet in its tenth step


def test_smile_tunes_its_length_to_the_share_asked_for():
    """With a = 0.3, s = 0.1: shrinks above the quantile of 0.8, grows below that of 0.1."""
    sampler, h, T = SMILE(share=0.3, change=0.1), number(0.01), number(1.0)
    theta = torch.ones((1, 3), dtype=torch.float64)
    zero = theta[:, :1] * 0
    state = {"u": microcanonical.normalised(theta), "g": theta, "energy": zero, "log_c": zero, "t": zero + 99}
    errors = {"large": (1e-9, 1e-18, 0.9), "small": (1e9, 1e18, 1.1)}  # mean and variance of |dE| before; factor
    for mean, variance, factor in errors.values():
        _, new = sampler.step(theta, {**state, "mean": zero + mean, "variance": zero + variance}, Given(), h, T, None)
        assert float(new["log_c"].exp()) == pytest.approx(factor)


def test_smile_judges_energy_errors_as_the_authors_code_does():
    """Their recursion and thresholds, from `SMILET._sample_step`, beside ours on the same errors."""
    sampler, T = SMILE(guard=0.9, share=0.3, change=0.1), number(1.0)
    theta = torch.zeros((1, 3), dtype=torch.float64)
    zero = number(0.0).reshape(1, 1)
    state = {"energy": zero, "log_c": zero, "mean": zero, "variance": zero, "t": zero}
    mean, sd, scale, normal = 0.0, 0.0, 1.0, NormalDist()
    outcomes = set()

    def threshold(p):
        shape, unit = mean**2 / (sd**2 + 1e-6), (sd**2 + 1e-6) / mean
        return unit * shape * (1 - 1 / (9 * shape) + normal.inv_cdf(p) / (3 * np.sqrt(shape))) ** 3

    for time, error in enumerate(np.random.default_rng(9).gamma(2.0, 0.3, size=400), 1):
        x, state = sampler._watched(
            theta, theta + 1, {**state, "u": theta, "g": theta}, {"u": theta + 1, "g": theta, "energy": zero},
            zero + error, T, {},
        )  # fmt: skip
        taken_back, factor = False, 1.0
        if time >= 10:
            taken_back = error > threshold(0.9)
            factor = 0.9 if error > threshold(1 - 0.2) else 1.1 if error < threshold(0.1) else 1.0
        new_mean = error if time < 3 else 0.99 * mean + 0.01 * error
        correction = 1.0 if time < 5 else 1 - 0.5 ** (time - 4)
        sd = np.sqrt((sd**2 * 0.99 + 0.01 * (error - new_mean) ** 2) / correction).clip(1e-6)
        mean, scale = new_mean, scale * factor
        assert bool((x == theta).all()) == taken_back
        assert float(state["log_c"].exp()) == pytest.approx(scale)
        assert float(state["variance"].sqrt()) == pytest.approx(sd)
        outcomes.add((taken_back, factor))
    assert outcomes == {(False, 1.0), (False, 1.1), (False, 0.9), (True, 0.9)}


@pytest.mark.parametrize("p", [0.03, 0.5, 0.9, 0.98])
@pytest.mark.parametrize("shape", [1.0, 4.0])
def test_the_quantiles_of_the_energy_error_are_those_of_a_gamma_distribution(shape, p):
    from scipy.stats import gamma

    judged = quantile(p, number(shape * 0.2), number(shape * 0.2**2))
    assert float(judged) == pytest.approx(gamma.ppf(p, shape, scale=0.2), rel=0.03, abs=0.005)


@pytest.mark.parametrize("cls", [AMAGOLD, ContourSGLD, GGMC, HMC, MCLMC, RESGLD, SGLRW, SMILE])
def test_zero_temperature_is_refused_where_a_sampler_has_none(cls):
    with pytest.raises(UsageError, match="no T = 0"):
        cls().check_steps([0.1, 0.1], [1.0, 0.0])
