"""Control variates: the gradient by hand, unbiased over batches, exact at the centre; any sampler takes them."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from kernels import stepped, tensor

from harness.contracts.randomness import Streams
from harness.engine.linear import stability_limit, stationary_variance
from harness.engine.stepping.potential import BoundPotential, CountingPotential
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import draws, finish, loop, path_of, trajectory
from plugins.checking.suite import check_sampler
from plugins.samplers.baoab import BAOAB
from plugins.samplers.control_variates import Controlled, ControlVariates, VarianceReduction
from plugins.samplers.msgld import MSGLD
from plugins.samplers.psgld import PSGLD
from plugins.samplers.resgld import RESGLD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sghmc_svrg import SGHMCSVRG
from plugins.samplers.sgld import SGLD
from plugins.samplers.sgld_cv import SGLDCV, SGLDSVRG
from tasks.regression.blr import Heart

C, D = 4, 3


@dataclass(frozen=True, kw_only=True)
class MSGLDCV(ControlVariates, MSGLD):
    """Any sampler: one line."""


@dataclass(frozen=True, kw_only=True)
class BAOABSVRG(VarianceReduction, BAOAB):
    """Another."""


@dataclass(frozen=True, kw_only=True)
class PSGLDSVRG(VarianceReduction, PSGLD):
    """One with adaptive entries of its own, and a gradient in `init`."""


@dataclass(frozen=True, kw_only=True)
class RESGLDCV(ControlVariates, RESGLD):
    """One that asks for energies and positions of its own."""


class Noisy:
    """grad U = theta^3 + 1 on all the data; a batch adds w theta."""

    def gradient(self, theta, batch):
        return theta**3 + 1 + (0 if batch is None else batch["w"] * theta)

    def energy_and_gradient(self, theta, batch):
        return (theta**4 / 4 + theta).sum(1), self.gradient(theta, batch)


@pytest.fixture
def rng():
    return np.random.default_rng(21)


@pytest.mark.parametrize("T", [0.5, 3.0])
@pytest.mark.parametrize("sampler", [SGLDCV(), SGLDSVRG()], ids=repr)
def test_a_step_by_hand(rng, sampler, T):
    theta, centre, kept, w, xi = rng.standard_normal((5, C, D))
    potential = BoundPotential(Noisy(), 1, {"w": tensor(w)})
    position, state = stepped(sampler, theta, {"centre": centre, "centre_gradient": kept}, potential, 0.02, T, xi)
    g = (theta**3 + 1 + w * theta) - (centre**3 + 1 + w * centre) + kept
    np.testing.assert_allclose(position, theta - 0.02 * g + np.sqrt(2 * 0.02 * T) * xi, rtol=1e-12)
    np.testing.assert_array_equal(state["centre"], centre)
    np.testing.assert_array_equal(state["centre_gradient"], kept)


def test_the_centre_is_found_by_the_descent_that_is_stated_and_counted(rng):
    theta = rng.standard_normal((C, D))
    potential = CountingPotential(Noisy(), 1, {"w": torch.ones((C, D), dtype=torch.float64)})
    state = SGLDCV(descent=30).init(tensor(theta), potential, tensor(0.05), tensor(1.0), None)
    assert potential.take_counts() == (0, 31)
    for _ in range(30):
        theta = theta - 0.05 * (theta**3 + 1)
    np.testing.assert_allclose(state["centre"].numpy(), theta, rtol=1e-12)
    np.testing.assert_allclose(state["centre_gradient"].numpy(), theta**3 + 1, rtol=1e-12, atol=1e-14)


def test_the_centre_of_svrg_follows_every_so_many_steps(rng):
    theta, noise = rng.standard_normal((2, C, D))
    potential = CountingPotential(Noisy(), 1, {"w": tensor(noise)})
    sampler = SGLDSVRG(period=5)
    state = sampler.init(tensor(theta), potential, tensor(0.05), tensor(1.0), None)
    assert potential.take_counts() == (0, 1)
    np.testing.assert_array_equal(state["centre"].numpy(), theta)
    moved = sampler.refresh(tensor(theta + 1), state, potential)
    assert potential.take_counts() == (0, 1)
    np.testing.assert_array_equal(moved["centre"].numpy(), theta + 1)
    np.testing.assert_allclose(moved["centre_gradient"].numpy(), (theta + 1) ** 3 + 1, rtol=1e-12)
    assert (sampler.refresh_every, SGLDSVRG(period=9).refresh_every, SGLDCV().refresh_every) == (5, 9, 0)


def test_in_a_run_the_centre_is_where_the_chain_was_at_the_last_refresh():
    task, path = GaussianTask(variance=0.5), trajectory(np.full(12, 0.1), 1.0)
    running = loop(SGLDSVRG(period=5), task, path, 2)
    walked = draws(finish(running))
    assert torch.equal(running.state["centre"], walked[9])
    assert running.cost.per_step == pytest.approx(2 + 1 / 5)


@pytest.mark.data
def test_the_gradient_is_unbiased_over_an_epoch_and_exact_at_the_centre(rng):
    """On logistic regression, whose batches differ in their Hessians too; near the centre it is less noisy as well."""
    task = Heart(batch=32)
    problem = task.build([Streams(0, chain) for chain in range(2)], "cpu")
    centre = tensor(0.3 * rng.standard_normal((2, problem.dim)))
    full = problem.gradient(centre, None)
    epoch = problem.draw_batches(task.steps_per_epoch())["index"]

    def gradients(x):
        potentials = [BoundPotential(problem, task.terms(), {"index": index}) for index in epoch]
        controlled = torch.stack([Controlled(p, centre, full).grad(x) for p in potentials])
        return controlled, torch.stack([p.grad(x) for p in potentials])

    at_centre, _ = gradients(centre)
    torch.testing.assert_close(at_centre, full.expand_as(at_centre), rtol=1e-10, atol=1e-10)
    theta = centre + tensor(0.1 * rng.standard_normal((2, problem.dim)))
    controlled, plain = gradients(theta)
    torch.testing.assert_close(controlled.mean(0), problem.gradient(theta, None), rtol=1e-9, atol=1e-9)
    assert controlled.var(0).sum() < 0.1 * plain.var(0).sum()


PAIRS = [
    (SGLDCV(), SGLD()), (SGLDSVRG(), SGLD()), (SGHMCSVRG(friction=0.3), SGHMC(friction=0.3)),
    (MSGLDCV(a=2.0), MSGLD(a=2.0)), (BAOABSVRG(), BAOAB()), (PSGLDSVRG(), PSGLD()),
]  # fmt: skip


@pytest.mark.parametrize(("controlled", "plain"), PAIRS, ids=lambda sampler: type(sampler).__name__)
def test_the_law_is_the_sampler_s_without_the_noise_of_its_gradients(controlled, plain):
    if not isinstance(plain, PSGLD):  # the search probes many curvatures with one V, and V sees them here
        assert stability_limit(controlled) == pytest.approx(stability_limit(plain), rel=1e-6)
    for x in (0.01, 0.2):
        exact = stationary_variance(plain, x, 1.5)
        assert stationary_variance(plain, x, 1.5, 4.0) > 1.005 * exact
        for V in (0.0, 4.0):
            assert stationary_variance(controlled, x, 1.5, V) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    ("controlled", "plain"), [*PAIRS, (RESGLDCV(), RESGLD())], ids=lambda sampler: type(sampler).__name__
)
def test_on_a_quadratic_every_path_is_that_of_exact_gradients(controlled, plain):
    """Noisy batches with control variates walk the path of no noise at all; the descent costs no random numbers."""
    path = trajectory(0.1 / (1 + 0.1 * np.arange(12)), 1.0)
    positions = path_of(controlled, GaussianTask(variance=2.0), path, 3)
    torch.testing.assert_close(positions, path_of(plain, GaussianTask(), path, 3), rtol=1e-9, atol=1e-10)


@pytest.mark.statistical
@pytest.mark.parametrize("sampler", [MSGLDCV(a=5.0), BAOABSVRG(period=4), PSGLDSVRG()], ids=lambda s: type(s).__name__)
def test_an_author_s_own_combination_keeps_the_laws(sampler):
    laws = ["derived-law", "one-step", "scale", "no-leaks", "seeds"]
    assert {result.outcome for result in check_sampler(sampler, laws)} == {"passed"}
