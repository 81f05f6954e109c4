"""dq-sgld: the mode that it finds, its covariance at every step size, and what it predicts before a run."""

import numpy as np
import pytest
import torch
from kernels import Noise, scalars

from harness.contracts.randomness import Streams
from harness.engine.loop import Loop
from harness.engine.stepping.potential import BoundPotential
from plugins.checking.gaussian import Recorder
from plugins.samplers.dq_sgld import DQSGLD
from plugins.samplers.laws.dq_sgld import DQSGLDLaw
from plugins.schedules.constant import Constant
from tasks.regression.misspecified import D, N, PoissonMisspecified, RobustMisspecified

TASKS = {"poisson": PoissonMisspecified(), "robust": RobustMisspecified()}


def hessian(task, theta):
    """J (D, D) at theta (D,), by differences of the gradient of U."""
    problem = task.build([Streams(0, 0, ("test",))], "cpu")

    def grad(x):
        return problem.gradient(torch.from_numpy(x)[None], None)[0].numpy()

    return np.stack([(grad(theta + e) - grad(theta - e)) / 2e-5 for e in 1e-5 * np.eye(D)])


def test_a_step_keeps_the_covariance_that_it_is_calibrated_to():
    DQSGLDLaw().check(DQSGLD())


@pytest.mark.parametrize("name", TASKS)
def test_newton_finds_the_mode_from_afar(name):
    task, chains = TASKS[name], 64
    problem = task.build([Streams(0, 0, ("test",))] * chains, "cpu")
    start = 3 * Noise(0).normal(torch.empty((chains, D), dtype=torch.float64))
    mode = DQSGLD().mode(start, BoundPotential(problem, N))
    np.testing.assert_allclose(mode.numpy(), np.broadcast_to(task.estimate[0], (chains, D)), rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", TASKS)
def test_the_sandwich_of_a_task_is_that_of_its_scores(name):
    task = TASKS[name]
    mode, sandwich = task.estimate
    problem = task.build([Streams(0, 0, ("test",))], "cpu")
    at = torch.from_numpy(mode)[None]
    scores, J = problem.scores(at, None)[0].numpy(), hessian(task, mode)
    assert np.abs(scores.sum(0) + mode).max() < 1e-9
    blocks, prior = problem.gauss_newton(at, last_layer=False, full=True)
    np.testing.assert_allclose(blocks[0][0][0].numpy() + prior * np.eye(D), J, rtol=0, atol=1e-5 * J.max())
    expected = np.linalg.inv(J) @ (N * np.cov(scores.T, ddof=0)) @ np.linalg.inv(J)
    np.testing.assert_allclose(sandwich, expected, rtol=0, atol=1e-4 * expected.max())
    assert np.linalg.eigvalsh(J)[-1] == pytest.approx(task.curvature(), rel=0.01)
    ratio = np.diag(sandwich) / task.truth().sd ** 2
    assert ratio.min() > 2.5, "a sampler of the posterior would pass for one of the sandwich"


def predicted(task, target, h):
    """The covariance S and I - h L J, by NumPy, from the rows."""
    mode, sandwich = task.estimate
    J = hessian(task, mode)
    V = J @ sandwich @ J
    S = sandwich if target == "sandwich" else np.linalg.inv(J)
    C = N / task.batch * V
    return S, np.eye(D) - 2 * h * S @ J @ np.linalg.inv(C + J @ S @ J) @ J


def simulated(task, target, h, order="replaced", chains=100, steps=2000):
    """Draws (steps, chains, D) about the mode, after 1,500 steps: the slowest chains forget 1 % a step."""
    recorder, burn_in = Recorder(), 1500
    trajectory = Constant(step_size=h).trajectory(burn_in + steps, task.steps_per_epoch()).with_burn_in(burn_in, 1)
    streams = [Streams(0, chain, ("dq",), order) for chain in range(chains)]
    loop = Loop(task, DQSGLD(target=target), trajectory, streams, chains, observer=lambda *_: recorder)
    while not loop.finished:
        loop.advance_block()
    return recorder.draws().numpy() - task.estimate[0]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("target", "h"), [("posterior", 0.5), ("sandwich", 1.0)])
@pytest.mark.parametrize("name", TASKS)
def test_covariance_and_autocorrelation_are_those_predicted(name, target, h):
    """Along the axes in which S is the identity, for all chains together; the noise grows away from the mode."""
    task = TASKS[name]
    S, A = predicted(task, target, h)
    z = simulated(task, target, h) @ np.linalg.inv(np.linalg.cholesky(S)).T
    of_chain = (z**2).mean(0)
    ratio, error = of_chain.mean(0), of_chain.std(0, ddof=1) / np.sqrt(len(of_chain))
    assert np.abs(ratio - 1).max() < 0.05 + 4 * error.max()
    lag = 10
    along = np.linalg.inv(np.linalg.cholesky(S)) @ np.linalg.matrix_power(A, lag) @ np.linalg.cholesky(S)
    seen = np.einsum("tci,tcj->cij", z[lag:], z[:-lag]) / len(z[lag:])
    error = seen.std(0, ddof=1) / np.sqrt(len(seen))
    assert (np.abs(seen.mean(0) - along) < 0.05 + 4 * error).all()
    assert along[0, 0] < 0.95


@pytest.mark.slow
@pytest.mark.statistical
def test_the_parts_of_a_permutation_make_the_draws_too_narrow():
    task = TASKS["robust"]
    z = simulated(task, "sandwich", 1.0, order="shuffled", chains=50)
    ratio = (z**2).mean((0, 1)) / np.diag(task.estimate[1])
    assert ratio.max() < 0.7


def test_a_chain_that_is_lost_is_seen():
    class Lost:
        terms = 10

        def scores(self, x):
            return x[:, None].expand(-1, 5, -1) * torch.nan

        def grad(self, x):
            return x * torch.nan

        def value_and_grad(self, x):
            return x.sum(1) * torch.nan, x * torch.nan

        def gauss_newton(self, x, *, last_layer, full):
            return {0: [torch.eye(3, dtype=x.dtype).expand(len(x), -1, -1) * torch.nan]}, 1.0

        @property
        def full(self):
            return self

    theta = torch.ones((2, 3), dtype=torch.float64)
    h, heat = scalars(1.0, 1.0)
    for target in ("posterior", "sandwich"):
        sampler = DQSGLD(target=target)
        state = sampler.init(theta, Lost(), h, heat, Noise())
        moved, _ = sampler.step(theta, state, Lost(), h, heat, Noise())
        assert moved.isnan().all()
