"""What gradients of a density with artificial noise cost, in the plan and in the run."""

import dataclasses
import json

import pytest
from support import make_loop

from harness.cli.app import run as bench
from harness.contracts.registry import load, registry
from harness.results.ledger.ledger import Ledger
from harness.runs.plan import RunRequest, plan
from harness.runs.plugin_metadata import protocols
from harness.system.errors import UsageError
from harness.tasks import DensityTask, Streams
from plugins.samplers.amagold import AMAGOLD
from plugins.samplers.hmc import HMC
from plugins.samplers.mclmc import MCLMC
from plugins.samplers.sgld import SGLD
from plugins.samplers.sgld_cv import SGLDCV, SGLDSVRG
from plugins.schedules.constant import Constant
from tasks.synthetic.gaussian2d import Gaussian2D

DENSITIES = {
    offer.name: offer
    for offer in registry().offers("tasks")
    if isinstance(offer.target, str) and offer.target.startswith("tasks.synthetic")
}


@pytest.mark.parametrize(
    ("sampler", "noise", "at_start", "per_step", "full"),
    [
        (SGLD(), 1.0, 0, 0.01, False),
        (SGLD(), 16.0, 0, 0.01, False),
        (SGLD(), 0.0, 0, 1, True),
        (HMC(leapfrog=10), 1.0, 1, 10, True),
        (HMC(leapfrog=10), 0.0, 1, 10, True),
        (MCLMC(), 1.0, 1, 2, True),
        (AMAGOLD(turns=10), 1.0, 1, 1.1, False),
        (SGLDCV(descent=30), 1.0, 31, 0.02, False),
        (SGLDSVRG(period=50), 1.0, 1, 0.04, False),
        (SGLDSVRG(period=50), 0.0, 1, 2.02, True),
    ],
)
def test_noisy_gradients_cost_a_hundredth_of_a_pass_and_full_ones_a_whole_one(sampler, noise, at_start, per_step, full):
    loop = make_loop(Gaussian2D(noise=noise), sampler, Constant(step_size=0.01), 4)
    assert (loop.cost.at_start, loop.cost.per_step) == pytest.approx((at_start, per_step))
    assert loop.stages[-1].full_gradients == full


@pytest.mark.parametrize("name", DENSITIES)
def test_a_named_budget_makes_its_gradients_as_noisy_steps_and_a_hundredth_as_full_ones(name, tmp_path):
    """The budget counts gradients on the task's batch, so that noisy samplers make as many steps as with any price."""
    gradients = protocols(DENSITIES[name])[0].budgets["paper"]

    def planned(sampler, **given):
        settings = {"schedule": "constant", "schedule.step_size": 1e-3, **given}
        asked = RunRequest([sampler], [name], [0], 1, "paper", settings)
        return plan(registry(), asked, Ledger(tmp_path))[0]

    noisy, full = planned("sgld"), planned("hmc", **{"sampler.leapfrog": 5})
    assert noisy.spec.steps == gradients
    assert noisy.passes == pytest.approx(gradients / 100)
    assert full.spec.steps == gradients // 100 // 5
    assert planned("sgld", **{"task.noise": 0}).passes == pytest.approx(gradients)


@pytest.mark.parametrize("name", DENSITIES)
def test_every_density_has_the_setting_noise_in_units_of_its_own(name):
    task = load(DENSITIES[name].target)
    assert task.gradient_noise > 0
    sds = {factor: task(noise=factor).build([Streams(0, 0)], "cpu").sd for factor in (0.0, 1.0, 16.0)}
    assert sds == {factor: factor * task.gradient_noise for factor in sds}
    assert task().noise == 1


def test_a_density_without_noise_has_no_cheap_gradients():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Exact(DensityTask):
        def dim(self):
            return 2

    assert Exact().priced_terms() == 1


def test_a_budget_that_full_gradients_use_up_is_refused_before_the_first_step(tmp_path):
    asked = RunRequest(["sgld-cv"], ["gaussian2d"], [0], 1, "smoke")
    with pytest.raises(UsageError, match=r"'smoke' is less than one step after the 101 data passes that sgld-cv"):
        plan(registry(), asked, Ledger(tmp_path))


def test_rows_say_whether_their_gradients_were_full(tmp_path, capsys):
    where = ["--results", str(tmp_path / "r"), "--json"]
    words = ["--task", "gaussian2d", "--budget", "passes=50", "--seeds", "0-1", "--set", "schedule.step_size=0.01"]
    assert bench([*where, "run", "--sampler", "sgld,mclmc", *words]) == 0
    capsys.readouterr()
    assert bench([*where, "report", "leaderboard"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["method"], row["full_gradients"]) for row in rows} == {("sgld", False), ("mclmc", True)}
    assert bench([*where[:2], "report", "leaderboard", "--columns", "method,gradients"]) == 0
    shown = capsys.readouterr().out
    assert "full" in shown
    assert "stochastic" in shown
