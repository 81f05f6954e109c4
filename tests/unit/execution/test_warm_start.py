"""Chains that start at the positions where an optimiser ends."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from sessions import finish, job, session, sessions
from support import run_loop

from harness import param
from harness.cli.app import run as bench
from harness.contracts.randomness import Streams
from harness.contracts.registry import registry
from harness.engine.loop import Loop
from harness.engine.stepping.execution_mode import obstacle
from harness.engine.stepping.making import UncompiledError
from harness.results.ledger.ledger import Ledger
from harness.runs import plugin_metadata
from harness.runs.plan import RunRequest, plan
from harness.runs.settings import find_pair, resolve
from harness.system.errors import UsageError
from harness.tasks import DataTask, StatedSettings, StatedValue
from plugins.samplers.adam import Adam
from plugins.samplers.hmc import HMC
from plugins.samplers.sgd import SGD
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant

WARM = {"run.warm_start": "adam", "run.warm_passes": "2", "schedule.step_size": "0.01", "task.noise": "2"}


@dataclass(frozen=True, kw_only=True)
class Points(DataTask):
    """The mean of 20 points in two dimensions, on batches of 3: 7 steps an epoch."""

    batch: int = param(3, "[1, 20]", "rows in a minibatch", source="ours")
    prior_precision = 1.0

    def dim(self):
        return 2

    def arrays(self, part):
        return {"x": np.random.default_rng(0).normal(3, 1, size=(20, 2))}

    def log_likelihood(self, theta, rows):
        return -((rows["x"] - theta[:, None]) ** 2).sum(2) / 2


def path(step_size, steps, task, *, keep=True):
    whole = Constant(step_size=step_size).trajectory(steps, task.steps_per_epoch())
    return whole if keep else replace(whole, keep=~whole.keep, temperature=0 * whole.temperature)


def loop(sampler, steps, warm=None, chains=(0, 1, 2), mode="plain"):
    """`steps` steps after `warm`, (optimiser, step size, steps)."""
    task, streams = Points(), [Streams(5, chain, ("points",)) for chain in chains]
    first = (warm[0], path(*warm[1:], task, keep=False)) if warm else None
    return Loop(task, sampler, path(0.01, steps, task), streams, len(chains), warm_start=first, mode=mode)


def at_zero(warm):
    while warm.position < 0:
        warm.advance_block()
    return warm


@pytest.mark.parametrize("optimiser", [Adam(), SGD()])
def test_the_first_positions_are_those_of_a_run_of_the_optimiser(optimiser):
    started = at_zero(loop(SGLD(), 10, (optimiser, 0.01, 40)))
    assert torch.equal(started.theta, run_loop(loop(optimiser, 40)).theta)


class Unwritten(Adam):
    """An optimiser whose step cannot be written as code."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(torch.fft.ifft(torch.fft.fft(theta)).real, state, potential, h, T, noise)


def test_a_run_whose_warm_start_cannot_be_compiled_is_not_begun():
    assert loop(SGLD(), 10, (Unwritten(), 0.01, 40)).executed == "plain"
    with pytest.raises(UncompiledError, match="fft" if obstacle() is None else "compiler"):
        loop(SGLD(), 10, (Unwritten(), 0.01, 40), mode="compiled")


def test_minibatches_go_on_where_the_warm_start_ends():
    """An optimiser that starts from itself is one run of both lengths."""
    both = run_loop(loop(SGD(), 25, (SGD(), 0.01, 12)))
    assert torch.equal(both.theta, run_loop(loop(SGD(), 37)).theta)


def test_chains_start_apart_and_do_not_depend_on_each_other():
    together = run_loop(loop(SGLD(), 10, (Adam(), 0.01, 40)))
    for chain in range(3):
        alone = run_loop(loop(SGLD(), 10, (Adam(), 0.01, 40), chains=(chain,)))
        assert torch.equal(together.theta[chain], alone.theta[0])
    assert len({tuple(row) for row in at_zero(loop(SGLD(), 10, (Adam(), 0.01, 40))).theta.tolist()}) == 3


def test_the_noise_of_the_sampler_is_that_of_a_run_without_a_warm_start():
    warm, plain = loop(SGLD(), 10, (Adam(), 0.01, 40)), loop(SGLD(), 10)
    at_zero(warm)
    assert torch.equal(warm.stage.noise.draw(5, heated=True)[0], plain.stage.noise.draw(5, heated=True)[0])


def test_every_gradient_of_the_warm_start_counts():
    warm, plain = loop(HMC(leapfrog=3), 10, (Adam(), 0.01, 40)), loop(HMC(leapfrog=3), 10)
    share = Points().batch_terms() / Points().terms()
    assert 0 < share < 1
    assert warm.cost.at_start - plain.cost.at_start == pytest.approx(40 * share)
    assert warm.cost.per_step == plain.cost.per_step
    assert [warm.spent(steps) for steps in (-40, -10, 0)] == pytest.approx([0, 30 * share, 40 * share])


