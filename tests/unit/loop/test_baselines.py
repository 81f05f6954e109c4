"""Baselines on a Gaussian: what their draws are, and that no leaderboard ranks them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from support import run_loop

from harness.cli.app import run as bench
from harness.contracts.module import Block, Layout
from harness.contracts.registry import registry
from harness.engine.stepping.noise import DirectNoise
from harness.runs.plan import RunRequest, plan
from plugins.baselines.laplace_signs import LaplaceSigns
from plugins.baselines.last_layer_laplace_signs import LastLayerLaplaceSigns
from plugins.baselines.laws import LastLayerLaplaceSignsLaw, MCDropoutLaw
from plugins.baselines.mc_dropout import MCDropout
from plugins.baselines.swag import SWAG
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import Broken, loop, streams, trajectory


class Coins:
    """A source of noise for all chains at once."""

    def __init__(self):
        self.generator = torch.Generator().manual_seed(0)

    def normal(self, like):
        return torch.randn(like.shape, generator=self.generator, dtype=like.dtype)

    def uniform(self, shape):
        return torch.rand(shape, generator=self.generator, dtype=torch.float64)


def end(sampler, h, steps, *, T=1.0, variance=0.0, chains=400):
    """Positions and state after so many steps on curvature 1 to 2, C x D."""
    return run_loop(loop(sampler, GaussianTask(variance=variance), trajectory(np.full(steps, h), T), chains))


@pytest.mark.parametrize("T", [0.5, 1.0])
def test_laplace_signs_is_exact_where_the_hessian_is_diagonal(T):
    run = end(LaplaceSigns(), 0.1, 400, T=T)
    exact = T / run.problem.curvature
    ratio = (run.theta.square() / exact).mean().item()
    assert ratio == pytest.approx(1, abs=5 * (2 / run.theta.numel()) ** 0.5)
    precision = run.state["H"] / (1 - LaplaceSigns().decay ** 400)
    assert torch.allclose(precision, run.problem.curvature.expand_as(precision), rtol=1e-6)


def test_the_hessian_of_laplace_signs_is_not_below_its_least_entry():
    """lambda = 1: with least = 4 the variance is T / 4 about w."""
    run = end(LaplaceSigns(least=4.0), 0.1, 400)
    assert run.theta.var() == pytest.approx(0.25, rel=0.2)


def test_laplace_signs_is_too_narrow_where_it_is_not():
    """Variance T / H_ii, where the target has (H^-1)_ii."""
    rho = 0.9
    H = torch.tensor([[1, rho], [rho, 1]], dtype=torch.float64)

    class Correlated:
        def grad(self, x):
            return x @ H

    sampler, noise, one = LaplaceSigns(decay=0.999), Coins(), torch.ones((), dtype=torch.float64)
    theta = torch.zeros((500, 2), dtype=torch.float64)
    state = sampler.init(theta, Correlated(), one, one, noise)
    for _ in range(2000):
        theta, state = sampler.step(theta, state, Correlated(), 0.1 * one, one, noise)
    assert theta.var().item() == pytest.approx(1, rel=0.2)
    assert torch.linalg.inv(H)[0, 0] > 5


class TwoLayers:
    """A quadratic potential with these blocks, whose Hessian is 1 between the layers and diagonal within the last."""

    def __init__(self, blocks, last):
        self.layout = Layout(tuple(Block(*one) for one in blocks))
        self.H = torch.ones((self.layout.dim, self.layout.dim), dtype=torch.float64)
        self.H[-last:, -last:] = torch.diag(torch.arange(1.0, last + 1))

    def grad(self, x):
        return x @ self.H


BIASES = [("w1", (3, 2)), ("b1", (3,)), ("w2", (2, 3)), ("b2", (2,)), ("noise", (1,))]
KERNELS = [("k1", (4, 3, 2, 2)), ("scale", (4,)), ("k2", (2, 4, 1, 1))]


@pytest.mark.parametrize(("blocks", "last"), [(BIASES, 9), (KERNELS, 8), ([("b", (5,)), ("c", (2,))], 7)])
def test_last_layer_laplace_signs_draws_the_last_matrix_and_all_after_it(blocks, last):
    """Before them theta is SGD and H is 0; there one step finds H, whatever it is between the layers."""
    potential, one = TwoLayers(blocks, last), torch.ones((), dtype=torch.float64)
    noise = DirectNoise([s.torch("noise") for s in streams(3)], torch.float64)
    sampler, w = LastLayerLaplaceSigns(decay=0.9), torch.ones((3, potential.layout.dim), dtype=torch.float64)
    theta, state = sampler.step(w, sampler.init(w, potential, one, one, noise), potential, 0.1 * one, one, noise)
    drawn = torch.arange(potential.layout.dim) >= potential.layout.dim - last
    assert torch.equal(theta != w - 0.1 * potential.grad(w), drawn.expand(3, -1))
    assert torch.allclose(state["H"] / (1 - sampler.decay), drawn * potential.H.diag(), atol=1e-9)


class AllDrawn(LastLayerLaplaceSigns):
    """Planted: every layer is drawn, as by laplace-signs."""

    def random(self, theta, potential):
        return torch.ones_like(theta)


class BiasLeft(LastLayerLaplaceSigns):
    """Planted: the last bias is not drawn."""

    def random(self, theta, potential):
        return super().random(theta, potential) * (torch.arange(theta.shape[1]) < theta.shape[1] - 2)


class AllProbed(LastLayerLaplaceSigns):
    """Planted: the gradients are compared along all layers."""

    def step(self, theta, state, potential, h, T, noise):
        theta, moved = LaplaceSigns.step(LaplaceSigns(decay=self.decay), theta, state, potential, h, T, noise)
        offset = moved["offset"] * self.random(theta, potential)
        return theta - moved["offset"] + offset, {**moved, "offset": offset}


@pytest.mark.parametrize(
    ("planted", "said"), [(AllDrawn, "is not SGD"), (BiasLeft, "T / H_ii"), (AllProbed, "T / H_ii")]
)
def test_the_law_of_last_layer_laplace_signs_finds_planted_bugs(planted, said):
    with pytest.raises((AssertionError, Broken), match=said):
        LastLayerLaplaceSignsLaw().check(planted())


def test_swag_fits_the_snapshots():
    """Mean and deviations by hand, every second step, K = 2; without noise theta is the mean."""
    sampler, seen = SWAG(rank=2, every=2), []
    run = loop(sampler, GaussianTask(variance=1.0), trajectory(np.full(9, 0.3), 0.0), 2)
    run.stage.ends = {k: k + 1 for k in range(9)}
    while not run.finished:
        run.advance_block()
        seen.append((run.theta - run.state["offset"], run.theta.clone()))
        if run.position == 1:
            assert torch.equal(*seen[0])  # SGD before the first snapshot
    taken = torch.stack([w for w, _ in seen[1::2]])
    means = torch.stack([taken[: k + 1].mean(0) for k in range(4)])
    assert torch.allclose(seen[-1][1], means[-1])
    assert torch.allclose(run.state["squares"] / 4, taken.var(0, correction=0))
    assert torch.allclose(run.state["deviations"], (taken - means)[-2:].movedim(0, 1))
    assert run.state["snapshots"].tolist() == [[4], [4]]


class Hidden:
    """A network of 3 inputs, 4 channels, 5 units and 2 outputs; its gradient is 0."""

    layout = Layout(tuple(Block(*one) for one in [("c1", (4, 3, 2)), ("c2", (5, 4, 2)), ("b", (5,)), ("w", (2, 5))]))

    def grad(self, x):
        return torch.zeros_like(x)


def test_mc_dropout_drops_whole_units_and_comes_back_to_the_weights():
    sampler, noise, one, shares = MCDropout(rate=0.3), Coins(), torch.ones((), dtype=torch.float64), []
    w = 1 + noise.uniform((500, Hidden.layout.dim))
    theta, state = w, sampler.init(w, Hidden(), one, one, noise)
    for _ in range(3):
        theta, state = sampler.step(theta, state, Hidden(), one, one, noise)
        assert torch.allclose(theta - state["offset"], w)
        ratio = Hidden.layout.split(theta / w)
        assert torch.allclose(ratio["c1"], one)
        assert torch.allclose(ratio["b"], one)
        for name in ("c2", "w"):
            by_unit = ratio[name].transpose(1, 2).flatten(2)
            assert torch.allclose(by_unit, by_unit[..., :1])
            assert torch.allclose(by_unit * (1 - sampler.rate), (by_unit > 0).double())
            shares.append((by_unit[..., 0] == 0).double().mean().item())
    assert shares == pytest.approx([0.3] * 6, abs=5 * (0.21 / 2000) ** 0.5)


class Twice(MCDropout):
    """Planted: two masks, one on top of the other."""

    def mask(self, theta, potential, noise):
        return super().mask(theta, potential, noise) * super().mask(theta, potential, noise)


class Straight(MCDropout):
    """Planted: the gradient is not masked."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, {**state, "mask": torch.ones_like(theta)}, potential, h, T, noise)


