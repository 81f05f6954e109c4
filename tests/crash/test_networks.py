"""Runs of networks are as hard to lose as others: what they checkpoint is larger, and includes evaluations."""

import os
from pathlib import Path

import pytest
from crash.campaign import play
from crash.workload import Command, References

NETWORK = Command(("csghmc",), "notmnist", (0,), 1, ("--budget", "smoke", "--set", "task.width=20"), data=True)
there = (Path(os.environ.get("BENCH_DATA") or "/nowhere") / "MNIST").is_dir()


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    return References(tmp_path_factory.mktemp("references"))


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not there, reason="BENCH_DATA has no MNIST")
def test_a_network_that_is_killed_goes_on_bit_for_bit(references, tmp_path):
    record = play("kill -9 of the group", NETWORK, references, tmp_path / "round", seed=1)
    assert record["right"], record
    assert record["strikes"]
