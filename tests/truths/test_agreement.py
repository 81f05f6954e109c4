"""Our long HMC against reference draws: errors, differences, the page, and starts at modes."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from harness.tasks import DensityTask, Protocol, Streams
from plugins.samplers.hmc import HMC
from plugins.truths import agreement
from plugins.truths.agreement import adjusted, compared, differences, estimates, page
from plugins.truths.computing import SAMPLER, Lengths, whitened_draws
from plugins.truths.modes import laplace

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).parents[2]


def normal_draws(seed, rho=0.0, shape=(1000, 10)):
    """Chains of an autoregression whose law is N(0, 1)."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    for t in range(1, shape[0]):
        x[t] = rho * x[t - 1] + (1 - rho**2) ** 0.5 * x[t]
    return x


def test_errors_are_those_of_independent_draws_and_grow_with_autocorrelation():
    values, errors = estimates(normal_draws(0)).T
    assert values == pytest.approx([0, 1, -1.645, 0, 1.645], abs=0.08)
    density = stats.norm.pdf([-1.645, 0, 1.645])
    of_quantiles = np.sqrt([0.05 * 0.95, 0.25, 0.05 * 0.95]) / density
    assert errors == pytest.approx(np.array([1, 0.5**0.5, *of_quantiles]) / 100, rel=0.3)
    slow = estimates(normal_draws(0, rho=0.8))[:, 1]
    assert slow[0] / errors[0] == pytest.approx(3.0, rel=0.12)
    assert slow[1] / errors[1] == pytest.approx((1.64 / 0.36) ** 0.5, rel=0.15)


def test_differences_of_equal_laws_are_standard_normal():
    z = np.array([
        differences(estimates(normal_draws(2 * k, rho=0.5)), estimates(normal_draws(2 * k + 1))) for k in range(60)
    ])  # fmt: skip
    assert np.abs(z.mean(0)).max() < 4 / 60**0.5
    assert z.std(0) == pytest.approx(1.0, abs=0.35)


class Referenced:
    """Two numbers whose reference draws are N(0, 1)."""

    posterior = "made-up"
    without_variance = ("b",)

    def judged(self, theta):
        return theta

    def judged_names(self):
        return ["a", "b"]

    def reference_draws(self):
        return {"a": normal_draws(10), "b": normal_draws(11)}


def test_a_shift_and_a_wrong_spread_are_seen_and_a_moment_that_does_not_exist_is_left_out():
    same = np.stack([normal_draws(1), normal_draws(2)], 2)
    right, shifted, wide = (compared(Referenced(), each) for each in (same, same + 0.1, 1.1 * same))
    records = [{"task": "pdb-made-up", **right}]
    assert right["numbers"]["b"]["z"][:2] == [None, None]
    assert max(abs(z) for z, _ in adjusted(records).values()) < 4
    assert min(abs(shifted["numbers"]["a"]["z"][k]) for k in (0, 2, 3, 4)) > 3
    assert abs(wide["numbers"]["a"]["z"][1]) > 6
    assert abs(wide["numbers"]["a"]["z"][0]) < 3
    content = {"sampler": {"burn_in": 5, "pilots": 2}, "posteriors": records}
    assert "None remains" in page(content)
    content["posteriors"] = [{"task": "pdb-made-up", **shifted}]
    assert "- pdb-made-up, a, mean: z = " in page(content)


def test_the_page_is_what_the_file_gives():
    content = json.loads((ROOT / agreement.STORED).read_text())
    assert (ROOT / agreement.PAGE).read_text() == page(content)
    assert (ROOT / agreement.STORED).read_text() == agreement.as_lines(content)
    for record in content["posteriors"]:
        for number in record["numbers"].values():
            ours, theirs = (np.array(number[side], dtype=float) for side in ("ours", "reference"))
            assert np.array(number["z"], dtype=float) == pytest.approx(differences(ours, theirs), abs=0.05, nan_ok=True)


@dataclass(frozen=True, kw_only=True)
class Modes(DensityTask):
    """N(m, S) in two dimensions, and the same at -m with a density that is e^-gap of the other's."""

    protocols = (Protocol("default", "", {"smoke": 10}),)
    gap: float = 40.0
    box = 12.0

    def dim(self):
        return 2

    def energy(self, theta):
        x, y = theta[:, 0], theta[:, 1]
        first, second = ((x - s) ** 2 + 100 * (y - 0.1 * s - 0.1 * (x - s)) ** 2 for s in (8.0, -8.0))
        return -torch.logaddexp(-first / 2, -second / 2 - self.gap)


class Unbounded(Modes):
    """exp(-U) grows without a bound where y falls."""

    def energy(self, theta):
        return theta[:, 0] ** 2 * (-theta[:, 1]).exp() / 2 + theta[:, 1]


def laplace_of(task):
    return laplace(task.build([Streams(0, c, ("test",)) for c in range(12)], "cpu"))


def test_modes_are_found_with_their_covariance_and_negligible_ones_are_left_out():
    at = laplace_of(Modes())
    assert at.mean == pytest.approx([8.0, 0.8], abs=1e-4)
    assert at.modes == pytest.approx(np.tile([8.0, 0.8], (len(at.modes), 1)), abs=1e-3)
    assert at.root @ at.root.T == pytest.approx(np.array([[1, 0.1], [0.1, 0.02]]), rel=1e-4)
    both = laplace_of(Modes(gap=2.0))
    assert {round(x) for x in both.modes[:, 0]} == {8, -8}
    assert laplace_of(Unbounded()) is None


@pytest.mark.slow
def test_chains_that_start_in_a_negligible_mode_are_moved_and_those_of_two_modes_are_not():
    def sampled(task):
        hmc, lengths = HMC(**SAMPLER), Lengths(chains=12, burn_in=50, pilots=2, pilot_steps=60)
        return whitened_draws("modes", task, hmc, 200, lambda *_: None, lengths=lengths)

    theta = sampled(Modes())
    assert theta.mean((0, 1)) == pytest.approx([8.0, 0.8], abs=0.15)
    assert theta.std((0, 1)) == pytest.approx([1.0, 0.02**0.5], rel=0.1)
    assert (sampled(Modes(gap=0.0))[:, :, 0].min() < 0).any()
