"""`bench score`: rows of what other software made."""

import io
import json
import pickle
import re
import tracemalloc
import zipfile
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.numpy import load_file, save_file
from support import bench as in_a_process

from harness.contracts.data import data_root
from harness.contracts.predictions import AVERAGED, PREDICTIVE_METRICS, REFERENCE_METRICS
from harness.system.errors import DataError
from plugins.sharing.elsewhere import _scores
from plugins.sharing.submission import read
from tasks.datasets.cifar import HMC_PREDICTIONS, tfds_order
from tasks.synthetic.mixture25 import Mixture25

WORDS = ["--name", "exact", "--passes", "2000", "--warmup", "1000", "--seed"]


def exact(chains=2, draws=1500, seed=0):
    return Mixture25().sample(chains * draws, np.random.default_rng(seed)).reshape(chains, draws, 2)


def parquet(path, draws):

    chain, draw = (index.ravel() for index in np.indices(draws.shape[:2]))
    columns = {"draw": draw, "chain": chain, "x": draws[..., 0].ravel(), "y": draws[..., 1].ravel()}
    pl.DataFrame(columns).sample(fraction=1, shuffle=True, seed=1).write_parquet(path)


def test_exact_draws_are_right_in_every_format_and_stand_in_a_division_of_their_own(bench_json, tmp_path):
    draws = exact()
    np.savez(tmp_path / "a.npz", draws=draws)
    save_file({"draws": draws}, tmp_path / "a.safetensors")
    parquet(tmp_path / "a.parquet", draws)
    values = []
    for seed, suffix in enumerate(("npz", "safetensors", "parquet")):
        code, rows, said = bench_json("score", "mixture25", tmp_path / f"a.{suffix}", *WORDS, seed)
        assert code == 0, said
        values.append({row["metric"]: row["value"] for row in rows})
    assert values[0]["joint_error"] < 0.01
    assert values[0] == values[1] == values[2]
    code, rows, said = bench_json("report", "leaderboard")
    assert {(row["method"], row["protocol"], row["seeds"]) for row in rows} == {("exact", "elsewhere", 3)}, said
    code, rows, _ = bench_json("ls", "runs")
    assert {row["passes"] for row in rows} == {2000.0}
    code, _, said = bench_json("replay", rows[0]["run_key"][:12])
    assert code != 0
    assert "made by other software" in said


def test_weights_count(bench_json, tmp_path):
    draws = exact(1, 4000)
    far = np.concatenate([draws, draws + 100], axis=1)
    logs = np.where(np.arange(8000) < 4000, 0.0, -1000.0)[None]
    np.savez(tmp_path / "a.npz", draws=far, log_weights=logs)
    code, rows, said = bench_json("score", "mixture25", tmp_path / "a.npz", *WORDS, 0)
    assert code == 0, said
    assert {row["metric"]: row["value"] for row in rows}["mean_error"] < 0.1


def test_a_seed_is_scored_once_and_other_words_are_another_row(bench_json, tmp_path):
    np.savez(tmp_path / "a.npz", draws=exact())
    for words in ((), (), ("--about", "float32")):
        assert bench_json("score", "mixture25", tmp_path / "a.npz", *WORDS, 0, *words)[0] == 0
    assert len({row["group"] for row in bench_json("report", "leaderboard")[1]}) == 2
    np.savez(tmp_path / "b.npz", draws=exact() + 1)
    for words in (("b.npz", *WORDS, 0), ("a.npz", *WORDS, 0, "--passes", 3000), ("a.npz", *WORDS, 0, "--warmup", 1)):
        assert bench_json("score", "mixture25", tmp_path / words[0], *words[1:])[0] == 2
    assert len(list(tmp_path.glob("**/runs/*/*/*/result.json"))) == 2


class Trap:
    def __reduce__(self):
        return print, ("executed",)


def trap():
    stream = io.BytesIO()
    np.savez(stream, draws=np.array([Trap()], dtype=object))
    return stream.getvalue()