@pytest.mark.parametrize("position", [-23, -1, 0, 4])
def test_a_run_goes_on_from_any_step_with_the_same_bits(position):
    warm = (Adam(), 0.01, 30)
    whole, first, second = (loop(SGLD(), 10, warm) for _ in range(3))
    for each in (whole, first, second):  # blocks of one step
        for stage in each.stages:
            stage.ends = {k: k + 1 for k in range(len(stage.trajectory))}
    run_loop(whole)
    while first.position < position:
        first.advance_block()
    second.restore([first.checkpoint(first.runs[0])])
    assert second.position == position
    run_loop(second)
    assert torch.equal(second.theta, whole.theta)
    assert second.runs[0].kept == whole.runs[0].kept == 10


def warm_session(ledger, **given):
    return session(ledger, **{**WARM, **given})


def test_a_stopped_warm_start_goes_on_from_its_checkpoint(ledger, tmp_path):
    block = warm_session(ledger, **{"run.warm_passes": "25"})
    block.advance()
    assert block.loop.position == -1500
    told = block.progress()
    assert (told["position"], told["steps"]) == (1000, 5500)
    assert told["rate"] == pytest.approx(told["position"] / told["seconds"])
    block.suspend("cancelled")
    resumed = warm_session(ledger, **{"run.warm_passes": "25"})
    assert (resumed.loop.position, resumed.attempts[0].id) == (-1500, block.attempts[0].id)
    other = Ledger(tmp_path / "whole")
    whole = warm_session(other, **{"run.warm_passes": "25"})
    results = [finish(block).result() for block in (resumed, whole)]
    assert results[0]["files"]["draws.safetensors"] == results[1]["files"]["draws.safetensors"]
    assert results[0]["passes"] == pytest.approx(25 + 30)
    assert results[0]["steps_done"] == 3000


def test_new_runs_do_not_join_one_that_was_stopped_at_the_end_of_its_warm_start(ledger):
    warm = {"run.warm_passes": "10"}
    block = warm_session(ledger, **warm)
    while block.loop.position < 0:
        block.advance()
    assert block.loop.position == 0
    block.suspend("cancelled")
    opened = sessions(ledger, job(ledger, seeds=(0, 1), **{**WARM, **warm}))
    assert [(each.specs[0].seed, each.loop.position) for each in opened] == [(1, -1000), (0, 0)]


def test_a_chain_lost_in_the_warm_start_costs_what_was_done(ledger):
    # a gradient of the warm start is infinite at once: the step is past all numbers
    result = finish(warm_session(ledger, **{"run.warm_step_size": "1e308", "run.warm_passes": "25"})).result()
    assert result["status"] == "diverged"
    assert "of the warm start" in result["reason"]
    assert (result["steps_done"], result["passes"]) == (0, pytest.approx(10))


def planned(tmp_path, sampler="sgld", task="mixture5", budget="passes=10", **given):
    asked = RunRequest([sampler], [task], seeds=[0], chains=1, budget=budget, given=given)
    return plan(registry(), asked, Ledger(tmp_path))[0]


def test_the_budget_pays_and_the_key_has_it(tmp_path):
    plain, warm = planned(tmp_path, **{"schedule.step_size": "0.01"}), planned(tmp_path, **WARM)
    same = planned(tmp_path, **{name: value for name, value in WARM.items() if "warm" not in name})
    assert (plain.spec.steps, warm.spec.steps, warm.passes) == (1000, 800, pytest.approx(10))
    assert "warm_start" not in plain.spec.canonical()
    assert len({warm.spec.key, same.spec.key, planned(tmp_path, **WARM, **{"run.warm_step_size": "0.1"}).spec.key}) == 3
    assert warm.spec.warm_step_size == 1e-3
    assert warm.spec.origins["run.warm_step_size"].source.startswith("adam: ")
    assert planned(tmp_path, budget="steps=1000", **WARM).spec.budget == "passes=12"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({**WARM, "run.warm_passes": "10"}, "takes 10 data passes and the whole budget is 10"),
        ({**WARM, "run.warm_passes": "10"}, "run.warm_start=none leaves it out"),
        ({**WARM, "run.warm_passes": "0.005"}, "less than the 0.01 data passes of one step"),
        ({**WARM, "run.warm_start": "hmc"}, "run.warm_start = hmc is not an optimiser; choose one of adam"),
        ({**WARM, "run.warm_start": "adma"}, "did you mean adam"),
        ({"run.warm_start": "adam"}, "needs its length"),
        ({"run.warm_passes": "20"}, "a setting of a warm start"),
        ({**WARM, "run.warm_passes": "-1"}, "outside (0, inf)"),
    ],
)
def test_a_warm_start_that_cannot_be_is_refused(tmp_path, given, message):
    with pytest.raises(UsageError) as refused:
        planned(tmp_path, **given)
    assert message in str(refused.value)


