"""`bench rescore` on real runs of a task whose metrics change."""

import json
import shutil

import pytest
from safetensors.numpy import load_file, save_file
from support import forget

from harness.cli.app import run
from harness.results.ledger.attempt import checksum
from harness.results.ledger.ledger import Ledger
from harness.results.store import Store, connection, schema
from harness.runs.source import source_hash
from harness.system.files import seal_holds, sealed

PLUGIN = """
from dataclasses import dataclass, replace

from harness import Info, hook
from harness.tasks import Metric, Outcome
from plugins.samplers.sgld import SGLD
from tasks.synthetic.mixture5 import Mixture5

NEW = False


@dataclass(frozen=True, kw_only=True)
class Growing(Mixture5):
    \"\"\"mixture5, whose metrics may be new ones.\"\"\"

    version = 1
    metrics = (
        *(replace(m, version=2) if NEW and m.name == "modes_covered" else m for m in Mixture5.metrics),
        *([Metric("spread", "min", "1", "made up")] if NEW else []),
    )

    def build(self, streams, device):
        problem = super().build(streams, device)
        inner = problem.observer

        def observer(rows, trajectory, cost):
            watcher = inner(rows, trajectory, cost)
            plain = watcher.outcome

            def outcome():
                before = plain()
                values = {**before.metrics, "modes_covered": 100 + before.metrics["modes_covered"], "spread": 0.5}
                return Outcome(values if NEW else before.metrics, before.curves)

            watcher.outcome = outcome
            return watcher

        problem.observer = observer
        return problem


@dataclass(frozen=True, kw_only=True)
class Weighted(SGLD):
    \"\"\"sgld, whose draws have weights.\"\"\"

    def log_weight(self, state):
        return state["w"]

    def init(self, theta, potential, h, T, noise):
        return {"w": 0 * theta[:, 0] + 1}

    def step(self, theta, state, potential, h, T, noise):
        theta = super().step(theta, {}, potential, h, T, noise)[0]
        return theta, {"w": theta[:, 0] / 10}


@hook
def bench_tasks():
    return [Info("growing", "growing_task:Growing", "mixture5 with other metrics")]


@hook
def bench_samplers():
    return [Info("weighted", "growing_task:Weighted", "sgld with weights")]
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A results folder with three seeds, and a run of weighted draws, all of the metrics as they were."""
    home = tmp_path_factory.mktemp("made")
    plugin = home / "growing_task.py"
    plugin.write_text(PLUGIN)
    base = ["--results", str(home / "results"), "--plugin", str(plugin), "run", "--task", "growing", "--chains", "2"]
    short = ["--budget", "steps=1500", "--set", "schedule.step_size=0.1"]
    assert run([*base, "--sampler", "sgld", "--seeds", "0-2", *short]) == 0
    assert run([*base, "--sampler", "weighted", "--seeds", "0", *short]) == 0
    yield home
    forget("growing_task")


