"""`bench score`: rows of what other software made."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from harness.cli.app import run
from harness.contracts.predictions import AVERAGED
from tasks.synthetic.mixture25 import Mixture25

WORDS = ["--name", "exact", "--passes", "2000", "--warmup", "1000", "--seed"]


@pytest.fixture
def bench(tmp_path, capsys):
    def command(*words):
        code = run(["--results", str(tmp_path / "r"), "--json", *map(str, words)])
        said = capsys.readouterr()
        return code, json.loads(said.out or "[]"), said.err

    return command


def exact(chains=2, draws=1500, seed=0):
    return Mixture25().sample(chains * draws, np.random.default_rng(seed)).reshape(chains, draws, 2)


def parquet(path, draws):
    import polars as pl

    chain, draw = (index.ravel() for index in np.indices(draws.shape[:2]))
    columns = {"draw": draw, "chain": chain, "x": draws[..., 0].ravel(), "y": draws[..., 1].ravel()}
    pl.DataFrame(columns).sample(fraction=1, shuffle=True, seed=1).write_parquet(path)


def test_exact_draws_are_right_in_every_format_and_stand_in_a_division_of_their_own(bench, tmp_path):
    draws = exact()
    np.savez(tmp_path / "a.npz", draws=draws)
    save_file({"draws": draws}, tmp_path / "a.safetensors")
    parquet(tmp_path / "a.parquet", draws)
    found = []
    for seed, suffix in enumerate(("npz", "safetensors", "parquet")):
        code, rows, said = bench("score", "mixture25", tmp_path / f"a.{suffix}", *WORDS, seed)
        assert code == 0, said
        found.append({row["metric"]: row["value"] for row in rows})
    assert found[0]["joint_error"] < 0.01
    assert found[0] == found[1] == found[2]
    code, rows, said = bench("report", "leaderboard")
    assert {(row["method"], row["protocol"], row["seeds"]) for row in rows} == {("exact", "elsewhere", 3)}, said
    code, rows, _ = bench("ls", "runs")
    assert {row["passes"] for row in rows} == {2000.0}
    code, _, said = bench("replay", rows[0]["run_key"][:12])
    assert code != 0
    assert "made by other software" in said


def test_weights_count(bench, tmp_path):
    draws = exact(1, 4000)
    far = np.concatenate([draws, draws + 100], axis=1)
    logs = np.where(np.arange(8000) < 4000, 0.0, -1000.0)[None]
    np.savez(tmp_path / "a.npz", draws=far, log_weights=logs)
    code, rows, said = bench("score", "mixture25", tmp_path / "a.npz", *WORDS, 0)
    assert code == 0, said
    assert {row["metric"]: row["value"] for row in rows}["mean_error"] < 0.1


def test_a_seed_is_scored_once_and_other_words_are_another_row(bench, tmp_path):
    np.savez(tmp_path / "a.npz", draws=exact())
    for words, code in (((), 0), ((), 2), (("--about", "float32"), 0)):
        assert bench("score", "mixture25", tmp_path / "a.npz", *WORDS, 0, *words)[0] == code
    assert len({row["group"] for row in bench("report", "leaderboard")[1]}) == 2


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
    import polars as pl

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
        ("a.npz", {"probabilities": np.full((4, 2), 0.5)}, "mixture25 predicts nothing"),
        ("a.npz", {"probabilities": np.array([[0.5, 0.6]])}, "row 0 are not positive numbers that add up to 1"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_leaves_nothing(bench, tmp_path, name, content, message):
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        np.savez(tmp_path / name, **content)
    code, rows, said = bench("score", "mixture25", tmp_path / name, *WORDS, 0)
    assert code in (2, 4)
    assert not rows
    assert message in said
    assert "executed" not in said
    assert not list(tmp_path.glob("r/runs/*/*/*"))


def test_a_small_file_that_becomes_a_large_one_is_not_read(bench, tmp_path, monkeypatch):
    from plugins.verbs.upkeep import submission

    monkeypatch.setattr(submission, "LARGEST", 2**23)
    (tmp_path / "a.npz").write_bytes(deflated(2**24))
    (tmp_path / "a.parquet").write_bytes(frame(chain=[0] * 2**20, draw=[0] * 2**20, x=[0.0] * 2**20))
    for name in ("a.npz", "a.parquet"):
        assert (tmp_path / name).stat().st_size < 2**17
        code, _, said = bench("score", "mixture25", tmp_path / name, *WORDS, 0)
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
def test_wrong_declarations_are_refused(bench, tmp_path, words, message):
    np.savez(tmp_path / "a.npz", draws=exact(1, 10))
    code, _, said = bench("score", "mixture25", tmp_path / "a.npz", *words)
    assert code == 2
    assert message in said


@pytest.mark.data
def test_predictions_are_scored_as_the_tasks_own_are(bench, tmp_path):
    """The mean of a run's predictions, sent as predictions, gives that run's scores."""
    code, rows, said = bench("run", "--sampler", "sgld", "--task", "landsat", "--seeds", "0", "--budget", "smoke")
    assert code == 0, said
    path = next((tmp_path / "r").glob("runs/*/*/*/arrays.safetensors"))
    np.savez(tmp_path / "p.npz", probabilities=load_file(path)["probabilities"])
    own = json.loads(next((tmp_path / "r").glob("runs/*/*/*/result.json")).read_text())["metrics"]
    code, rows, said = bench("score", "landsat", tmp_path / "p.npz", "--name", "a", "--passes", 5, "--seed", 0)
    assert code == 0, said
    wanted = {metric["name"]: metric["value"] for metric in own}
    for row in rows:
        if row["metric"] in {metric.name for metric in AVERAGED}:
            assert row["value"] == pytest.approx(wanted[row["metric"]], rel=1e-5)