def saved(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def deflated(size):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("draws.npy", "w") as member:
        np.lib.format.write_array_header_1_0(
            member, {"descr": "<f8", "fortran_order": False, "shape": (1, size // 16, 2)}
        )
        for _ in range(size // 2**20):
            member.write(bytes(2**20))
    return stream.getvalue()


def wrong_checksum():
    stream = io.BytesIO()
    np.savez(stream, draws=np.zeros((1, 9, 2)))
    content = bytearray(stream.getvalue())
    content[len(content) // 2 - 40] ^= 1
    return bytes(content)


def frame(**columns):

    stream = io.BytesIO()
    pl.DataFrame(columns).write_parquet(stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", saved(np.zeros((1, 9, 2))), "cannot be read"),
        ("a.npz", wrong_checksum(), "cannot be read"),
        ("a.npz", {"draws": np.full((1, 9, 2), "1")}, "is of type <U1, not of numbers"),
        ("a.npz", {"draws": np.full((1, 9, 2), 1j)}, "is of type complex128, not of numbers"),
        ("a.npz", {"draws": np.full((2, 9, 2), np.nan)}, "chain 0 has draws that are not finite"),
        ("a.npz", {"draws": np.full((2, 9, 2), -1e39)}, "chain 0 has draws that are not finite in float32"),
        ("a.npz", {"draws": np.zeros((1, 0, 2))}, "there are no draws"),
        ("a.npz", {"draws": np.zeros((1, 9, 2)), "log_weights": np.full((1, 9), -np.inf)}, "log_weights must be"),
        ("a.npz", {"draws": np.zeros((1, 9, 2)), "log_weights": np.full((1, 9), np.nan)}, "log_weights must be"),
        ("a.parquet", frame(chain=[0, 0, 0, 1], draw=[0, 1, 2, 0], x=[0.0] * 4, y=[0.0] * 4), "different numbers"),
        ("a.parquet", frame(chain=[0, 0], draw=[1, 1], x=[0.0] * 2, y=[0.0] * 2), "the same draw twice"),
        ("a.parquet", frame(chain=[0, 0], draw=[0, 1], x=["a", "b"]), "not of numbers"),
        ("a.npz", trap(), "cannot be read"),
        ("a.npz", pickle.dumps(Trap()), "cannot be read"),
        ("a.npz", b"", "cannot be read"),
        ("a.safetensors", (2**62).to_bytes(8, "little") + b"{}", "cannot be read"),
        ("a.parquet", b"PAR1", "cannot be read"),
        ("a.csv", b"1,2", "the name ends in none of"),
        ("a.npz", {"draws": np.zeros((3, 2))}, "has shape (3, 2), not (chain, draw, coordinate)"),
        ("a.npz", {"draws": np.zeros((1, 9, 3))}, "the draws have 3 coordinates, mixture25 has 2"),
        ("a.npz", {"other": np.zeros(3)}, "must hold draws"),
        ("a.npz", {"draws": np.zeros((1, 9, 2)), "log_weights": np.zeros((9, 1))}, "log_weights has shape"),
        ("a.npz", {"probabilities": np.full((4, 2), 0.5)}, "mixture25 predicts no classes"),
        (
            "a.npz",
            {"probabilities": np.array([[0.5, 0.6]])},
            "row 0 are not positive numbers that add up to 1: the least",
        ),
        ("a.npz", {"probabilities": np.array([[1.0, 0.0], [0.5, 0.5002]])}, "the least is 0.5, the sum 1.0002"),
        ("a.npz", {"probabilities": np.array([[1.0, 0.0], [0.5, np.nan]])}, "row 1 are not positive numbers"),
        ("a.npz", {"probabilities": np.array([[np.inf, -np.inf]])}, "row 0 are not positive numbers"),
        ("a.npz", {"probabilities": np.array([[1.5, -0.5]])}, "the least is -0.5, the sum 1, which may"),
        ("a.npz", {"probabilities": np.eye(3)[None]}, "has shape (1, 3, 3), not (row, class)"),
        ("a.npz", {"probabilities": np.eye(3), "rows": np.arange(2)}, "rows has 2 entries, probabilities has 3"),
        ("a.npz", {"probabilities": np.eye(3), "rows": np.array([1, 2, 3])}, "rows must be the numbers 0 to 2"),
        ("a.npz", {"probabilities": np.eye(3), "rows": np.array([0, 2, 2])}, "rows must be the numbers 0 to 2"),
        (
            "a.npz",
            {"probabilities": np.eye(3), "rows": np.array([0, 1, np.nan])},
            "rows is of type float64, not of integers",
        ),
        ("a.npz", {"probabilities": np.eye(3), "rows": np.array(["a", "b", "c"])}, "is of type <U1, not of numbers"),
        (
            "a.npz",
            {"probabilities": np.eye(3), "classes": np.zeros((3, 1), int)},
            "classes has shape (3, 1), not (row)",
        ),
        ("a.parquet", frame(row=[0, 0], a=[1.0, 1.0]), "rows must be the numbers 0 to 1"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_leaves_nothing(bench_json, tmp_path, name, content, message):
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        np.savez(tmp_path / name, **content)
    code, rows, said = bench_json("score", "mixture25", tmp_path / name, *WORDS, 0)
    assert code in (2, 4)
    assert not rows
    assert message in said
    assert "executed" not in said
    assert not list(tmp_path.glob("r/runs/*/*/*/"))


def test_a_small_file_that_becomes_a_large_one_is_not_read(bench_json, tmp_path, monkeypatch):
    from plugins.sharing import submission

    monkeypatch.setattr(submission, "LARGEST", 2**23)
    (tmp_path / "a.npz").write_bytes(deflated(2**24))
    (tmp_path / "a.parquet").write_bytes(frame(chain=[0] * 2**20, draw=[0] * 2**20, x=[0.0] * 2**20))
    for name in ("a.npz", "a.parquet"):
        assert (tmp_path / name).stat().st_size < 2**17
        code, _, said = bench_json("score", "mixture25", tmp_path / name, *WORDS, 0)
        assert code == 4
        assert "at most 8,388,608 are read" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--name", "a", "--passes", "nan", "--seed", "0"], "--passes"),
        (["--name", "Not a name", "--passes", "1", "--seed", "0"], "must match"),
        (["--name", "a", "--passes", "1", "--warmup", "2", "--seed", "0"], "is more than --passes"),
        (["--name", "a", "--passes", "1", "--seed", "0", "--set", "sampler.x=1"], "only settings of the task"),
    ],
)
def test_wrong_declarations_are_refused(bench_json, tmp_path, words, message):
    np.savez(tmp_path / "a.npz", draws=exact(1, 10))
    code, _, said = bench_json("score", "mixture25", tmp_path / "a.npz", *words)
    assert code == 2
    assert message in said


THREE = np.array([2, 0, 1])
"""The true classes of three test rows."""


def predicted(tmp_path, **arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    return read(tmp_path / "a.npz")


def scored(predictions, tmp_path, *, compared=True):
    """The metrics of predictions for a task with three test rows, and a reference that is right about each."""
    labels = {"train": torch.tensor([0, 1, 2]), "test": torch.from_numpy(THREE)}
    problem = SimpleNamespace(labels=labels, reference=torch.eye(3)[THREE] if compared else None)
    task = SimpleNamespace(metrics=(*PREDICTIVE_METRICS, *REFERENCE_METRICS))
    return _scores(predictions, problem, task, "three", tmp_path / "a.npz").metrics


def test_predictions_in_another_order_are_put_in_the_tasks_by_the_numbers_of_their_rows(tmp_path):
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=3)
    q, order = np.eye(3)[THREE], np.array([1, 2, 0])
    metrics = scored(predicted(tmp_path, probabilities=p, classes=THREE), tmp_path)
    assert metrics["agreement"] == (p.argmax(1) == THREE).mean()
    assert metrics["total_variation"] == pytest.approx(np.abs(p - q).sum() / 6)
    for told in ({"rows": order}, {"rows": order, "classes": THREE[order]}):
        assert scored(predicted(tmp_path, probabilities=p[order], **told), tmp_path) == metrics
    (tmp_path / "a.parquet").write_bytes(frame(**{f"p{k}": p[order, k] for k in range(3)}, row=order))
    assert scored(read(tmp_path / "a.parquet"), tmp_path) == metrics
    without = scored(predicted(tmp_path, probabilities=p), tmp_path, compared=False)
    assert without == {**metrics, "agreement": None, "total_variation": None}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"probabilities": np.eye(3)}, "a.npz does not say which test row each prediction is of"),
        ({"probabilities": np.eye(3), "classes": [2, 1, 0]}, "test row 1 has the class 1 there and 0 in three"),
        ({"probabilities": np.eye(3), "classes": [2, 0, np.nan]}, "classes is of type float64, not of integers"),
        ({"probabilities": np.eye(3), "classes": THREE, "rows": [1, 2, 0]}, "test row 0 has the class 1 there"),
        ({"probabilities": np.eye(2), "classes": [1, 0]}, "2 rows of 2 classes are predicted; three has 3 test rows"),
        ({"probabilities": np.eye(4)[:3], "classes": THREE}, "3 rows of 4 classes are predicted; three has 3 test"),
        ({"probabilities": np.full((3, 2), 0.5), "classes": THREE}, "3 rows of 2 classes are predicted"),
    ],
)
def test_predictions_of_other_classes_order_or_size_are_refused(tmp_path, arrays, message):
    with pytest.raises(DataError, match=re.escape(message)):
        scored(predicted(tmp_path, **arrays), tmp_path)


@pytest.mark.data
def test_published_predictions_are_scored_against_themselves(bench_json, tmp_path):
    rows, published = tfds_order("test", 10_000), np.loadtxt(data_root() / HMC_PREDICTIONS.path)
    np.savez(tmp_path / "p.npz", probabilities=published, rows=rows)
    words = ["score", "cifar10@hmc", tmp_path / "p.npz", "--name", "hmc-published", "--passes", 5e7, "--seed", 0]
    code, scored_rows, said = bench_json(*words)
    assert code == 0, said
    values = {row["metric"]: row["value"] for row in scored_rows}
    assert (values["agreement"], values["total_variation"]) == (1, 0)
    assert values["test_error"] == pytest.approx(100 - 91.44)
    np.savez(tmp_path / "p.npz", probabilities=published)
    code, scored_rows, said = bench_json(*words[:-1], 1)
    assert (code, scored_rows) == (4, [])
    assert "does not say which test row each prediction is of" in said


@pytest.mark.data
def test_without_the_published_predictions_it_says_how_to_get_them(tmp_path):
    """In a process of its own: this one may have read them."""
    (tmp_path / "cifar-10-batches-py").symlink_to(data_root() / "cifar-10-batches-py")
    np.savez(tmp_path / "p.npz", probabilities=np.eye(10), rows=np.arange(10))
    words = ["score", "cifar10@hmc", str(tmp_path / "p.npz"), "--name", "a", "--passes", "1", "--seed", "0"]
    done = in_a_process(["--results", str(tmp_path / "r"), *words], tmp_path, BENCH_DATA=str(tmp_path))
    assert done.returncode == 4
    assert "data set cifar10-hmc: " in done.stderr
    assert "is missing; `bench data fetch cifar10-hmc` downloads it" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("task", ["ravine", pytest.param("airfoil", marks=pytest.mark.data)])
def test_a_task_without_classes_takes_no_probabilities(bench_json, tmp_path, task):
    np.savez(tmp_path / "a.npz", probabilities=np.eye(3))
    code, _, said = bench_json("score", task, tmp_path / "a.npz", *WORDS, 0)
    assert code == 2, said
    assert f"{task} predicts no classes: send draws" in said


@pytest.mark.data
def test_predictions_are_scored_as_the_tasks_own_are(bench_json, tmp_path):
    """The mean of a run's predictions, sent as predictions, gives that run's scores."""
    code, rows, said = bench_json("run", "--sampler", "sgld", "--task", "landsat", "--seeds", "0", "--budget", "smoke")
    assert code == 0, said
    path = next((tmp_path / "r").glob("runs/*/*/*/arrays.safetensors"))
    np.savez(tmp_path / "p.npz", probabilities=load_file(path)["probabilities"])
    stored = json.loads(next((tmp_path / "r").glob("runs/*/*/*/result.json")).read_text())["metrics"]
    code, rows, said = bench_json("score", "landsat", tmp_path / "p.npz", "--name", "a", "--passes", 5, "--seed", 0)
    assert code == 0, said
    wanted = {metric["name"]: metric["value"] for metric in stored}
    for row in rows:
        if row["metric"] in {metric.name for metric in AVERAGED}:
            assert row["value"] == pytest.approx(wanted[row["metric"]], rel=1e-5)


def test_whole_numbers_are_integers_whatever_their_type(bench_json, tmp_path):
    """A join makes floats of the columns chain and draw; weights that are all 1 may be written as zeros."""
    draws = np.random.default_rng(0).normal(size=(2, 60, 2))
    pl.DataFrame(
        {"chain": np.repeat([0.0, 1.0], 60), "draw": np.tile(np.arange(60.0), 2), "x": draws[..., 0].ravel(),
         "y": draws[..., 1].ravel(), "log_weight": np.zeros(120)}
    ).write_parquet(tmp_path / "a.parquet")  # fmt: skip
    np.savez(tmp_path / "a.npz", draws=draws, log_weights=np.zeros((2, 60), int))
    values = []
    for name in ("a.parquet", "a.npz"):
        code, rows, said = bench_json(
            "score", "gaussian2d", tmp_path / name, "--name", name[2:], "--passes", 5, "--seed", 0
        )
        assert code == 0, said
        values.append({row["metric"]: row["value"] for row in rows})
    assert values[0] == values[1]


COLUMNS = {"chain": [0, 0, 1, 1], "draw": [0, 1, 0, 1], "x": [0.25] * 4, "y": [0.5] * 4}


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        (
            {"draws": np.zeros((2000, 4, 14))},
            ["2,000 chains of 4 draws of 14 coordinates", "the order of the axes cannot"],
        ),
        ({"draws": np.zeros((4, 4, 2))}, ["4 chains of 4 draws of 2 coordinates", "(chain, draw, coordinate)"]),
        ({"draws": np.zeros((1, 9, 2), bool)}, ["draws is of type bool, not of floating-point numbers"]),
        ({"draws": np.zeros((1, 9, 2), int)}, ["draws is of type int64, not of floating-point numbers"]),
        ({"probabilities": np.eye(3, dtype=int)}, ["probabilities is of type int64, not of floating-point numbers"]),
        ({"draws": np.zeros((1, 9, 2)), "log_weights": np.zeros((1, 9), bool)}, ["log_weights is of type bool"]),
        (COLUMNS | {"chain": None}, ["no column chain", "add it, 0 for the first one"]),
        (COLUMNS | {"draw": None}, ["no column draw", "add it"]),
        (COLUMNS | {"chain": None, ".chain": [0, 0, 1, 1]}, ["no column chain", "rename column '.chain'"]),
        (COLUMNS | {"draw": None, "Iteration": [0, 1, 0, 1]}, ["no column draw", "rename column 'Iteration'"]),
        (
            COLUMNS | {"chain": None, "draw": None},
            ["predictions of 2 classes for 4 test rows", "columns chain and draw"],
        ),
        (COLUMNS | {"chain": [0.0, 0.0, 1.5, 1.5]}, ["column 'chain' is of type Float64, not of integers"]),
        (COLUMNS | {"draw": [False, True, False, True]}, ["column 'draw' is of type Boolean, not of integers"]),
        (COLUMNS | {"y": [True] * 4}, ["column 'y' is of type Boolean, not of floating-point numbers"]),
        (COLUMNS | {"y": [1, 2, 3, 4]}, ["column 'y' is of type Int64, not of floating-point numbers"]),
        (COLUMNS | {"y": [0.5, None, 0.5, 0.5]}, ["column 'y' has no value in 1 rows"]),
        (COLUMNS | {"chain": [0, None, 1, 1]}, ["column 'chain' has no value in 1 rows"]),
        (
            {"a": [0.5, 0.5], "b": [0.5, 0.5], "class": [0.0, 1.0]},
            ["column 'class' is of type Float64, not of integers"],
        ),
    ],
)
def test_what_a_file_could_mean_otherwise_is_asked_back(tmp_path, content, messages):
    path = tmp_path / ("a.npz" if {"draws", "probabilities"} & content.keys() else "a.parquet")
    if path.suffix == ".npz":
        np.savez(path, **content)
    else:
        path.write_bytes(frame(**{name: values for name, values in content.items() if values is not None}))
    with pytest.raises(DataError) as raised:
        read(path)
    assert all(message in str(raised.value) for message in messages), raised.value


