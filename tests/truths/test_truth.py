"""`bench truth`: it is right within its stated errors, later results use it, and no run key knows of it."""

import numpy as np
import pytest
import torch

from harness.tasks import DensityTask, Truth
from plugins.samplers.hmc import HMC
from plugins.truths import computing, reference
from plugins.truths.computing import check_gradient
from tasks.synthetic.gaussian2d import Gaussian2D

LENGTHS = computing.Lengths(chains=4, burn_in=50, pilots=1, pilot_steps=100)

PLUGIN = """
from __future__ import annotations

from dataclasses import dataclass

from harness import Info, hook, param
from harness.tasks import MOMENT_METRICS, DensityTask, Outcome, Protocol


@dataclass(frozen=True, kw_only=True)
class Pair(DensityTask):
    metrics = MOMENT_METRICS
    protocols = (Protocol("default", "", {"smoke": 2000}, chains=2),)
    rho: float = param(0.9, "(-1, 1)", "correlation", source="ours")
    gradient_noise: float = param(0.5, "[0, inf)", "noise", source="ours")

    def dim(self):
        return 2

    def energy(self, theta):
        x, y = theta[:, 0] - 3, 10 * theta[:, 1]
        return (x * x - 2 * self.rho * x * y + y * y) / (2 * (1 - self.rho**2))

    def grad(self, theta):
        import torch

        x, y = theta[:, 0] - 3, 10 * theta[:, 1]
        return torch.stack([x - self.rho * y, 10 * (y - self.rho * x)], 1) / (1 - self.rho**2)

    def curvature(self):
        return 100 / (1 - abs(self.rho))

    def observer(self, *of):
        watcher = super().observer(*of)
        if self.gradient_noise == 0.25:
            watcher.outcome = lambda: Outcome({}, {})
        return watcher


class Line(Pair):
    grad = DensityTask.grad

    def dim(self):
        return 1


class Random(Line):
    def energy(self, theta):
        import torch

        return theta.square().sum(1) * (1 + 0.01 * torch.rand(len(theta)))


class Steps(Line):
    def energy(self, theta):
        return theta.abs().ceil().sum(1)


@dataclass(frozen=True, kw_only=True)
class Power(Line):
    batch: int = param(2, "[1, inf)", "the power, not rows", source="ours")

    def energy(self, theta):
        return (theta.abs() ** self.batch).sum(1)


class TwoModes(Line):
    box = 30.0

    def energy(self, theta):
        import torch

        return -torch.logaddexp(-(theta[:, 0] - 20).square() / 2, -(theta[:, 0] + 20).square() / 2)


class Sums(Pair):
    def functions(self, theta):
        import torch

        return torch.stack([theta[:, 0], theta[:, 0] + 10 * theta[:, 1]], 1)


class Apart(TwoModes):
    def functions(self, theta):
        return theta

    def start(self, generator):
        import torch

        return torch.empty(1, dtype=torch.float64).uniform_(-25, 25, generator=generator)


@hook
def bench_tasks():
    names = ("Pair", "Power", "Random", "Steps", "TwoModes", "Sums", "Apart")
    return [Info(name.lower(), f"unknown_truth:{name}") for name in names]
"""
SHORT = ["--sampler", "sgld", "--budget", "steps=2000", "--chains", "2"]


@pytest.fixture
def bench(bench_with):
    return bench_with("unknown_truth", PLUGIN)


def values(bench, seed):
    rows = bench("sql", "select seed, value from run_metric order by metric")[1]
    return [row["value"] for row in rows if row["seed"] == seed]


def test_a_truth_is_right_is_used_from_then_on_and_changes_no_key(bench, tmp_path):
    _, before, _ = bench("run", "--task", "pair", *SHORT, "--seeds", 0)
    bench("run", "--task", "pair", *SHORT, "--seeds", 4, "--set", "task.gradient_noise=0.25")
    assert values(bench, 0) == values(bench, 4) == [None] * 3

    code, (record,), err = bench("truth", "pair", "--draws", 2500)
    assert (code, list((tmp_path / "r" / "truths").iterdir())) == (0, [tmp_path / "r" / "truths" / record["path"]])
    assert record["rhat"] < 1.01
    covariance = np.array([[1, 0.09], [0.09, 0.01]])
    exact = Truth.normal(np.array([3.0, 0.0]), covariance)
    sd = np.sqrt([row[-1] for row in record["covariance"]])
    for estimate, right, error in [
        (record["mean"], exact.mean, record["mean_mcse"]),
        (sd, exact.sd, record["sd_mcse"]),
        (record["quantiles"][:2], exact.quantiles[:2], record["quantile_mcse"][:2]),
    ]:
        off = np.abs(np.array(estimate) - right) / np.array(error)
        assert off.max() < 5, off
        assert np.max(np.array(error) / (np.array([1, 0.1]) if np.ndim(error) == 1 else [[1], [0.1]])) < 0.05
    assert "stored before" in bench("truth", "pair")[2]

    _, again, err = bench("run", "--task", "pair", *SHORT, "--seeds", 0)
    assert again == before
    assert "1 done before, 0 to do" in err
    key = before[0]["run_key"]
    assert bench("replay", key)[0] == 0
    assert bench("rescore")[0] == 0
    rescored = values(bench, 0)
    assert all(value is not None for value in rescored)
    assert values(bench, 4) == [None] * 3  # the truth did not help, and is not tried again
    _, records, err = bench("rescore")
    assert (records, "computing" in err) == ([], False), err
    assert bench("replay", key)[0] == 0

    bench("run", "--task", "pair", *SHORT, "--seeds", 1)
    bench("run", "--task", "pair", *SHORT, "--seeds", 2, "--set", "task.gradient_noise=0")
    bench("run", "--task", "pair", *SHORT, "--seeds", 3, "--set", "task.rho=0.5")
    assert None not in values(bench, 1) + values(bench, 2)
    assert values(bench, 3) == [None] * 3
    assert bench("replay", bench("run", "--task", "pair", *SHORT, "--seeds", 1)[1][0]["run_key"])[0] == 0

    path = tmp_path / "r" / "truths" / record["path"]
    path.write_text(path.read_text().replace('"mean"', '"median"'))
    code, _, err = bench("truth", "pair")
    assert (code, "is damaged; delete it" in err) == (4, True)


