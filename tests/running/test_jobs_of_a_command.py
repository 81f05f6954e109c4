"""`bench run` starts the jobs that `bench plan` shows, whatever the devices, the launcher, and what is done before."""

import json

import pytest

from harness.cli.app import run as bench
from harness.contracts.registry import registry
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.ledger.ledger import Ledger
from harness.results.records import AttemptResult
from harness.runs import local
from harness.runs.plan import RunRequest, plan
from plugins.clusters import launching

WORDS = ["--sampler", "msgld,sgld", "--task", "cifar10", "--set", "run.compile=plain", "--seeds"]
FOUR = "cuda:0,cuda:1,cuda:2,cuda:3"


@pytest.fixture
def jobs_of(tmp_path, capsys, monkeypatch):
    """The sizes of the jobs that a command starts, which are those that its plan shows, in the same order."""
    started = []

    def note(blocks):
        started.append([{spec.key for spec in job.specs} for job in blocks])
        return local.LaunchSummary(detached=True)

    monkeypatch.setattr(local, "launch", lambda queue, *_, **__: note(queue))
    monkeypatch.setattr(launching.CommandLauncher, "launch", lambda _, blocks, __: note(blocks))

    def of(*words):
        capsys.readouterr()
        assert bench(["--results", str(tmp_path), "plan", *words, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert all((row["job"] is None) == (not row["to_do"]) for row in rows)
        numbers = sorted({row["job"] for row in rows if row["to_do"]})
        shown = [{row["run_key"] for row in rows if row["job"] == number} for number in numbers]
        bench(["--results", str(tmp_path), "run", *words])
        assert started.pop() == shown
        return sorted(map(len, shown), reverse=True)

    return of


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (["--devices", FOUR], [2, 1, 1, 1]),
        (["--devices", "cuda:1"], [5]),
        (["--devices", "cpu", "--workers", "3"], [1] * 5),
        (["--launcher", "slurm", "--set", "launcher.gpus=2", "launcher.jobs=2"], [2, 1, 1, 1]),
        (["--launcher", "slurm", "--set", "launcher.gpus=1", "launcher.jobs=1"], [5]),
    ],
    ids=["four GPUs", "a GPU", "cores", "two nodes of two GPUs", "a node"],
)
def test_a_command_starts_the_jobs_of_its_plan(jobs_of, how, expected):
    one = [word.replace("msgld,sgld", "msgld") for word in WORDS]
    assert jobs_of(*one, "0-4", *how) == expected
    assert sum(jobs_of(*WORDS, "0-4", *how)) == 10


def test_what_is_done_is_in_no_job_and_what_was_interrupted_is(jobs_of, tmp_path):
    ledger = Ledger(tmp_path)
    ledger.prepare()
    request = RunRequest(["msgld"], ["cifar10"], range(5), given={"run.compile": "plain"}, device="cuda")
    for item, event in zip(plan(registry(), request, ledger), ("", "", "", "cancelled", "started"), strict=True):
        attempt = Attempt.create(ledger.runs, item.spec, {"id": "0" * 64})
        if event:
            attempt.event(event)
        else:
            conclude(attempt, AttemptResult(run_key=item.spec.key, status="done"))
    words = [word.replace("msgld,sgld", "msgld") for word in WORDS]
    assert jobs_of(*words, "0-4", "--devices", FOUR) == [1, 1]
    assert jobs_of(*words, "0-6", "--devices", FOUR) == [1] * 4