@pytest.mark.parametrize("planted", [Twice, Straight])
def test_the_law_of_mc_dropout_finds_planted_bugs(planted):
    with pytest.raises(AssertionError, match="mean of the draws"):
        MCDropoutLaw().check(planted())


def planned(ledger, method, **request):
    asked = RunRequest([method], ["gaussian2d"], seeds=[0], chains=5, budget="steps=300", **request)
    return plan(registry(), asked, ledger)[0].spec


def test_a_deep_ensemble_keeps_the_last_position_of_each_chain(ledger):
    spec = planned(ledger, "deep-ensemble")
    assert (spec.sampler.name, spec.thin) == ("adam", 10**9)
    kept = trajectory(np.ones(300), 1.0).with_burn_in(spec.burn_in, spec.thin)
    assert np.flatnonzero(kept.keep).tolist() == [299]
    assert replace(spec, thin=1).key != spec.key


def test_a_deep_ensemble_on_a_quadratic_is_a_point(tmp_path, capsys):
    where = ["--results", str(tmp_path / "r"), "--json"]
    words = ["--sampler", "deep-ensemble", "--task", "gaussian2d", "--budget", "passes=4000", "--chains", "4"]
    given = ["--set", "schedule.step_size=0.01", "task.noise=0"]
    assert bench([*where, "run", *words, "--seeds", "0", *given]) == 0
    from safetensors.numpy import load_file

    (path,) = (tmp_path / "r").glob("runs/*/*/*/draws.safetensors")
    draws = load_file(path)["draws"]
    assert draws.shape[:2] == (4, 1) or draws.shape[:2] == (1, 4)
    assert np.ptp(draws.reshape(4, 2), axis=0) == pytest.approx([0, 0], abs=1e-3)
    capsys.readouterr()


def test_baselines_stand_on_leaderboards_without_a_rank(tmp_path, capsys):
    where = ["--results", str(tmp_path / "r"), "--json"]
    names = ["deep-ensemble", "laplace-signs", "swag", "sgld"]
    words = ["--sampler", ",".join(names), "--task", "gaussian2d", "--budget", "passes=4", "--seeds", "0-4"]
    assert bench([*where, "run", *words, "--set", "schedule.step_size=0.05"]) == 0
    capsys.readouterr()
    assert bench([*where, "report", "leaderboard"]) == 0
    rows = [row for row in json.loads(capsys.readouterr().out) if row["ranked_by"]]
    assert {row["method"] for row in rows} == set(names)
    for row in rows:
        assert (row["status"] == "baseline: not a sampler of the posterior") == (row["method"] != "sgld")