@pytest.mark.slow
def test_a_reference_of_functions_is_right_and_one_whose_chains_disagree_is_not_used(bench):
    code, (record,), err = bench("truth", "sums", "--draws", 500)
    assert (code, "stored in" in err) == (0, True), err
    right = {"mean": [3, 3], "sd": [1, 3.8**0.5]}
    for name, exact in right.items():
        off = np.abs(np.array(record[name]) - exact) / np.array(record[f"{name}_error"])
        assert off.max() < 5, (name, off)
        assert max(record[f"{name}_error"]) < 0.1
    levels = (np.array(record["quantiles"]) - 3) / np.array(right["sd"])[:, None]
    assert np.abs(levels - [-1.6449, 0, 1.6449]).max() < 0.1
    assert np.abs(np.array(record["z4"]) - 3).max() < 0.3
    assert max(record["rhat"]) < 1.02
    for _ in range(2):
        code, _, err = bench("truth", "apart", "--draws", 100)
        assert (code, "is not used: R-hat is 1.05 or less for 0.0% of the functions" in err) == (1, True), err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["mixture5"], 2, "mixture5 states its truth itself (closed form"),
        (["random"], 2, "random has no full gradient"),
        (["steps"], 2, "steps has no full gradient"),
        (["power"], 2, "power is no harness.tasks.DataTask, of which alone task.batch"),
        (["pair", "--set", "sampler.leapfrog=3"], 2, "only settings of the task"),
        (["twomodes", "--draws", "100"], 1, "by a larger --draws; nothing was stored"),
    ],
)
def test_what_has_no_truth_that_hmc_can_find_is_refused(bench, tmp_path, words, code, told):
    exit_code, _, err = bench("truth", *words)
    assert (exit_code, told in err) == (code, True), err
    assert not (tmp_path / "r" / "truths").exists()


@pytest.mark.parametrize("distance", [0.0, 1e-9])
def test_chains_may_start_at_a_mode(distance):
    class Mode(DensityTask):
        def dim(self):
            return 2

        def energy(self, theta):
            return 1000 + theta.square().sum(1) / 2

        def start(self, generator):
            return torch.full((2,), distance, dtype=torch.float64)

    check_gradient("mode", Mode())


def test_draws_go_on_until_they_are_enough_and_no_longer_than_twice_as_many():
    """The longer run begins with the draws of the shorter one."""
    seen = []

    def enough(needed):
        def decide(theta):
            seen.append(len(theta))
            return len(theta) >= needed

        return decide

    def draws(*further):
        hmc = HMC(**{**computing.SAMPLER, "leapfrog": 2})
        task, silent = Gaussian2D(), lambda *_: None
        return computing.whitened_draws("gaussian2d", task, hmc, 200, silent, *further, lengths=LENGTHS)

    alone = draws()
    assert alone.shape == (200, 4, 2)
    for needed, lengths in ((250, [200, 300]), (1000, [200, 300])):
        seen.clear()
        longer = draws(enough(needed))
        assert seen == lengths
        assert len(longer) == (300 if needed == 250 else 400)
        np.testing.assert_array_equal(longer[:200], alone)


def test_only_a_small_effective_size_asks_for_more():
    rng = np.random.default_rng(0)
    few, many = rng.standard_normal((300, 16, 2)), rng.standard_normal((1500, 16, 2))
    assert reference.quality(few).too_few
    assert reference.quality(few).least == pytest.approx(4800, rel=0.2)
    assert not reference.quality(many).too_few
    apart = few + 3 * np.arange(16)[:, None]
    assert not reference.quality(apart).too_few
