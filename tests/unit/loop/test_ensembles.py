"""Ensembles: all particles are draws, all of their gradients cost, and what needs a series of draws has no value."""

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from harness.contracts.task import Cost
from harness.engine.run_state import RunState
from harness.results.ledger.ledger import Ledger
from harness.tasks import Truth
from plugins.checking.law import trajectory
from tasks.regression.series import SeriesObserver

PLUGIN = """
from __future__ import annotations

from dataclasses import dataclass

import torch

from harness import Info, Sampler, hook, param


@dataclass(frozen=True, kw_only=True)
class Flock(Sampler):
    particles: int = param(3, "[1, 64]", "P, Langevin chains, each on its own", source="ours")
    wrong: str = param("", choices=("", "few", "turned", "unpaid"), meaning="what `ensemble` does wrong", source="ours")

    @property
    def gradients_per_step(self):
        return 1 if self.wrong == "unpaid" else self.particles

    def init(self, theta, potential, h, T, noise):
        return {"others": torch.stack([theta * (p + 1) for p in range(1, self.particles)], 1)}

    def step(self, theta, state, potential, h, T, noise):
        moved = [
            x - h * potential.grad(x) + (2 * h * T).sqrt() * noise.normal(x)
            for x in [theta, *state["others"].unbind(1)]
        ]
        return moved[0], {"others": torch.stack(moved[1:], 1)}

    def ensemble(self, theta, state):
        everything = torch.cat([theta[:, None], state["others"]], 1)
        return {"": everything, "few": everything[:, 1:], "turned": everything.flip(1)}[self.wrong]


@hook
def bench_samplers():
    return [Info("flock", "flock_sampler:Flock")]
"""
H, STEPS = 0.05, 4000
"""gaussian2d without noise: U = theta' S^-1 theta / 2."""
BASE = ["--task", "gaussian2d", "--seeds", "0", "--chains", "2", "--set", "task.noise=0"]


@pytest.fixture
def bench(bench_with):
    return bench_with("flock_sampler", PLUGIN)


def attempt(tmp_path, record):
    return Ledger(tmp_path / "r").attempts(record["run_key"])[0]


@pytest.mark.parametrize("mode", ["plain", pytest.param("compiled", marks=pytest.mark.slow)])
def test_every_particle_is_a_draw_and_pays_for_its_gradients(bench, tmp_path, mode):
    words = ["--sampler", "flock", *BASE, "--set", f"schedule.step_size={H}", "--set", f"run.compile={mode}"]
    code, (cold,), _ = bench("run", *words, "--budget", "steps=50", "--set", "schedule.temperature=0")
    assert code == 0
    result = attempt(tmp_path, cold).result()
    kept = load_file(attempt(tmp_path, cold).path / "draws.safetensors")
    assert (result["draws_kept"], result["draws_stored"], result["passes"]) == (150, 150, 150)
    assert kept["draws"].shape == (150, 2, 2)
    assert kept["steps"].tolist() == np.arange(1, 51).repeat(3).tolist()
    first, others = kept["draws"][0::3], [kept["draws"][p::3] for p in (1, 2)]
    for p, other in enumerate(others, 2):  # the gradient is linear, and without noise the paths are multiples
        assert np.allclose(other, p * first, rtol=1e-5)
    alone = bench("run", "--sampler", "sgld", *words[2:], "--budget", "steps=50", "--set", "schedule.temperature=0")[1]
    path = load_file(attempt(tmp_path, alone[0]).path / "draws.safetensors")["draws"]
    assert np.allclose(first, path, rtol=1e-5)


def test_the_law_of_independent_particles_is_found_and_rescored(bench, tmp_path):
    words = ["--sampler", "flock", *BASE, "--set", f"schedule.step_size={H}", "--set", "run.burn_in=0.1"]
    _, (record,), _ = bench("run", *words, "--budget", f"passes={3 * STEPS}")
    assert record["steps"] == STEPS
    done = attempt(tmp_path, record)
    particles = load_file(done.path / "draws.safetensors")["draws"].reshape(-1, 3, 2, 2)
    _, (single,), _ = bench("run", "--sampler", "sgld", *words[2:-2], "--chains", 6, "--budget", f"steps={STEPS}")
    chains = load_file(attempt(tmp_path, single).path / "draws.safetensors")["draws"]
    for p in range(3):
        assert np.allclose(particles[:, p].std(axis=(0, 1)), chains[400:].std(axis=(0, 1)), rtol=0.15)
    assert abs(np.corrcoef(particles[:, 0, 0, 0], particles[:, 1, 0, 0])[0, 1]) < 0.3
    metrics = {metric["name"]: metric["value"] for metric in done.result()["metrics"]}
    _, rescored, _ = bench("rescore", "--metric", "mean_error")
    assert all(abs(row["before"] - row["after"]) < 1e-5 for row in rescored)
    assert metrics["mean_error"] is not None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("few", "Flock.ensemble: torch.float64 of shape (2, 2, 2) is not torch.float64 (2, 3, 2)"),
        ("turned", "Flock.ensemble: its first particle is not theta"),
        ("unpaid", "has 3 particles and makes 1 gradient calls a step: all particles are draws"),
    ],
)
def test_a_wrong_ensemble_is_refused(bench, wrong, told):
    short = ["--set", f"schedule.step_size={H}", "--budget", "steps=9", "--set", f"sampler.wrong={wrong}"]
    code, _, err = bench("run", "--sampler", "flock", *BASE, *short)
    assert (code, told in err) == (3, True)


def test_without_a_series_there_is_no_effective_size_and_whole_steps_are_stored():
    truth = Truth.normal(np.zeros(2), np.eye(2))
    path = trajectory(np.ones(8), 1.0)
    draws = torch.randn((24, 2, 2), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for particles, known in ((1, True), (3, False)):
        seen = path.shared(particles)
        run_of = RunState(slice(0, 2), SeriesObserver(truth, 2, seen, Cost(0.0, 1.0)), 2, particles)
        for block in draws[: 8 * particles].split(2 * particles):
            run_of.take(block, torch.zeros(block.shape[:2]), np.arange(len(block)))
        metrics = run_of.observer.outcome().metrics
        assert ("ess_bulk" in metrics, "rhat" in metrics, "mean_error" in metrics) == (known, known, True)
        kept = draws[: 8 * particles].unflatten(0, (8, particles))[::2].flatten(0, 1)
        assert np.array_equal(run_of.fetch(), kept.float().numpy())


def test_a_step_of_an_ensemble_is_shared_out_among_its_particles():
    path = trajectory([0.1, 0.2], 1.0, keep=np.array([True, False]))
    shared = path.shared(3)
    assert (shared.particles, shared.keep.tolist()) == (3, [True] * 3 + [False] * 3)
    assert Cost(2.0, 6.0).shared(3).after(np.array([3.0, 6.0])).tolist() == [8.0, 14.0]
    assert path.shared(1) is path
