"""`bench replay` on real runs: the same bits, or what differs first and why."""

import json
import math
import shutil

import fabricated
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from support import forget

from harness.cli.app import run
from harness.results.ledger.ledger import Ledger
from harness.system.errors import DataError, UsageError
from plugins.upkeep.bitwise import differing_arrays, differing_results
from plugins.upkeep.lookup import concluded_attempt

PLUGIN = """
from dataclasses import dataclass
from random import SystemRandom

import torch

from harness import Info, Sampler, hook, param


@dataclass(frozen=True, kw_only=True)
class Odd(Sampler):
    \"\"\"sgld, with faults.\"\"\"

    fault: str = param("none", choices=("none", "loose", "fails"), meaning="what is wrong", source="made up")

    def init(self, theta, potential, h, T, noise):
        return {"steps": torch.zeros_like(theta[:, 0])}

    def step(self, theta, state, potential, h, T, noise):
        if self.fault == "fails" and state["steps"][0] > 500:
            raise RuntimeError("enough")
        xi = noise.normal(theta)
        if self.fault == "loose":
            xi = xi + 1e-6 * SystemRandom().random()
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * xi, {"steps": state["steps"] + 1}


@hook
def bench_samplers():
    return [Info("odd", "odd_sampler:Odd", "sgld with faults")]
"""
SHORT = ["--task", "mixture5", "--chains", "2", "--budget", "steps=1500", "--set", "schedule.step_size=0.1"]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    path = tmp_path_factory.mktemp("plugin") / "odd_sampler.py"
    path.write_text(PLUGIN)
    yield path
    forget("odd_sampler")


@pytest.fixture(scope="module")
def ran(tmp_path_factory, plugin):
    """A results folder: ten seeds of one block, a diverged run, and a one-off plugin's."""
    folder = tmp_path_factory.mktemp("made") / "results"
    bench = ["--results", str(folder), "--plugin", str(plugin), "run"]
    assert run([*bench, "--sampler", "sgld", "--seeds", "0-9", *SHORT]) == 0
    assert run([*bench, "--sampler", "sgld", "--seeds", "0", *SHORT[:-1], "schedule.step_size=5"]) == 1
    for fault, code in (("none", 0), ("loose", 0), ("fails", 1)):
        assert run([*bench, "--sampler", "odd", "--seeds", "0", *SHORT, "--set", f"sampler.fault={fault}"]) == code
    return folder


@pytest.fixture
def results(ran, tmp_path):
    return shutil.copytree(ran, tmp_path / "results")