def test_a_table_says_what_its_chains_are_even_if_there_are_many(tmp_path):
    parquet(tmp_path / "a.parquet", exact(5, 3))
    submission = read(tmp_path / "a.parquet")
    assert submission.shape == "5 chains of 3 draws of 2 coordinates"
    np.testing.assert_array_equal(submission.draws, exact(5, 3).swapaxes(0, 1))


def test_weights_need_no_constant_that_all_chains_have(tmp_path):
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(3, 50))
    logs[1, 7] = -np.inf
    weights = []
    for shift in (0, [[0], [800], [-800]]):
        np.savez(tmp_path / "a.npz", draws=rng.normal(size=(3, 50, 2)), log_weights=logs + shift)
        weights.append(np.exp(read(tmp_path / "a.npz").log_weights))
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-9)
    np.testing.assert_allclose(weights[0].mean(axis=0), 1)
    np.testing.assert_allclose(weights[0][3] / weights[0][4], np.exp(logs[:, 3] - logs[:, 4]))


def test_it_says_what_the_file_was_taken_for(bench_json, tmp_path):
    np.savez(tmp_path / "a.npz", draws=exact(2, 40))
    code, _, said = bench_json("score", "mixture25", tmp_path / "a.npz", *WORDS, 0)
    assert code == 0
    assert "a.npz: 2 chains of 40 draws of 2 coordinates" in said


