"""Runs with several steps for each of the schedule: the same Brownian path, draws at the same times, ordinary rows."""

import dataclasses

import numpy as np
import pytest
import torch
from support import run_loop

from harness.contracts.randomness import Slot, Streams, chain_noise
from harness.contracts.registry import registry
from harness.engine.loop import Loop
from harness.results.ledger.ledger import Ledger
from harness.results.spec import from_record
from harness.runs.plan import RunRequest, plan
from harness.system.errors import UsageError
from plugins.checking.gaussian import GaussianTask
from plugins.samplers.sgld import SGLD
from plugins.samplers.sgld_cv import SGLDSVRG
from plugins.schedules.constant import Constant
from plugins.schedules.cyclical import Cyclical

pytestmark = pytest.mark.numbers


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_noise_of_the_parts_sums_up_to_that_of_the_step(dtype):
    slots = [Slot("normal", (3,), dtype), Slot("uniform", (1,), dtype)]
    streams = [Streams(seed, 0) for seed in (0, 1)]
    whole, parts = (chain_noise(streams, "cpu", dtype, slots, substeps) for substeps in (1, 4))
    assert parts.block_length(3) == 4 * whole.block_length(3)
    for steps in (7, 5):
        (normal, uniform), (fine, finer) = whole.draw(steps, heated=True), parts.draw(4 * steps, heated=True)
        assert torch.allclose(fine.unflatten(0, (steps, 4)).sum(1) / 2, normal, atol=1e-6)
        assert torch.equal(finer[::4], uniform)
        assert fine.unique().numel() == fine.numel()
    saved = parts.state()
    after = parts.draw(8, heated=True)
    parts.load(saved)
    assert all(torch.equal(a, b) for a, b in zip(after, parts.draw(8, heated=True), strict=True))


def test_the_noise_of_the_parts_is_standard_normal_and_independent():
    noise = chain_noise([Streams(0, 0)], "cpu", torch.float64, [Slot("normal", (50,), torch.float64)], 4)
    drawn = noise.draw(4000, heated=True)[0][:, 0].numpy()
    assert abs(drawn.var() - 1) < 4 * np.sqrt(2 / drawn.size)
    assert all(abs((drawn[lag:] * drawn[:-lag]).mean()) < 4 / np.sqrt(drawn.size) for lag in (1, 2, 3, 4))


FLAT = GaussianTask(curvatures=(1e-300, 1e-300), spread=0.0)
"""Without a force, a step of sgld is its noise."""


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Let runs of few steps have several blocks of noise."""
    monkeypatch.setattr("harness.contracts.randomness.NOISE_BLOCK", 50)


def loop(substeps, schedule=None, steps=120, task=FLAT, sampler=None, burn_in=0, thin=1):
    path = (schedule or Constant(step_size=0.1)).trajectory(steps, 1).with_burn_in(burn_in, thin).divided(substeps)
    return Loop(task, sampler or SGLD(), path, [Streams(seed, 0) for seed in (0, 1)], 1)


CYCLES = Cyclical(step_size=0.1, cycles=3, beta=0.3)


@pytest.mark.parametrize(
    ("schedule", "burn_in", "thin"), [(None, 0, 1), (None, 33, 7), (CYCLES, 0, 1), (CYCLES, 61, 3)]
)
def test_the_paths_meet_at_every_draw_in_every_block(schedule, burn_in, thin):
    paths = [run_loop(loop(m, schedule, burn_in=burn_in, thin=thin)) for m in (1, 2, 4)]
    drawn = [torch.stack([run.observer.draws() for run in one.runs]) for one in paths]
    assert drawn[0].std() > 1
    for one in drawn[1:]:
        assert torch.allclose(one, drawn[0], atol=1e-9)


def test_a_restored_run_with_substeps_goes_on_bit_for_bit():
    whole, first, second = (loop(2, task=GaussianTask(variance=1.0)) for _ in range(3))
    run_loop(whole)
    first.advance_block()
    second.restore([first.checkpoint(run) for run in first.runs])
    run_loop(second)
    assert torch.equal(whole.theta, second.theta)


def test_a_state_is_refreshed_at_the_same_times():
    """A block ends there, so paths that meet show it; the price of a step has its share of a refresh."""
    sampler = SGLDSVRG(period=7)
    loops = [loop(m, sampler=sampler, task=dataclasses.replace(FLAT, curvatures=(1e-300,))) for m in (1, 4)]
    assert [4 * end for end in loops[0].stage.ends.values()] == [*loops[1].stage.ends.values()]
    each = [one.cost.per_step for one in loops]
    assert 4 * each[1] - each[0] == pytest.approx(3 * (each[0] - 1 / loops[0].stage.refresh_every))


def planned(tmp_path, **given):
    request = RunRequest(["sgld"], ["mixture5"], [0], budget="steps=1000", given=given)
    (one,) = plan(registry(), request, Ledger(tmp_path))
    return one


def test_a_plan_counts_the_steps_that_are_taken(tmp_path):
    given = {"run.burn_in": "0.1", "run.thin": "5", "schedule.step_size": "0.1"}
    whole, parts = planned(tmp_path, **given), planned(tmp_path, **given, **{"run.substeps": "4"})
    spec = parts.spec
    assert "substeps" not in whole.spec.canonical()
    assert (spec.steps, spec.burn_in, spec.thin) == (4000, 400, 20)
    assert (spec.budget, parts.passes) == (whole.spec.budget, 4 * whole.passes)
    assert from_record(spec.to_json()) == spec
    assert planned(tmp_path, **given, **{"run.substeps": "1"}).spec.key == whole.spec.key
    for wrong in ("3", "0", "128"):
        with pytest.raises(UsageError, match="substeps"):
            planned(tmp_path, **given, **{"run.substeps": wrong})
    for wrong in ({"steps": 4001}, {"substeps": 3}, {"substeps": 0}, {"substeps": 2**20}, {"thin": 2}):
        with pytest.raises(ValueError, match="possible run"):
            from_record(dataclasses.replace(spec, **wrong).to_json())
    with pytest.raises(UsageError, match="more than 100,000,000 steps"):
        list(plan(registry(), RunRequest(["sgld"], ["mixture5"], [0], budget="steps=100000000",
                                         given={**given, "run.substeps": "2"}), Ledger(tmp_path)))  # fmt: skip
