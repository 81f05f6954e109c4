"""Every planted bug is seen by the law that is meant to see it."""

from __future__ import annotations

import method_mutants
import mutants
import nonlinear_mutants
import pytest
import torch
from mutants import Plain
from nonlinear_mutants import QuickContour, Tamed, Weighted

from harness.conformance.suite import check_samplers
from harness.errors import UsageError


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class AveragedNoise(Plain):
    """Leimkuhler and Matthews 2013: the mean of the noise of this step and the one before. Right, though unusual."""

    def init(self, theta, potential, h, T, noise):
        return {"xi": noise.normal(theta)}

    def step(self, theta, state, potential, h, T, noise):
        xi = noise.normal(theta).expand_as(theta)
        mixed = (xi + state["xi"]) / 2
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * mixed, {"xi": xi}


SEEN_BY = mutants.SEEN_BY | method_mutants.SEEN_BY | nonlinear_mutants.SEEN_BY


@pytest.mark.parametrize("mutant", SEEN_BY, ids=lambda mutant: mutant.__name__)
def test_the_bug_is_seen(mutant):
    results = check_samplers([mutant()], SEEN_BY[mutant])[0]
    assert {result.law for result in results if result.outcome == "failed"} == SEEN_BY[mutant], results
    said = ("Usual cause", "declares", "came back as")
    assert all(any(part in result.message for part in said) for result in results), results


@pytest.mark.parametrize("sampler", [Plain(), AveragedNoise()], ids=lambda sampler: type(sampler).__name__)
def test_no_law_sees_a_bug_where_none_is_planted(sampler):
    results = check_samplers([sampler])[0]
    assert [result for result in results if result.outcome != "passed"] == []


class Thermostat(Plain):
    """Nose-Hoover: the friction follows the kinetic energy. At friction 0.1 the variance is 0.95 T in the limit."""

    zero_temperature = None

    def init(self, theta, potential, h, T, noise):
        return {"v": (h * T).sqrt() * noise.normal(theta), "friction": torch.full_like(theta[:, :1], 0.1)}

    def step(self, theta, state, potential, h, T, noise):
        kick = (0.2 * h * T).sqrt() * noise.normal(theta)
        v = (1 - state["friction"]) * state["v"] - h * potential.grad(theta) + kick
        return theta + v, {"v": v, "friction": state["friction"] + v.square().mean(1, keepdim=True) - h * T}

    def limit_bias(self):
        return 0.95


@pytest.mark.parametrize(
    "sampler", [Tamed(), Weighted(), Thermostat(), QuickContour()], ids=lambda sampler: type(sampler).__name__
)
def test_a_sampler_that_is_not_linear_is_run_until_it_is_stationary(sampler):
    (result,) = check_samplers([sampler], ["real-loop"])[0]
    assert (result.outcome, result.message) == ("passed", "")


def test_no_law_sees_a_bug_in_a_right_sampler_that_is_not_linear():
    results = check_samplers([Tamed()])[0]
    outcomes = {result.law: result.outcome for result in results if result.outcome != "passed"}
    assert outcomes == {"derived-law": "skipped", "zero-temperature": "skipped"}, results


class Slow(Tamed):
    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h / 1000, T, noise)


class Refusing(Tamed):
    def check_steps(self, h, T):
        raise UsageError("this step size is not for me")


@pytest.mark.parametrize(
    ("sampler", "reason"), [(Slow(), "remember where they started"), (Refusing(), "not for me")],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_stationary_law_that_cannot_be_measured_is_said_to_be_unproven(sampler, reason):
    (result,) = check_samplers([sampler], ["real-loop"])[0]
    assert result.outcome == "skipped"
    assert "stationary law is unproven" in result.message
    assert reason in result.message
