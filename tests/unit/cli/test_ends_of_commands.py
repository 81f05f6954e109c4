"""How a command ends when something is wrong: what is said, and with which exit code."""

from __future__ import annotations

import json

import pytest

from harness.cli import app, context
from harness.cli.app import run
from harness.cli.run import _ended
from harness.ledger.attempt import Attempt
from harness.ledger.ledger import Ledger

PLAN = ["plan", "--sampler", "sgld", "--task", "mixture5", "--budget", "smoke", "--seeds", "0"]


def test_ctrl_c_says_how_to_go_on(monkeypatch, capsys):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(app.app, "registered_commands", list(app.app.registered_commands))
    app.app.command("wait")(interrupt)
    assert run(["wait"]) == 130
    assert "interrupted; the same command goes on" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "page"), [(["run"], "run"), (["nosuch"], ""), (["ls", "--nosuch"], "ls")])
def test_a_usage_error_names_the_help_page(capsys, words, page):
    assert run(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{page} --help`" in said


@pytest.mark.parametrize("query", ["", ";", "select 1; select 2", "select 1; drop table run"])
def test_sql_takes_one_query(tmp_path, capsys, query):
    assert run(["--results", str(tmp_path), "sql", query]) == 2
    assert "one query at a time" in capsys.readouterr().err


def test_the_summary_counts_what_no_worker_finished():
    assert _ended([1, 2, 3], {"a": "done"}) == "1 done, 2 not finished"
    assert _ended([1], {"a": "done"}) == "1 done"
    assert _ended([], {}) == "nothing to do"


def test_nouns_are_counted():
    assert context.count(1, "run") == "1 run"
    assert context.count(0, "seed") == "0 seeds"


def test_a_plan_says_which_runs_have_a_checkpoint(tmp_path, capsys):
    from harness.cli.options import request
    from harness.execution.plan import plan

    ledger = Ledger(tmp_path)
    ledger.prepare()
    asked = request(["sgld"], ["mixture5"], "0", None, "smoke", None, None, None)
    [item] = plan(context.plugins(), asked, ledger)
    attempt = Attempt.create(ledger.runs, item.spec, {"id": "e"})

    def why():
        assert run(["--results", str(tmp_path), *PLAN, "--json"]) == 0
        [row] = json.loads(capsys.readouterr().out)
        assert (row["run_key"], row["task"]) == (item.spec.key, "mixture5")
        return row["why"]

    assert why() == "orphaned without a checkpoint: starts anew"
    attempt.save_checkpoint({})
    assert why() == "orphaned: goes on from its checkpoint"
    attempt.conclude({"status": "error", "reason": "boom", "seconds": {}})
    assert run(["--results", str(tmp_path), *PLAN]) == 0
    assert "1 run: 0 done before, 1 failed before, 0 to do" in capsys.readouterr().err
