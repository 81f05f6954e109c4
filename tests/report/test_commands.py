"""The command that a page or a message gives for a run makes that very run."""

import shlex

import pytest

from harness.cli.app import run
from harness.reporting.commands import run_command
from harness.results.store import Store

HERE = ["--task", "mixture5", "--chains", "2", "--budget", "steps=20", "--seeds", "3,7"]


@pytest.mark.parametrize(
    "asked",
    [
        ["--sampler", "csgld", "--set", "schedule.explore_with_noise=true", "schedule.samples_per_cycle=none"],
        ["--sampler", "sgld", "--schedule", "cyclical"],
        ["--sampler", "hmc", "--sweep", "sampler.leapfrog=2,3", "run.thin=1,2"],
    ],
)
def test_the_command_of_a_run_asks_for_the_run(asked, tmp_path, capsys):
    assert run(["--results", str(tmp_path), "run", *HERE, *asked]) == 0
    assert run(["--results", str(tmp_path), "ingest"]) == 0
    rows = Store(tmp_path).rows("select * from run_status order by run_key")
    commands = {run_command(row, [3, 7]) for row in rows}
    assert len(commands) == len(rows) / 2 > 0
    for command in commands:
        capsys.readouterr()
        assert run(["--results", str(tmp_path), *shlex.split(command)[1:]]) == 0
        assert "2 runs: 2 done before, 0 to do" in capsys.readouterr().err