def small_file(path, kind):
    """A file of a few kilobytes whose array takes 80 GB as float64, or has more chains than a run may have."""
    if kind == "chains":
        np.savez_compressed(path.with_suffix(".npz"), draws=np.zeros((100_001, 1, 1), np.float16))
        return path.with_suffix(".npz")
    if kind == "npz":
        header = {"descr": "|b1", "fortran_order": False, "shape": (1, 10**9, 2)}
        content = io.BytesIO()
        np.lib.format.write_array_header_1_0(content, header)
        with zipfile.ZipFile(path.with_suffix(".npz"), "w") as archive:
            archive.writestr("draws.npy", content.getvalue())
        return path.with_suffix(".npz")
    if kind == "safetensors":
        header = json.dumps({"draws": {"dtype": "U8", "shape": [1, 2 * 10**9, 1], "data_offsets": [0, 2 * 10**9]}})
        with path.with_suffix(".safetensors").open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header.encode())
            file.truncate(8 + len(header) + 2 * 10**9)  # a hole: it takes no space
        return path.with_suffix(".safetensors")
    import pyarrow as pa
    from pyarrow import parquet as pq

    path = path.with_suffix(".parquet")
    if kind == "lists":
        column = pa.array([[0.0] * 1000] * 100)
        pq.write_table(pa.table({"chain": [0] * 100, "draw": range(100), "x": column}), path)
    elif kind == "texts":
        pq.write_table(pa.table({"chain": [0], "draw": [0], "x": ["x" * 1000]}), path)
    else:
        column = pa.array(np.zeros(60_000, np.int8))
        table = {"chain": column, "draw": pa.array(np.arange(60_000))} | {f"x{k}": column for k in range(200)}
        pq.write_table(pa.table(table), path)
    return path


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("npz", "states arrays of 16,000,000,000 bytes as float64"),
        ("safetensors", "states arrays of 16,000,000,000 bytes as float64"),
        ("chains", "there are 100,001 chains; a run has at most 100,000"),
        ("lists", "column 'x' is of type List(Float64), not of numbers"),
        ("texts", "column 'x' is of type String, not of numbers"),
        ("columns", "states arrays of 96,960,000 bytes as float64"),
    ],
)
def test_the_size_of_what_a_file_states_is_limited_before_it_is_decoded(tmp_path, monkeypatch, kind, why):
    if kind == "columns":
        monkeypatch.setattr("plugins.sharing.submission.LARGEST", 2**26)
    tracemalloc.start()
    with pytest.raises(DataError, match=re.escape(why)):
        read(small_file(tmp_path / "a", kind))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**28


def test_a_path_is_not_a_pattern(tmp_path):
    """Polars takes brackets and asterisks for a pattern, and reads all files that match it."""
    (tmp_path / "a[b]*").mkdir()
    parquet(tmp_path / "a[b]*/x.parquet", exact(1, 4))
    assert read(tmp_path / "a[b]*/x.parquet").draws.shape == (4, 1, 2)


@pytest.mark.parametrize(("option", "why"), [("--name", "be at most 64 long"), ("--about", "at most 1,000")])
def test_long_texts_are_refused(bench_json, tmp_path, option, why):
    np.savez(tmp_path / "a.npz", draws=exact(1, 4))
    words = [*WORDS, 0, option, "x" * 100_000]
    code, _, said = bench_json("score", "mixture25", tmp_path / "a.npz", *words)
    assert (code, len(said) < 300) == (2, True)
    assert why in said
    assert not (tmp_path / "r").exists()
