from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.pages.conventions import CONVENTIONS, Step

HERE, WELLING_TEH, MEAN_LOSS, POSTERIORS, DEVINTERP, VELOCITY, PHYSICAL, MOMENTUM = CONVENTIONS

CASES = [(0.02, 1.0, 1), (1e-6, 1.0, 50_000), (3e-7, 2e-5, 50_000), (0.01, 0.5, 270)]
GRADIENT, POSITION, VELOCITY_BEFORE, NORMAL = 3.0, 0.4, -0.2, 1.3
CLOSE = 1e-12

positive = st.floats(1e-9, 1e3)


@st.composite
def steps(draw):
    step = Step(h=draw(positive), T=draw(positive), N=draw(st.integers(1, 10**7)), alpha=draw(st.floats(1e-3, 1)))
    largest = 2 * step.alpha * step.T / step.h  # beyond it there is more noise than 2 alpha h T to take V off
    return Step(**{**vars(step), "V": draw(st.just(0.0) | st.floats(1e-9, 1)) * largest, "M": draw(positive)})


def as_said_by(convention, step):
    """The step, without what this convention does not speak of."""
    plain = Step(h=step.h, T=step.T, N=step.N)
    if "alpha" not in convention.back:
        return plain
    said = {name: getattr(step, name) for name in ("alpha", "V", "M") if name in convention.back}
    return Step(**{**vars(plain), **said})


def back(convention, settings, N):
    """The step here that settings written there amount to."""
    quantities = {name: eval(formula, {"N": N, **settings}) for name, formula in convention.back.items()}  # noqa: S307
    return Step(**{"N": N, **quantities})


def numbers(record):
    return [record[name] for name in sorted(record) if record[name] is not None]


@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda c: c.name)
@given(step=steps())
def test_there_and_back(convention, step):
    step = as_said_by(convention, step)
    assert convention.can_express(step)
    settings = convention.to(step)
    assert numbers(vars(back(convention, settings, step.N))) == pytest.approx(numbers(vars(step)), rel=CLOSE, abs=0)


def position_after(form, s, N, T):
    """One step from POSITION in the form's own words, for a full-data gradient of GRADIENT, its noise NORMAL."""
    mean = GRADIENT / N
    drift, variance = {
        HERE: lambda: (s["h"] * GRADIENT, 2 * s["h"] * T),
        WELLING_TEH: lambda: (s["epsilon"] / 2 * GRADIENT / T, s["epsilon"]),
        MEAN_LOSS: lambda: (s["lr"] * mean, 2 * s["lr"] * T / N),
        POSTERIORS: lambda: (s["lr"] * mean, 2 * s["lr"] * s["temperature"]),
        DEVINTERP: lambda: (s["lr"] / 2 * s["nbeta"] * mean, s["lr"]),
    }[form]()
    return POSITION - drift + math.sqrt(variance) * NORMAL


@pytest.mark.parametrize(("h", "T", "N"), CASES)
@pytest.mark.parametrize("form", [HERE, WELLING_TEH, MEAN_LOSS, POSTERIORS, DEVINTERP], ids=lambda c: c.name)
def test_a_step_in_its_own_words_is_ours(form, h, T, N):
    ours = POSITION - h * GRADIENT + math.sqrt(2 * h * T) * NORMAL
    assert position_after(form, form.to(Step(h=h, T=T, N=N)), N, T) == pytest.approx(ours, rel=CLOSE)


def velocity(s, v, g, _):
    kick = math.sqrt(2 * (s["alpha"] - s["beta"]) * s["eta"] * s["T"]) * NORMAL
    return (1 - s["alpha"]) * v - s["eta"] * g + kick


def physical(s, v, g, _):
    epsilon, C, M = s["epsilon"], s["C"], s["M"]
    r = M * v / epsilon
    r = r - epsilon * g - epsilon * C * r / M + math.sqrt(2 * (C - s["B"]) * epsilon * s["T"]) * NORMAL
    return epsilon * r / M


def momentum(s, v, g, N):
    kick = math.sqrt(2 * (1 - s["momentum"]) * s["lr"] * s["T"] / N) * NORMAL
    return s["momentum"] * v - s["lr"] * g / N + kick


@pytest.mark.parametrize("mass", [1.0, 4.0])
@pytest.mark.parametrize(
    ("form", "after", "V"),
    [(VELOCITY, velocity, 3.0), (PHYSICAL, physical, 3.0), (MOMENTUM, momentum, 0.0)],
    ids=["velocity", "physical", "momentum"],
)
def test_a_step_with_momentum_in_its_own_words_is_ours(form, after, V, mass):
    step = Step(h=0.01, T=0.7, N=270, alpha=0.1, V=V, M=mass)
    injected = 2 * step.alpha * step.h * step.T - step.h**2 * V
    ours = (1 - step.alpha) * VELOCITY_BEFORE - step.h * GRADIENT + math.sqrt(injected) * NORMAL
    assert after(form.to(step), VELOCITY_BEFORE, GRADIENT, step.N) == pytest.approx(ours, rel=CLOSE)


def test_published_numbers():
    N = 50_000
    adaptive_drift = Step(h=0.1 / N, T=1e-5, N=N)
    assert MEAN_LOSS.to(adaptive_drift) == pytest.approx({"lr": 0.1, "T": 1e-5})
    assert back(MEAN_LOSS, {"lr": 0.1, "T": 1e-5}, N).h == pytest.approx(adaptive_drift.h)
    csgmcmc = Step(h=0.5 / N, T=2e-5, N=N)
    assert MEAN_LOSS.to(csgmcmc) == pytest.approx({"lr": 0.5, "T": 2e-5})
    assert back(MEAN_LOSS, {"lr": 0.5, "T": 2e-5}, N).h == pytest.approx(csgmcmc.h)
    assert back(MOMENTUM, {"lr": 0.5, "momentum": 0.1, "T": 2e-5}, N).alpha == pytest.approx(0.9)
    figure_1 = back(PHYSICAL, {"epsilon": 0.1, "C": 3.0, "M": 1.0, "B": 0.2, "T": 1.0}, 1)  # of Chen et al.'s code
    assert (figure_1.h, figure_1.alpha, figure_1.V) == pytest.approx((0.01, 0.3, 4.0))


def test_what_divides_by_the_temperature_is_left_out_at_zero():
    names = [c.name for c in CONVENTIONS if c.can_express(Step(h=0.1, T=0.0, N=10, alpha=0.1))]
    assert "devinterp" not in names
    assert len(names) == 6
    assert sum(c.can_express(Step(h=0.1, N=10)) for c in CONVENTIONS) == 5


def test_what_has_no_words_for_a_known_gradient_noise_says_nothing():
    step = Step(h=0.01, alpha=0.1, V=1.0)
    assert [c.name for c in CONVENTIONS if c.can_express(step)] == [VELOCITY.name, PHYSICAL.name]
