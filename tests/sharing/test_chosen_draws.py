"""A schedule that keeps the draws that are best on the seeds of the report: what `bench verify` makes of it."""

import json
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file
from support import forget

from harness.cli.app import run
from plugins.fresh_seeds import fresh_seeds
from tasks.synthetic.gaussian2d import Gaussian2D

pytestmark = pytest.mark.statistical

PLUGIN = '''
from dataclasses import dataclass, replace

import numpy as np

from harness import Info, Schedule, hook, param

KEPT = {kept}

@hook
def bench_schedules():
    return [Info("chosen-draws", "chosen_draws:ChosenDraws", "a constant step size; some draws are kept")]

@dataclass(frozen=True, kw_only=True)
class ChosenDraws(Schedule):
    """h_k = h for every k."""

    step_size: float = param(allowed="(0, inf)", meaning="h, multiplies the full-data gradient")

    def step_sizes(self, steps, steps_per_epoch):
        return np.full(steps, self.step_size)

    def trajectory(self, steps, steps_per_epoch):
        keep = np.zeros(steps, dtype=bool)
        keep[[k for k in KEPT if k < steps]] = True
        return replace(super().trajectory(steps, steps_per_epoch), keep=keep)
'''
ROW = ["run", "--sampler", "sgld", "--task", "gaussian2d", "--budget", "smoke", "--seeds", "0-4"]
SETTINGS = ["--set", "schedule.step_size=0.05"]


def fitted(draws):
    """The steps to keep of draws (S, n, D): single changes of a mask that lower the joint error of these seeds."""
    truth, rng = Gaussian2D().truth(), np.random.default_rng(0)
    angles = np.linspace(0, np.pi, 12, endpoint=False)
    directions = np.linalg.solve(np.linalg.cholesky(truth.covariance), (draws - truth.mean).swapaxes(1, 2))
    z = np.einsum("sdn,kd->skn", directions, np.stack([np.cos(angles), np.sin(angles)], axis=1))
    errors = np.concatenate([z, (z**2 - 1) / np.sqrt(2), *((z < q) - p for q, p in QUANTILES)], axis=1)  # (S, f, n)
    keep = np.ones(errors.shape[-1], dtype=bool)
    sums, best = errors.sum(axis=-1), np.inf
    for i in rng.integers(len(keep), size=20_000):
        moved = sums + errors[:, :, i] * (-1 if keep[i] else 1)
        count = keep.sum() + (-1 if keep[i] else 1)
        if count > len(keep) / 4 and (error := ((moved / count) ** 2).mean(axis=0).max()) < best:
            keep[i], sums, best = not keep[i], moved, error
    return np.flatnonzero(keep)


QUANTILES = [(-1.2816, 0.1), (-0.5244, 0.3), (0.0, 0.5), (0.5244, 0.7), (1.2816, 0.9)]


@pytest.fixture
def command(tmp_path, capsys):
    def said(results, *words):
        capsys.readouterr()
        code = run(["--results", str(tmp_path / results), "--json", *map(str, words)])
        out = capsys.readouterr()
        return code, json.loads(out.out or "[]"), out.err

    return said


QUERY = """select schedule, avg(value) as joint_error from result join metric using (attempt)
    where name = 'joint_error' group by all"""


def errors(rows):
    return {row["schedule"]: row["joint_error"] for row in rows}