def test_a_command_may_leave_out_or_replace_the_warm_start_of_a_protocol(tmp_path):
    def start(**given):
        spec = planned(tmp_path, task="energy", budget="quick", **given).spec
        return spec.warm_start, spec.warm_passes, spec.warm_step_size, spec.steps

    assert start() == ("adam", 200, 0.01, 1581)
    assert start(**{"run.warm_passes": "100"}) == ("adam", 100, 0.01, 1791)
    assert start(**{"run.warm_start": "adam"}) == start()
    assert start(**{"run.warm_start": "sgmcmc-bench:adam"})[1:] == start()[1:]
    assert start(**{"run.warm_start": "none"}) == (None, None, None, 2000)
    # the length and the step size of one optimiser are not those of another
    sgd = {"run.warm_start": "sgd", "run.warm_passes": "100"}
    assert start(**sgd) == ("sgd", 100, pytest.approx(0.2 * 2 / 8e6), 1791)
    with pytest.raises(UsageError, match=r"sgd needs its length; give it by --set run\.warm_passes=20"):
        start(**{"run.warm_start": "sgd"})


def test_a_budget_that_the_warm_start_nearly_takes_says_what_is_spent(tmp_path):
    with pytest.raises(UsageError, match=r"less than one step after the 199\.\S+ data passes of the warm start"):
        planned(tmp_path, "hmc", "airfoil", "passes=200")


def test_a_protocol_need_not_state_the_step_size_of_its_warm_start(tmp_path, monkeypatch):
    stated, settings = plugin_metadata.protocols, {"run.warm_start": "adam", "run.warm_passes": 20}
    monkeypatch.setattr(plugin_metadata, "protocols", lambda t: [replace(p, settings=settings) for p in stated(t)])
    spec = planned(tmp_path, budget="passes=30").spec
    assert (spec.warm_start, spec.warm_passes, spec.warm_step_size) == ("adam", 20, 1e-3)


@pytest.mark.parametrize(
    ("paper", "started"),
    [
        ({}, ("adam", 10, 1e-3)),
        ({"run.warm_start": None}, (None, None, None)),
        ({"run.warm_start": "sgd", "run.warm_passes": 30, "run.warm_step_size": 0.1}, ("sgd", 30, 0.1)),
        ({"run.warm_start": "adam", "run.warm_passes": 30}, ("adam", 10, 1e-3)),
    ],
)
def test_the_short_budgets_of_a_protocol_shorten_its_own_warm_start_alone(paper, started):
    settings = {"run.warm_start": "adam", "run.warm_passes": 20, "run.warm_step_size": 1e-3}
    protocol = {"settings": settings, "budget_settings": {"quick": {"run.warm_passes": 10}}}
    values = {name: StatedValue(value, "paper") for name, value in paper.items()}
    pair = find_pair(registry(), "sgld", "mixture5")
    stated = StatedSettings("m", "t", "p", "a-paper", values)
    pair = replace(pair, protocol=replace(pair.protocol, **protocol), stated=stated)
    run = resolve(registry(), pair, {}, "quick").run
    assert (run["warm_start"], run["warm_passes"], run["warm_step_size"]) == started


def test_an_optimiser_without_a_known_step_size_asks_for_one(tmp_path):
    with pytest.raises(UsageError, match=r"no step size of sgd is known .* run\.warm_step_size=H"):
        planned(tmp_path, task="landsat", budget="smoke", **{"run.warm_start": "sgd", "run.warm_passes": "1"})


def test_rows_and_runs_say_how_they_started(tmp_path, capsys):
    where = ["--results", str(tmp_path / "r"), "--json"]
    words = ["run", "--sampler", "sgld", "--task", "gaussian2d", "--budget", "passes=5", "--seeds", "0"]
    assert bench([*where, *words]) == 0
    assert bench([*where, *words, "--set", "run.warm_start=adam", "run.warm_passes=1"]) == 0
    capsys.readouterr()
    assert bench([*where[:2], "report", "leaderboard", "--columns", "method,status"]) == 0
    assert "started by adam" in capsys.readouterr().out
    assert bench([*where, "ls", "runs"]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert {run["passes"] for run in runs} == {5.0}
    shown = []
    for run in runs:
        assert bench([*where, "show", run["run_key"][:16]]) == 0
        settings = {s["setting"]: s["value"] for s in json.loads(capsys.readouterr().out)[0]["settings"]}
        shown.append([settings.get(f"run.{name}") for name in ("warm_start", "warm_passes", "warm_step_size")])
    assert sorted(shown, key=str) == [["adam", "1", 0.001], [None] * 3]
