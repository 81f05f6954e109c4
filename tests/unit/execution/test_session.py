"""What a session writes when parts of a block fail, and what it refuses to write."""

from dataclasses import replace

import pytest
from sessions import finish, job, session, sessions

from harness.contracts.registry import registry
from harness.runs.plan import RunRequest, plan
from harness.runs.resume import check_code
from harness.system.errors import RunError


def test_an_observer_that_fails_takes_no_other_run_with_it(ledger):
    block = session(ledger, seeds=(0, 1, 2))

    def broken():
        raise ValueError("no outcome")

    block.loop.runs[1].observer.outcome = broken
    finish(block)
    block.fail(RuntimeError("later"), "trace")
    standings = [ledger.standing(spec.key) for spec in block.specs]
    assert [s.status for s in standings] == ["done", "error", "done"]
    assert standings[1].reason == "ValueError: no outcome"
    assert (standings[0].attempt.path / "draws.safetensors").stat().st_size > 1000


def test_a_stop_before_the_first_block_leaves_a_run_that_can_begin(ledger):
    session(ledger).suspend("cancelled")
    block = session(ledger, seeds=(0, 1))
    assert len(block.specs) == 2
    finish(block)
    assert [ledger.standing(spec.key).status for spec in block.specs] == ["done", "done"]
    assert len(ledger.attempts(block.specs[0].key)) == 1


def test_runs_at_different_places_go_on_in_sessions_of_their_own(ledger):
    block = session(ledger)
    block.advance()
    block.suspend("cancelled")
    opened = sessions(ledger, job(ledger, seeds=(0, 1)))
    assert [each.loop.position for each in opened] == [0, block.loop.position]


def test_code_that_changed_since_the_plan_is_not_run_under_its_key(ledger):
    work = job(ledger)
    check_code(work.specs)
    other = replace(work.specs[0], sampler=replace(work.specs[0].sampler, source="0" * 64))
    for use in (lambda: check_code([other]), lambda: sessions(ledger, replace(work, specs=[other]))):
        with pytest.raises(RunError, match="the code of sgld changed"):
            use()
    assert not ledger.attempts(other.key)


def test_a_diverged_run_is_told_once_and_costs_what_it_cost(ledger):
    said, settings = [], {"schedule.step_size": "0.99", "task.noise": "0"}
    (block,) = sessions(ledger, job(ledger, seeds=(0, 1), **settings), lambda kind, _: said.append(kind))
    block.loop.theta[0] = float("nan")
    block.advance()
    block.checkpoint()
    block.advance()
    finish(block)
    assert said.count("diverged") == 1
    lost, fine = (ledger.standing(spec.key).attempt.result() for spec in block.specs)
    assert (lost["status"], lost["step"], lost["chain"]) == ("diverged", 1, 0)
    assert (lost["steps_done"], fine["steps_done"]) == (300, 3000)


def test_the_cost_of_init_is_in_the_result(ledger):
    result = finish(session(ledger, "hmc")).result()
    assert result["passes"] == 1 + result["steps_done"] * result["passes_per_step"]


def test_a_refresh_costs_in_the_plan_what_it_costs_in_the_run(ledger):
    asked = RunRequest(["sgld-svrg"], ["mixture5"], seeds=[0], chains=2, budget="steps=3000")
    (planned,) = plan(registry(), asked, ledger)
    assert planned.passes == pytest.approx(1 + planned.spec.steps * (2 / 100 + 1 / 100))
    cost = session(ledger, "sgld-svrg").loop.cost
    assert cost.per_step == pytest.approx((planned.passes - 1) / planned.spec.steps)