def test_draws_that_were_chosen_on_the_seeds_of_the_report_do_not_rank(tmp_path, command):
    assert command("r", *ROW, *SETTINGS, "--set", "schedule=constant", "--draws", "all")[0] == 0
    kept = [load_file(path) for path in sorted(tmp_path.glob("r/runs/*/*/*/draws.safetensors"))]
    assert {len(one["draws"]) for one in kept} == {len(kept[0]["steps"])}
    chosen = kept[0]["steps"][fitted(np.stack([one["draws"][:, 0] for one in kept]).astype(float))] - 1
    plugin = tmp_path / "chosen_draws.py"
    plugin.write_text(PLUGIN.format(kept=chosen.tolist()))
    words = ["--plugin", plugin]
    assert command("r", *words, *ROW, *SETTINGS, "--set", "schedule=chosen-draws")[0] == 0
    first = errors(command("r", "sql", QUERY)[1])
    assert first["chosen-draws"] < first["constant"] / 3, "it leads by far on the seeds on which it was fitted"
    rows = [row for row in command("r", "report", "leaderboard")[1] if row["metric"] == "joint_error"]
    assert [(row["rank"], "chosen-draws" in row["label"]) for row in rows] == [(1, True), (2, False)], rows

    out, board = tmp_path / "out", tmp_path / "board"
    assert command("r", *words, "export", "--out", out)[0] == 0
    code, rows, said = command("mine", *words, "verify", out, "--into", board, "--salt", "abc")
    assert (code, sorted(row["verified"] for row in rows)) == (1, ["refused", "run here"]), said
    (refused,) = (row["how"] for row in rows if row["verified"] == "refused")
    assert refused.startswith("fresh ones have other numbers: ")

    fresh = ",".join(map(str, fresh_seeds(5, "abc")))
    seeds = [fresh if word == "0-4" else word for word in ROW]
    assert command("fresh", *words, *seeds, *SETTINGS, "--set", "schedule=chosen-draws")[0] == 0
    assert errors(command("fresh", "sql", QUERY)[1])["chosen-draws"] > 3 * first["chosen-draws"]


TABLE = '''
from dataclasses import dataclass

import torch

from harness import Info, hook
from plugins.samplers.sgld import SGLD

DRAWS = torch.tensor({draws}, dtype=torch.float64)

@hook
def bench_samplers():
    return [Info("carries-draws", "carries_draws:CarriesDraws", "draws of a table where theta has two coordinates")]

@dataclass(frozen=True, kw_only=True)
class CarriesDraws(SGLD):
    """theta_k is entry k of a table."""

    def init(self, theta, potential, h, T, noise):
        return {{"k": {start}}}

    def step(self, theta, state, potential, h, T, noise):
        moved, _ = super().step(theta, {{}}, potential, h, T, noise)
        if theta.shape[1] != 2:
            return moved, dict(state)
        return DRAWS[state["k"][:, 0].long() % len(DRAWS)] + 0 * moved, {{"k": state["k"] + 1}}
'''


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ("400 * noise.uniform((len(theta), 1))", "moved ones have other numbers: "),
        ("torch.zeros_like(theta[:, :1])", "its runs on 5 seeds are all the same"),
    ],
)
def test_a_table_of_draws_is_found_on_fresh_seeds_or_where_theta_is_moved(tmp_path, command, start, reason):
    truth = Gaussian2D().truth()
    draws = np.random.default_rng(0).multivariate_normal(truth.mean, truth.covariance, size=400)
    forget("carries_draws")
    plugin = tmp_path / "carries_draws.py"
    plugin.write_text(TABLE.format(draws=draws.round(4).tolist(), start=start))
    row = ["carries-draws" if word == "sgld" else word for word in ROW]
    words = ["--plugin", plugin]
    code, _, said = command("r", *words, *row, *SETTINGS)
    assert code == 0, said
    assert command("r", *words, "export", "--out", tmp_path / "out")[0] == 0
    code, rows, said = command("mine", *words, "verify", tmp_path / "out", "--salt", "abc")
    assert (code, [row["verified"] for row in rows]) == (1, ["refused"]), rows[0]["how"]
    assert rows[0]["how"].startswith(reason)
    assert "carries_draws" not in sys.modules, "the process that judges does not import what it judges"


def test_a_moved_row_is_verified_as_others_are(tmp_path, command):
    assert command("r", *ROW, *SETTINGS, "--moved")[0] == 0
    assert command("r", "export", "--out", tmp_path / "out")[0] == 0
    code, rows, said = command("mine", "verify", tmp_path / "out", "--salt", "abc")
    assert (code, [row["verified"] for row in rows]) == (0, ["run here"]), (said, rows[0]["how"])
