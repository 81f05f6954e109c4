"""The tasks of docs/examples: as short as docs/tasks.md says, and all that a user gets who writes them."""

import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from support import bench, make_loop

from harness import Sampler
from harness.system.errors import DataError, PluginError, UsageError
from harness.tasks import Streams, data_root
from plugins.checking.suite import check_task
from plugins.schedules.constant import Constant

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
LINES = {"uci_classifier": 41, "mlp_csv": 55}
WINE = data_root() / "uci-regression" / "wine-quality-red" / "data.txt"


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rings(folder, rows):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 2))
    path = folder / "rings.csv"
    np.savetxt(path, np.column_stack([x, (x**2).sum(axis=1) > 1.4]), delimiter=",")
    return example("mlp_csv").MlpCsv(file=str(path), width=8)


@pytest.fixture
def csv(tmp_path):
    return rings(tmp_path, 200)


@pytest.mark.parametrize("name", LINES)
def test_an_example_is_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= LINES[name]


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "task", "step", "most"),
    [
        pytest.param("uci_classifier", "heart-disease", 1e-3, 30, marks=pytest.mark.slow),
        ("mlp_csv", "mlp-csv", 2e-4, 52),
    ],
)
def test_an_example_runs_and_is_a_row_of_the_leaderboard(file, task, step, most, tmp_path):
    given = [f"schedule.step_size={step}"]
    if file == "mlp_csv":
        if not WINE.exists():
            pytest.skip(f"no wine quality data at {WINE}")
        table = np.loadtxt(WINE)
        table[:, -1] -= table[:, -1].min()
        np.savetxt(tmp_path / "wine.csv", table, delimiter=",")
        given.append("task.file=wine.csv")
    plugin = ["--plugin", str(EXAMPLES / f"{file}.py")]
    words = ["run", "--sampler", "sgld", "--task", task, "--budget", "smoke", "--seeds", "0", "--set", *given]
    done = bench([*plugin, *words], tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(bench([*plugin, "report", "leaderboard", "--task", task, "--json"], tmp_path).stdout)
    means = {row["metric"]: row["mean"] for row in rows}
    assert {"test_error", "nll", "ece", "brier", "single_test_error", "single_nll"} <= means.keys()
    assert means["test_error"] < most
    assert 0.2 < means["nll"] < 1.2


@pytest.mark.data
def test_a_classifier_of_uci_keeps_the_laws():
    laws = ["mean of batches", "gradient is that of the energy", "prior counted once", "batch sizes agree"]
    results = check_task(example("uci_classifier").HeartDisease(), laws)
    assert all(result.outcome != "failed" for result in results), results


@pytest.mark.parametrize("rows", [200, 50])  # the laws use 60 rows for training where there are so many
def test_a_network_on_a_csv_file_keeps_the_laws(tmp_path, rows):
    csv = rings(tmp_path, rows)
    results = check_task(csv)
    assert all(result.outcome != "failed" for result in results), results
    with pytest.raises(UsageError, match=r"file = 'nowhere\.csv' is not a file"):
        type(csv)(file="nowhere.csv")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[:, 1].fill(0.1), "column 1 (from 0) is 0.1 in each row; leave it out"),
        (lambda t: t[7].__setitem__(0, np.nan), "row 7, column 0 (from 0) is nan"),
        (lambda t: t[7].__setitem__(1, np.inf), "row 7, column 1 (from 0) is inf"),
        (lambda t: t[7].__setitem__(2, 0.5), "row 7 (from 0) ends with 0.5, which is no class"),
        (lambda t: t[7].__setitem__(2, -1), "row 7 (from 0) ends with -1, which is no class"),
        (lambda t: t[7].__setitem__(2, 1e9), "row 7 (from 0) ends with 1e+09, which is no class"),
        (lambda t: t.resize((1, 3), refcheck=False), "it has 1 rows of 3 numbers"),
    ],
)
def test_a_csv_file_that_is_wrong_is_refused_by_row_and_column(tmp_path, change, message):
    path = rings(tmp_path, 50).file
    table = np.loadtxt(path, delimiter=",")
    change(table)
    np.savetxt(path, table, delimiter=",")
    with pytest.raises(DataError, match=re.escape(message)):
        example("mlp_csv").MlpCsv(file=path)


def test_wrong_data_ends_a_command_before_anything_is_written(tmp_path):
    rings(tmp_path, 100)
    table = np.loadtxt(tmp_path / "rings.csv", delimiter=",")
    table[:, -1] += 1
    np.savetxt(tmp_path / "rings.csv", table, delimiter=",")
    words = ["run", "--sampler", "sgld", "--task", "mlp-csv", "--budget", "smoke", "--seeds", "0", "--set"]
    given = ["task.file=rings.csv", "schedule.step_size=1e-4"]
    done = bench(["--plugin", str(EXAMPLES / "mlp_csv.py"), "--results", "r", *words, *given], tmp_path)
    assert done.returncode == 4, done.stderr
    assert "MlpCsv.arrays('train'): label: classes begin at 0, not 1: take that off" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("r/runs/**/spec.json"))


@dataclass(frozen=True, kw_only=True)
class ByFanIn(Sampler):
    """SGD whose step is divided by the inputs of each weight: what a layout is for."""

    needs = frozenset({"layout"})
    zero_temperature = None

    def step(self, theta, state, potential, h, T, noise):
        scale = potential.layout.fill(lambda block: 1 / block.fan_in, theta)
        return theta - h * scale * potential.grad(theta), state


class Undeclared(ByFanIn):
    needs = frozenset()


def test_a_sampler_that_needs_the_layout_moves_each_block_by_its_fan_in(csv):
    problem = csv.build([Streams(0, c, ("test",)) for c in range(2)], "cpu")
    start, batch = problem.initial(), {n: leaf[0] for n, leaf in problem.draw_batches(1).items()}
    blocks = problem.layout.split(start)
    assert {name: tuple(leaf.shape[1:]) for name, leaf in blocks.items()} == {
        "weight1": (8, 2), "bias1": (8,), "weight2": (2, 8), "bias2": (2,)
    }  # fmt: skip
    assert torch.equal(torch.cat([leaf.flatten(1) for leaf in blocks.values()], dim=1), start)
    loop = make_loop(csv, ByFanIn(), Constant(step_size=0.01), 1)
    loop.advance_block()
    moved = problem.layout.split((start - loop.theta) / 0.01)
    slopes = problem.layout.split(problem.gradient(start, batch))
    for name, fan_in in {"weight1": 2, "bias1": 1, "weight2": 8, "bias2": 1}.items():
        torch.testing.assert_close(moved[name], slopes[name] / fan_in, rtol=1e-2, atol=1e-2)


def test_a_layout_that_is_not_declared_as_a_need_is_refused(csv):
    with pytest.raises(PluginError, match="'layout' to `needs`"):
        make_loop(csv, Undeclared(), Constant(step_size=0.01), 1, chains=1)


@pytest.mark.parametrize(
    ("name", "override"), [("mean_loss", lambda *_: None), ("changes", lambda *_: None), ("precision", "bfloat16")]
)
def test_what_would_have_no_effect_on_an_mlp_is_refused(csv, name, override):
    task = type("Own", (type(csv),), {name: override})(file=csv.file)
    with pytest.raises(PluginError, match=rf"Own\.{name} would have no effect.* Network\(make\)"):
        task.build([Streams(0, 0)], "cpu")
