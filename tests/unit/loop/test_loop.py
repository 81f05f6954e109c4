from dataclasses import dataclass

import numpy as np
import pytest
import torch
from support import SAMPLERS, make_loop, run_loop

from harness import Sampler
from harness.engine.stepping.block import cut, finite
from harness.system.errors import PluginError
from plugins.schedules.constant import Constant
from plugins.schedules.cyclical import Cyclical
from tasks.regression.blr import Heart
from tasks.synthetic.mixture5 import Mixture5


def test_blocks_are_cut_at_stages_and_at_the_noise_length():
    trajectory = Cyclical(step_size=1.0, cycles=2, beta=0.5).trajectory(40, 1).with_burn_in(5)
    assert list(cut(trajectory, 8)) == [(0, 5), (5, 10), (10, 18), (18, 20), (20, 28), (28, 30), (30, 38), (38, 40)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_positions_are_finite_where_all_their_numbers_are(dtype):
    """Lengths on both sides of a vector unit; sums of the largest numbers, which overflow; opposite infinities."""
    most = torch.finfo(dtype).max
    for length in (2, 15, 1001):
        x = torch.full((7, length), most, dtype=dtype)
        x[1:, -1] = torch.tensor([torch.nan, torch.inf, -torch.inf, -most, -torch.inf, 0.0], dtype=dtype)
        x[5, 0] = torch.inf
        assert finite(x).tolist() == [True, False, False, False, True, False, True]
        assert torch.equal(finite(x.T.contiguous().T), finite(x))
        assert torch.equal(finite(x[None]), finite(x)[None])


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_restored_run_goes_on_bit_for_bit(name):
    schedule = Cyclical(step_size=0.05, cycles=2, beta=0.3, explore_with_noise=name == "hmc")
    task = Mixture5()
    whole = run_loop(make_loop(task, SAMPLERS[name], schedule, 3_000, seeds=(0, 1)))
    first = make_loop(task, SAMPLERS[name], schedule, 3_000, seeds=(0, 1))
    for _ in range(2):
        first.advance_block()
    saved = [first.checkpoint(run) for run in first.runs]
    first.advance_block()
    second = make_loop(task, SAMPLERS[name], schedule, 3_000, seeds=(0, 1))
    second.restore(saved)
    run_loop(second)
    assert torch.equal(whole.theta, second.theta)
    for a, b in zip(whole.runs, second.runs, strict=True):
        assert a.observer.outcome().metrics == b.observer.outcome().metrics
        assert (a.kept, a.stored) == (b.kept, b.stored)


def test_divergence_names_the_step_and_leaves_the_others_alone():
    class Bomb(type(SAMPLERS["sgld"])):
        def step(self, theta, state, potential, h, T, noise):
            theta, state = super().step(theta, state, potential, h, T, noise)
            count = state["count"] + 1
            hit = (count == 1_234) & (torch.arange(len(theta))[:, None] == 3)
            return torch.where(hit, torch.nan, theta), {"count": count}

        def init(self, theta, potential, h, T, noise):
            return {"count": theta.new_zeros((len(theta), 1))}

    schedule = Constant(step_size=0.05)
    clean = run_loop(make_loop(Mixture5(), SAMPLERS["sgld"], schedule, 3_000, seeds=(0, 1, 2)))
    hurt = run_loop(make_loop(Mixture5(), Bomb(), schedule, 3_000, seeds=(0, 1, 2)))
    assert [run.divergence is not None for run in hurt.runs] == [False, True, False]
    assert (hurt.runs[1].divergence.step, hurt.runs[1].divergence.chain) == (1_234, 1)
    others = [0, 1, 2, 4, 5]
    assert torch.equal(clean.theta[others], hurt.theta[others])
    assert torch.isnan(hurt.theta[3]).all()
    assert hurt.runs[1].kept == 1_000


def test_draws_are_kept_by_stride_whatever_the_blocks():
    loop = make_loop(Mixture5(), SAMPLERS["sgld"], Constant(step_size=0.05), 2_500, burn_in=300, thin=3)
    loop.runs[0].stride = 7
    parts = []
    while not loop.finished:
        loop.advance_block()
        parts.append(loop.runs[0].fetch())
    stored = np.concatenate([part for part in parts if part is not None])
    full = make_loop(Mixture5(), SAMPLERS["sgld"], Constant(step_size=0.05), 2_500, burn_in=300, thin=3)
    run_loop(full)
    assert np.array_equal(stored, full.runs[0].fetch()[::7])
    assert loop.runs[0].stored == len(stored)


def test_costs_are_counted_not_believed():
    @dataclass(frozen=True, kw_only=True)
    class Sly(Sampler):
        def step(self, theta, state, potential, h, T, noise):
            potential.grad(theta)
            return theta - h * potential.grad(theta), state

    with pytest.raises(PluginError, match=r"declares .* = \(1, 0\), its step makes \(2, 0\)"):
        make_loop(Mixture5(), Sly(), Constant(step_size=0.1), 10)
    loop = make_loop(Mixture5(), SAMPLERS["hmc"], Constant(step_size=0.1), 10)
    assert (loop.cost.at_start, loop.cost.per_step) == (1.0, 3.0)


def test_adaptation_stops_before_the_first_draw():
    loop = make_loop(Mixture5(), SAMPLERS["hmc"], Constant(step_size=0.1), 1_500, burn_in=500)
    loop.advance_block()
    frozen = loop.state["log_scale"].clone()
    assert int(loop.state["adapted"][0]) == 500
    run_loop(loop)
    assert torch.equal(loop.state["log_scale"], frozen)


def test_noise_must_be_the_same_in_every_step():
    @dataclass(frozen=True, kw_only=True)
    class Moody(type(SAMPLERS["sgld"])):
        def init(self, theta, potential, h, T, noise):
            return {"k": theta.new_zeros((len(theta), 1))}

        def step(self, theta, state, potential, h, T, noise):
            like = theta if state["k"][0] < 5 else theta[:, :1]
            g = potential.grad(theta)
            return theta - h * g + h * noise.normal(like), {"k": state["k"] + 1}

    with pytest.raises(PluginError, match="same noise every time"):
        run_loop(make_loop(Mixture5(), Moody(), Constant(step_size=0.01), 100))


def test_weights_reach_the_observer_and_only_their_ratios_matter():
    class Weighted(type(SAMPLERS["sgld"])):
        shift = 0.0

        def log_weight(self, state):
            return self.shift + state["half"]

        def init(self, theta, potential, h, T, noise):
            return {"half": theta.new_zeros(len(theta))}

        def step(self, theta, state, potential, h, T, noise):
            theta, _ = super().step(theta, {}, potential, h, T, noise)
            return theta, {"half": -100.0 * (theta[:, 0] <= 0).to(theta.dtype)}

    class Shifted(Weighted):
        shift = 800.0

    distances = []
    for sampler in (Weighted(), Shifted(), SAMPLERS["sgld"]):
        loop = run_loop(make_loop(Mixture5(), sampler, Constant(step_size=0.1), 3_000, seeds=(0, 1), chains=4))
        distances.append([run.observer.outcome().metrics["mode_mass_tv"] for run in loop.runs])
    assert distances[0] == pytest.approx(distances[1], rel=1e-9)
    assert min(distances[0]) > max(distances[2]) + 0.1  # half of the plane has no weight


@pytest.mark.data
def test_a_minibatch_costs_its_share_of_a_pass():
    loop = make_loop(Heart(batch=27), SAMPLERS["sgld"], Constant(step_size=1e-4), 10)
    assert loop.cost.per_step == pytest.approx(0.1)