@pytest.fixture
def replay(results, capsys):
    def command(key, *words, plugin=None):
        loaded = ["--plugin", str(plugin)] if plugin else []
        code = run(["--results", str(results), *loaded, "replay", key, *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def find(results, method="sgld", seed=0, status="done", fault=None):
    """The attempt of a run."""
    ledger = Ledger(results)
    for key in sorted(path.name for path in ledger.runs.glob("*/*")):
        (attempt,) = ledger.attempts(key)
        spec = json.loads((attempt.path / "spec.json").read_text())
        like = (spec["method"], spec["seed"], attempt.result()["status"]) == (method, seed, status)
        if like and fault in (None, spec["sampler"]["params"].get("fault")):
            return attempt
    raise AssertionError("no such run")


def key(attempt):
    return attempt.path.parent.name


def test_one_seed_of_a_block_of_ten_gives_the_same_bits(results, replay):
    attempt = find(results, seed=7)
    before = sorted((p.relative_to(results), p.stat().st_mtime_ns) for p in results.rglob("*"))
    code, out, err = replay(key(attempt)[:8])
    assert code == 0, err
    assert "sgld on mixture5, seed 7; done" in out
    assert "same bits: draws.safetensors, curves.safetensors, result.json" in out
    assert sorted((p.relative_to(results), p.stat().st_mtime_ns) for p in results.rglob("*")) == before


def test_an_attempt_may_be_named(results, replay):
    code, out, _ = replay(find(results, seed=3).id, "--json")
    (row,) = json.loads(out)
    assert (code, row["same"], row["compared"][0]) == (0, True, "draws.safetensors")


def test_a_diverged_run_diverges_again_and_shows_where_it_was(results, replay):
    attempt = find(results, status="diverged")
    stored = attempt.result()
    code, out, _ = replay(key(attempt), "--json")
    (row,) = json.loads(out)
    assert (code, row["same"], row["status"]) == (0, True, "diverged")
    assert (row["step"], row["chain"]) == (stored["step"], stored["chain"])
    assert len(row["last_finite"]) == 2
    assert all(math.isfinite(x) for x in row["last_finite"])
    assert max(map(abs, row["last_finite"])) > 1e100
    assert (
        f"diverged at step {stored['step']:,}, chain {stored['chain']}, a step before at [" in replay(key(attempt))[1]
    )


def test_a_failed_run_fails_again_and_shows_where(results, replay, plugin):
    code, out, _ = replay(key(find(results, "odd", status="error")), plugin=plugin)
    assert code == 0
    assert 'raise RuntimeError("enough")' in out
    assert "same bits: result.json" in out


def test_a_flipped_bit_is_found_at_its_step_and_the_file_called_damaged(results, replay):
    attempt = find(results, seed=2)
    path = attempt.path / "draws.safetensors"
    arrays = load_file(path)
    arrays["draws"][400:402, 1, 0] = np.float32(9.5)
    save_file(arrays, path)
    code, out, _ = replay(key(attempt), "--json")
    (row,) = json.loads(out)
    step = int(arrays["steps"][400])
    assert (code, row["differences"], row["first_count"]) == (1, 1, 2)
    assert (row["first_file"], row["first_where"]) == ("draws.safetensors", f"step {step:,}, chain 1, coordinate 0")
    assert row["first_stored"] == "9.5"
    assert row["first_largest"] >= abs(9.5 - float(row["first_again"]))
    assert "draws.safetensors of the attempt is damaged" in row["why"][0]
    assert "the replay made it as it was written" in row["why"][0]


def test_a_file_that_is_gone_is_not_compared_and_said(results, replay):
    attempt = find(results, seed=4)
    (attempt.path / "draws.safetensors").unlink()
    code, out, _ = replay(key(attempt))
    assert code == 1
    assert "not compared: draws.safetensors is gone from the attempt" in out


def test_what_is_not_deterministic_is_called_so(results, replay, plugin):
    code, out, _ = replay(key(find(results, "odd", fault="loose")), "--json", plugin=plugin)
    (row,) = json.loads(out)
    assert code == 1
    assert row["first_entry"] == "draws"
    assert 0 < row["first_largest"] < 1e-2
    assert row["why"] == [
        "code, engine, data and environment are the same and the kept files are whole: it is not deterministic"
    ]


def test_code_that_changed_is_refused_unless_asked_for(results, replay, plugin):
    wanted = key(find(results, "odd", fault="none"))
    assert replay(wanted, plugin=plugin)[0] == 0
    try:
        plugin.write_text(PLUGIN.replace("(2 * h * T)", "(2.02 * h * T)"))
        forget("odd_sampler")
        code, out, err = replay(wanted, plugin=plugin)
        assert (code, out) == (2, "")
        assert "the code of sampler odd changed: source" in err
        assert "--anyway" in err
        code, out, err = replay(wanted, "--anyway", plugin=plugin)
        assert code == 1
        assert "why: the code of sampler odd changed" in out
    finally:
        plugin.write_text(PLUGIN)
        forget("odd_sampler")


def test_a_plugin_that_is_not_there_is_asked_for(results, replay):
    code, _, err = replay(key(find(results, "odd", fault="none")))
    assert code == 3
    assert "sampler odd (odd_sampler:Odd) is not provided by any installed plugin" in err
    assert "--plugin FILE" in err


def test_records_that_are_not_whole_are_not_replayed(results, replay):
    attempt = find(results, seed=5)
    path = attempt.path / "spec.json"
    path.write_text(path.read_text().replace('"steps": 1500', '"steps": 1501'))
    code, _, err = replay(key(attempt))
    assert code == 4
    assert "spec.json is damaged" in err


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("abc", "is neither a run key"),
        ("abcdef", "there is no run abcdef"),
        ("20200101T000000000-abcdef", "there is no attempt 20200101T000000000-abcdef"),
    ],
)
def test_unknown_runs_are_usage_errors(replay, word, said):
    code, _, err = replay(word)
    assert code == 2
    assert said in err


