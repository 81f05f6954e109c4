"""How a command ends when something is wrong: what is said, and with which exit code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.app import run
from harness.contracts.plugin_errors import plugin_code
from harness.contracts.registry import registry
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.ledger.ledger import Ledger
from harness.results.records import AttemptResult

PLAN = ["plan", "--sampler", "sgld", "--task", "mixture5", "--budget", "smoke", "--seeds", "0"]


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted; repeat the command to resume"),
        (MemoryError(), 1, "not enough memory; "),
        (SystemExit(7), 3, "a plugin ended the program (exit code 7)"),
    ],
)
def test_an_end_from_inside_is_said(monkeypatch, capsys, error, code, words):
    def verb():
        raise error

    monkeypatch.setattr("plugins.inspection.plugins.plugins", verb)
    assert run(["plugins"]) == code
    assert words in capsys.readouterr().err


def test_ctrl_c_within_a_declaration_is_said(monkeypatch, capsys):
    """Python makes a RuntimeError of whatever is raised in `__set_name__`, and `load` makes that a PluginError."""

    class Field:
        def __set_name__(self, owner, name):
            raise KeyboardInterrupt

    def verb():
        with plugin_code("m:A does not load"):
            type("Declared", (), {"field": Field()})

    monkeypatch.setattr("plugins.inspection.plugins.plugins", verb)
    assert run(["plugins"]) == 130
    assert "interrupted; repeat the command to resume" in capsys.readouterr().err


def test_a_reader_that_is_gone_is_no_error():
    program = "from harness.cli import main; main(['ls', 'samplers'])"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("words", [["ls", "runs"], ["report", "leaderboard"], ["sql", "select 1"], ["ingest"]])
def test_a_folder_of_a_newer_version_is_not_read(tmp_path, capsys, words):
    (tmp_path / "ledger.json").write_text('{"layout": 99}')
    assert run(["--results", str(tmp_path), *words]) == 4
    assert "newer version (layout 99" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given_by", "words"),
    [("option", ["ls", "runs"]), ("option", PLAN), ("variable", ["gc"]), ("working directory", ["ingest"])],
)
def test_a_folder_that_is_not_utf8_is_refused(tmp_path, monkeypatch, capsys, words, given_by):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    Path(folder).mkdir()
    monkeypatch.delenv("BENCH_RESULTS", raising=False)
    if given_by == "variable":
        monkeypatch.setenv("BENCH_RESULTS", folder)
    elif given_by == "working directory":
        monkeypatch.chdir(folder)
    assert run([*(["--results", folder] if given_by == "option" else []), *words]) == 4
    assert "is not UTF-8; choose another folder" in capsys.readouterr().err
    assert not list(Path(folder).iterdir())


@pytest.mark.parametrize("folder", ["/proc", "/sys/x", "/dev/null", "a file/x"])
def test_where_nothing_can_be_written_is_said(tmp_path, monkeypatch, capsys, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file").touch()
    assert run(["--results", folder, "run", *PLAN[1:]]) == 4
    assert re.search(r"cannot write results to|is a file", capsys.readouterr().err)
    for words in (["sql", "from run"], ["status"], ["gc"], ["ingest"])[: 4 if folder == "/proc" else 1]:
        code = run(["--results", folder, *words])
        said = capsys.readouterr().err
        assert code in (0, 4), (words, said)
        assert "internal" not in said, (words, said)


@pytest.mark.parametrize(
    ("words", "megabytes", "what", "enough"),
    [
        (["run", *PLAN[1:]], 1500, "`bench run`", 2),
        (["run", *PLAN[1:]], 3000, "a worker", 4),
        (["ls", "runs"], 400, "`bench ls`", 2),
        (["report"], 1200, "`bench report`", 2),
    ],
)
def test_a_limit_on_memory_that_is_too_low_is_said(tmp_path, words, megabytes, what, enough):
    limit = f"resource.setrlimit(resource.RLIMIT_AS, ({megabytes} * 2**20,) * 2)"
    program = f"import resource; {limit}; import harness.cli; harness.cli.main()"
    command = [sys.executable, "-c", program, "--results", str(tmp_path), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(
        f"bench: too little memory for {what}; its address space is limited to {megabytes / 1024:.1f} GiB: "
        f"raise the limit (`ulimit -v`) to {enough} GiB or more\n"
    )


def test_a_plan_says_why_a_run_is_to_do(tmp_path, capsys):
    from harness.runs.plan import plan
    from plugins.running.request import request

    ledger, other = Ledger(tmp_path), ("--chains", "3")
    ledger.prepare()
    [item] = plan(registry(), request(["sgld"], ["mixture5"], "0", None, "smoke", None, None, None), ledger)
    attempt = Attempt.create(ledger.runs, item.spec, {"id": "e"})

    def why(*words):
        assert run(["--results", str(tmp_path), *PLAN, *words, "--json"]) == 0
        [row] = json.loads(capsys.readouterr().out)
        assert (row["run_key"] == item.spec.key, row["task"]) == (not words, "mixture5")
        return row["why"]

    assert (why(), why(*other)) == ("orphaned without a checkpoint: starts again", "never run")
    attempt.save_checkpoint({})
    assert why() == "orphaned: resumes from its checkpoint"
    conclude(attempt, AttemptResult(status="error", reason="boom"))
    assert why(*other) == "never run"
    assert run(["--results", str(tmp_path), *PLAN]) == 0
    assert "1 run: 0 done before, 1 failed before, 0 to do" in capsys.readouterr().err
    conclude(Attempt.create(ledger.runs, item.spec, {"id": "e"}), AttemptResult(status="done"))
    assert why(*other) == "differs from a finished run in chains"