class Home:
    """A copy of the folder, with the task as it was or as it is now, and its commands."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys
        self.results, self.plugin = folder / "results", folder / "growing_task.py"
        self.store = Store(self.results)

    def change(self, old="NEW = False", new="NEW = True"):
        self.plugin.write_text(self.plugin.read_text().replace(old, new))
        forget("growing_task")

    def bench(self, *words):
        code = run(["--results", str(self.results), "--plugin", str(self.plugin), *words])
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def rescored(self, *words):
        code, out, err = self.bench("rescore", *words, "--json")
        return code, json.loads(out or "[]"), err

    def attempts(self, method="sgld"):
        standing = [Ledger(self.results).attempts(path.name)[0] for path in self.results.glob("runs/*/*")]
        specs = {a: json.loads((a.path / "spec.json").read_text()) for a in standing}
        return sorted((a for a in standing if specs[a]["method"] == method), key=lambda a: specs[a]["seed"])

    def contents(self):
        with connection.reading(self.store.path) as db:
            return {
                table: db.execute(f"from {table} order by all").fetchall() for table in [*schema.TABLES, *schema.VIEWS]
            }

    def values(self, metric):
        query = "select method, seed, value, metric_version as v from run_metric where metric = ? order by all"
        return [(r["method"], r["seed"], r["value"], r["v"]) for r in self.store.rows(query, [metric])]


@pytest.fixture
def home(ran, tmp_path, capsys):
    shutil.copytree(ran / "results", tmp_path / "results")
    shutil.copy(ran / "growing_task.py", tmp_path)
    forget("growing_task")
    yield Home(tmp_path, capsys)
    forget("growing_task")


def test_where_nothing_changed_there_is_nothing_to_do(home):
    code, rows, err = home.rescored()
    assert (code, rows) == (0, [])
    assert "anew" not in err
    assert not list(home.results.rglob("rescored*"))
    assert home.bench("rescore")[2].endswith("nothing changed: all metrics are current\n")


def test_new_metrics_and_versions_are_measured_and_count_from_then_on(home):
    home.bench("ingest")
    before = {row[1]: row[2] for row in home.values("modes_covered") if row[0] == "sgld"}
    files = {path: path.read_bytes() for path in home.results.glob("runs/**/*.*") if path.suffix != ".seal"}
    other = home.values("mean_error")
    home.change()
    code, rows, _ = home.rescored("--sampler", "sgld")
    assert code == 0
    assert [(r["seed"], r["metric"], r["version_before"], r["version"], r["before"], r["after"]) for r in rows] == [
        row
        for seed in range(3)
        for row in (
            (seed, "modes_covered", 1, 2, before[seed], 100 + before[seed]),
            (seed, "spread", None, 1, None, 0.5),
        )
    ]
    assert home.values("modes_covered")[:3] == [("sgld", seed, 100 + before[seed], 2) for seed in range(3)]
    assert home.values("mean_error") == other  # of the same version: what the run itself measured
    assert all(path.read_bytes() == content for path, content in files.items())
    assert home.rescored("--sampler", "sgld")[:2] == (0, [])
    incremental = home.contents()
    home.bench("ingest", "--rebuild")
    assert home.contents() == incremental
    assert "spread" in home.bench("show", rows[0]["run_key"])[1]


def test_the_record_says_what_it_belongs_to_and_who_measured(home):
    home.change()
    home.rescored("--sampler", "sgld")
    attempt = home.attempts()[0]
    record = json.loads((attempt.path / "rescored.json").read_text())
    assert seal_holds(record)
    assert record["attempt"] == attempt.id
    assert record["code"]["task_source"] == source_hash("growing_task:Growing")
    assert "sgmcmc-bench" in record["code"]["distributions"]
    assert [m["primary"] for m in record["metrics"]].count(True) == 1
    (name,) = record["files"]
    assert (attempt.path / name).is_file()


def test_what_cannot_be_measured_anew_is_refused_with_the_reason(home):
    thinned, damaged, gone = home.attempts()
    (unweighted,) = home.attempts("weighted")
    draws = load_file(unweighted.path / "draws.safetensors")
    del draws["log_weights"]
    save_file(draws, unweighted.path / "draws.safetensors")
    result = json.loads((unweighted.path / "result.json").read_text())
    result["files"]["draws.safetensors"] = checksum(unweighted.path / "draws.safetensors")
    (unweighted.path / "result.json").write_text(json.dumps(sealed(result)))
    result = json.loads((thinned.path / "result.json").read_text())
    (thinned.path / "result.json").write_text(json.dumps(sealed({**result, "draws_stride": 2})))
    draws = (damaged.path / "draws.safetensors").read_bytes()
    (damaged.path / "draws.safetensors").write_bytes(draws[:-1] + bytes([draws[-1] ^ 1]))
    (gone.path / "draws.safetensors").unlink()
    home.change()
    code, rows, _ = home.rescored()
    assert code == 1
    assert {(r["method"], r["seed"]): r["refused"] for r in rows} == {
        ("sgld", 0): "not all of its draws were kept: run it again",
        ("sgld", 1): "its draws are damaged: run it again",
        ("sgld", 2): "its draws are missing: run it again",
        ("weighted", 0): "its draws have weights, which an earlier version did not keep: run it again",
    }
    assert not list(home.results.rglob("rescored*"))
    code, out, err = home.bench("rescore")
    assert (code, out) == (1, "")
    assert "(weighted on growing, seed 0): its draws have weights" in err


def test_draws_of_another_version_of_the_task_are_refused(home):
    home.change()
    home.change("version = 1\n", "version = 2\n")
    code, rows, _ = home.rescored("--sampler", "sgld")
    assert code == 1
    assert {r["refused"] for r in rows} == {"the task has version 2 now, its draws have version 1"}


def test_a_task_that_is_gone_is_refused(home):
    code = run(["--results", str(home.results), "rescore"])
    assert code == 1
    assert "task growing (growing_task:Growing) is not provided by any installed plugin" in home.capsys.readouterr().err


def test_a_metric_asked_for_is_measured_from_the_draws_as_they_were_kept(home):
    home.bench("ingest")
    before = {row[1]: row[2] for row in home.values("mean_error") if row[0] == "sgld"}
    code, rows, _ = home.rescored("--sampler", "sgld", "--metric", "mean_error")
    assert code == 0
    assert len(rows) == 3  # float32 draws are not quite those that the run saw
    assert {row["metric"] for row in rows} == {"mean_error"}
    assert all(row["after"] == pytest.approx(before[row["seed"]], rel=1e-5) for row in rows)
    files = {path: path.stat().st_mtime_ns for path in home.results.rglob("rescored*")}
    assert home.rescored("--sampler", "sgld", "--metric", "mean_error")[:2] == (0, [])
    assert {path: path.stat().st_mtime_ns for path in home.results.rglob("rescored*")} == files


def test_draws_weigh_as_their_sampler_and_schedule_say(home):
    draws = load_file(home.attempts("weighted")[0].path / "draws.safetensors")
    weights = draws["draws"][:, :, 0] / 10
    assert draws["log_weights"] == pytest.approx(weights - weights[0].max(), abs=1e-5)
    words = ["--task", "growing", "--sampler", "sgld", "--seeds", "7", "--chains", "2", "--budget", "steps=1500"]
    decay = ["schedule=polynomial", "schedule.a=0.1", "schedule.gamma=0.55", "schedule.weights=step-size"]
    assert home.bench("run", *words, *(word for setting in decay for word in ("--set", setting)))[0] == 0
    home.bench("ingest")
    before = {row[:2]: row[2] for row in home.values("mean_error")}
    rows = home.rescored("--metric", "mean_error")[1]
    after = {(row["method"], row["seed"]): row["after"] for row in rows}
    assert {key: before[key] for key in after} == pytest.approx(after, rel=1e-5)
    assert {("sgld", 7), ("weighted", 0)} <= after.keys()


def test_a_damaged_record_is_noted_and_made_again(home):
    home.change()
    home.rescored("--sampler", "sgld")
    path = home.attempts()[0].path / "rescored.json"
    path.write_text(path.read_text().replace("100", "999", 1).replace("10", "99", 1))
    code, _, err = home.bench("ingest", "--rebuild")
    assert code == 0
    assert "rescored.json is damaged; the metrics of result.json are used" in err
    assert [row[3] for row in home.values("modes_covered") if row[0] == "sgld"] == [1, 2, 2]
    code, rows, _ = home.rescored("--sampler", "sgld")
    assert (code, {r["seed"] for r in rows}) == (0, {0})
    assert [row[3] for row in home.values("modes_covered") if row[0] == "sgld"] == [2, 2, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--task", "mixture5"), "there is no finished run of task 'mixture5' here"),
        (("--sampler", "sgd"), "there is no finished run of method 'sgd' here; did you mean sgld"),
        (("--metric", "modes"), "unknown metric 'modes'"),
    ],
)
def test_unknown_names_are_usage_errors(home, words, said):
    code, out, err = home.bench("rescore", *words)
    assert (code, out) == (2, "")
    assert said in err