FIRST = "abcdef01" + "0" * 56


def concluded(results, key, number=0, **changes):
    folder = fabricated.unfinished(results, number=number, key=key)
    return fabricated.conclude(folder, **changes)


def test_the_attempt_that_counts_is_meant(ledger):
    concluded(ledger.root, FIRST, number=1, status="error")
    done = concluded(ledger.root, FIRST, number=2)
    concluded(ledger.root, FIRST, number=3, status="error")
    assert concluded_attempt(ledger, FIRST).path == done
    shutil.rmtree(done)
    assert concluded_attempt(ledger, FIRST).result()["status"] == "error"


def test_a_run_without_a_result_has_nothing_to_compare_with(ledger):
    fabricated.unfinished(ledger.root, key=FIRST, events=("created", "started", "cancelled"))
    with pytest.raises(UsageError, match="is cancelled: it has no result yet"):
        concluded_attempt(ledger, FIRST)


def test_a_damaged_result_is_a_data_error(ledger):
    folder = concluded(ledger.root, FIRST)
    (folder / "result.json").write_text("{")
    with pytest.raises(DataError, match=r"result\.json cannot be read"):
        concluded_attempt(ledger, FIRST)


@pytest.fixture
def folders(tmp_path):
    for name in ("stored", "again"):
        (tmp_path / name).mkdir()
    return tmp_path / "stored", tmp_path / "again"


def write(folder, **arrays):
    save_file({name.replace("__", "/"): np.asarray(array) for name, array in arrays.items()}, folder / "x.safetensors")


def differing(folders, ours, theirs, **options):
    write(folders[0], **ours)
    write(folders[1], **theirs)
    return differing_arrays(*folders, "x.safetensors", **options)


def test_equal_bits_are_no_difference_nan_included(folders):
    arrays = {"a": np.array([1.0, np.nan, np.inf]), "b": np.arange(3)}
    assert differing(folders, arrays, arrays) == []


def test_zeros_of_two_signs_differ(folders):
    (difference,) = differing(folders, {"a": np.array([0.0])}, {"a": np.array([-0.0])})
    assert (difference.stored, difference.again, difference.largest) == ("0.0", "-0.0", 0.0)


def test_shape_type_and_absence_are_differences(folders):
    differences = differing(
        folders,
        {"a": np.zeros(2), "b": np.zeros(2), "c": np.zeros(2)},
        {"a": np.zeros(3), "b": np.zeros(2, np.float32), "d": np.zeros(1)},
    )
    assert [(d.entry, d.stored, d.again) for d in differences] == [
        ("a", "float64 (2,)", "float64 (3,)"),
        ("b", "float64 (2,)", "float32 (2,)"),
        ("c", "float64 (2,)", "absent"),
        ("d", "absent", "float64 (1,)"),
    ]


def test_curves_are_named_by_chain_and_point(folders):
    y = np.zeros((2, 3))
    other = y.copy()
    other[1, 2] = 1
    (difference,) = differing(folders, {"b2__y": y}, {"b2__y": other})
    assert (difference.entry, difference.where) == ("b2/y", "chain 1, point 2")


def test_results_differ_in_what_a_run_decides_and_not_in_time():
    def result(value, **changes):
        return {
            "status": "done", "steps_done": 5, "seconds": {"sampling": value}, "finished": str(value),
            "metrics": [{"name": "m", "value": 1.0}],
        } | changes  # fmt: skip

    assert differing_results(result(1.0), result(2.0)) == []
    differences = differing_results(
        result(1.0), result(1.0, status="diverged", step=3, metrics=[{"name": "m", "value": None}])
    )
    assert [(d.entry, d.stored, d.again) for d in differences] == [
        ("status", "done", "diverged"), ("step", "None", "3"), ("metric m", "1.0", "None"),
    ]  # fmt: skip
