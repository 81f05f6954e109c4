"""`bench reproduce`: what it runs, what it leaves out and says so, what it refuses."""

import json

import numpy as np
import pytest

from harness.cli.app import run


def test_reproduce_runs_what_is_missing_and_prints_the_ledger(tmp_path, capsys):
    words = [
        "--results",
        str(tmp_path / "r"),
        "reproduce",
        "csgmcmc",
        "--table",
        "4",
        "--budget",
        "smoke",
        "--seeds",
        "0,1",
    ]
    assert run([*words, "--workers", "1"]) == 0
    shown = capsys.readouterr()
    assert "At other budgets" in shown.out
    assert "8 to do" not in shown.err
    assert shown.err.count("4 runs: 0 done before, 4 to do") == 2
    assert run([*words, "--workers", "1", "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err.count("4 done before, 0 to do") == 2
    records = json.loads(shown.out)
    assert np.unique([r["seeds"] for r in records if r["budget"] == "smoke"]).tolist() == [2]


def test_what_needs_a_gpu_is_left_out_and_named(tmp_path, capsys):
    assert run(["--results", str(tmp_path / "r"), "reproduce", "csgmcmc", "--table", "1", "--table", "3"]) == 0
    shown = capsys.readouterr()
    assert "cifar10@csgmcmc: sgd, sgdm" in shown.err
    assert "left out: it needs a GPU; --devices cuda:0" in shown.err
    assert "imagenet@csgmcmc: " in shown.err
    assert not (tmp_path / "r").exists()


def test_data_that_is_not_there_is_left_out_and_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    assert run(["--results", str(tmp_path / "r"), "reproduce", "csgmcmc", "--table", "5"]) == 0
    shown = capsys.readouterr()
    assert shown.err.count("left out") == 3
    assert "blr-heart@csgmcmc: sgld, csgld, sghmc, csghmc left out" in shown.err


@pytest.mark.parametrize("words", [["nobody"], ["--table", "99"], ["--budget", "steps=5"]])
def test_what_does_not_exist_is_a_usage_error(tmp_path, capsys, words):
    assert run(["--results", str(tmp_path / "r"), "reproduce", *words]) == 2
    assert "internal error" not in capsys.readouterr().err
