"""What a loop does for samplers beyond steps: full gradients every so many, and draws that do not weigh alike."""

import numpy as np
import pytest
import torch
from support import run_loop

from harness.engine.loop import Loop
from harness.engine.stepping.block import cut
from harness.system.errors import PluginError
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import streams, trajectory
from plugins.samplers.sgld import SGLD


def recorded(sampler, path, **more):
    loop = Loop(GaussianTask(variance=0.5), sampler, path, streams(4), 4, **more)
    return run_loop(loop)


def test_draws_weigh_by_their_step_size_where_asked():
    h = 0.2 / (1 + np.arange(50.0))
    plain, weighed = (recorded(SGLD(), trajectory(h, 1.0, 10), weights=how) for how in ("equal", "step-size"))
    weights = [torch.cat(loop.runs[0].observer.weights).numpy() for loop in (plain, weighed)]
    assert torch.equal(plain.runs[0].observer.draws(), weighed.runs[0].observer.draws())
    assert (weights[0] == 1).all()
    np.testing.assert_allclose(weights[1], (h[10:] / h[10])[:, None].repeat(4, 1), rtol=1e-12)


class Refreshed(SGLD):
    """SGLD that notes how often it was refreshed, and asks for the full gradient each time."""

    refresh_every = 7

    def init(self, theta, potential, h, T, noise):
        return {"times": torch.zeros((len(theta), 1)), "slope": torch.zeros_like(theta)}

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, {}, potential, h, T, noise)[0] - 1e-3 * h * state["slope"], state

    def refresh(self, theta, state, potential):
        return {"times": state["times"] + 1, "slope": potential.full.grad(theta)}


def test_a_sampler_is_refreshed_before_every_so_many_steps_and_the_cost_is_counted():
    loop = recorded(Refreshed(), trajectory([0.1] * 50, 1.0))
    assert (loop.state["times"] == 7).all()  # before steps 8, 15, ..., 50
    assert loop.cost.per_step == pytest.approx(1 + 1 / 7)
    assert set(cut(loop.trajectory, 5, 7)) >= {(0, 5), (5, 7), (7, 12), (49, 50)}


def test_a_refreshed_run_goes_on_from_its_checkpoint_as_if_it_had_not_stopped():
    path = trajectory([0.1] * 50, 1.0)
    whole = recorded(Refreshed(), path)
    first = Loop(GaussianTask(variance=0.5), Refreshed(), path, streams(4), 4)
    while first.position < 14:
        first.advance_block()
    second = Loop(GaussianTask(variance=0.5), Refreshed(), path, streams(4), 4)
    second.restore([first.checkpoint(first.runs[0])])
    run_loop(second)
    assert torch.equal(second.theta, whole.theta)
    assert torch.equal(second.state["slope"], whole.state["slope"])


def test_a_refresh_that_asks_for_more_than_it_may_is_refused():
    class Greedy(Refreshed):
        def refresh(self, theta, state, potential):
            potential.full.grad(theta)
            return super().refresh(theta, state, potential)

    with pytest.raises(PluginError, match=r"its refresh makes \(0, 2\) calls"):
        recorded(Greedy(), trajectory([0.1] * 50, 1.0))


@pytest.mark.parametrize(
    "changed",
    [lambda _: None, lambda state: {"times": state["times"]}, lambda state: state | {"slope": 0 * state["times"]}],
    ids=["nothing", "an entry less", "another shape"],
)  # fmt: skip
def test_a_refresh_that_returns_another_state_is_refused(changed):
    class Other(Refreshed):
        def refresh(self, theta, state, potential):
            return changed(super().refresh(theta, state, potential))

    with pytest.raises(PluginError, match=r"refresh: (state has|slope was)"):
        recorded(Other(), trajectory([0.1] * 50, 1.0))


class LosesItsWeight(SGLD):
    """Its second chain has no weight from the fifth step on."""

    def init(self, theta, potential, h, T, noise):
        return {"t": torch.zeros(len(theta))}

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, {}, potential, h, T, noise)[0], {"t": state["t"] + 1}

    def log_weight(self, state):
        lost = (state["t"] >= 5) & (torch.arange(len(state["t"])) == 1)
        zero = torch.where(state["t"] == 2, -torch.inf, 0.0)
        return torch.where(lost, torch.nan, zero)


def test_a_weight_that_is_no_number_is_a_divergence_and_a_weight_of_zero_is_not():
    loop = recorded(LosesItsWeight(), trajectory([0.1] * 20, 1.0))
    lost = loop.runs[0].divergence
    assert (lost.step, lost.chain) == (5, 1)
