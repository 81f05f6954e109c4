"""What a session writes when parts of a block fail, and what it refuses to write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.contracts.registry import registry
from harness.runs.job import Job
from harness.runs.plan import RunRequest, plan
from harness.runs.resume import check_code
from harness.runs.session import Session
from harness.system.errors import RunError


def block(ledger, sampler="sgld", seeds=(0, 1, 2), **given):
    asked = RunRequest([sampler], ["mixture5"], seeds=list(seeds), chains=2, budget="steps=3000", given=given)
    specs = [p.spec for p in plan(registry(), asked, ledger)]
    return specs, Job(specs, ledger.root, "cpu", "cpu-0")


def sessions(ledger, specs, job):
    said = []
    return list(Session.open_all(ledger, specs, job, lambda kind, payload: said.append((kind, payload)))), said


def finish(session):
    while not session.finished:
        session.advance()
    session.conclude()


def test_an_observer_that_fails_takes_no_other_run_with_it(ledger):
    specs, job = block(ledger)
    (session,), _ = sessions(ledger, specs, job)

    def broken():
        raise ValueError("no outcome")

    session.loop.runs[1].observer.outcome = broken
    finish(session)
    session.fail(RuntimeError("later"), "trace")
    standings = [ledger.standing(spec.key) for spec in specs]
    assert [s.status for s in standings] == ["done", "error", "done"]
    assert standings[1].reason == "ValueError: no outcome"
    assert (standings[0].attempt.path / "draws.safetensors").stat().st_size > 1000


def test_a_stop_before_the_first_block_leaves_a_run_that_can_begin(ledger):
    specs, job = block(ledger, seeds=(0,))
    (session,), _ = sessions(ledger, specs, job)
    session.suspend("cancelled")
    more, job = block(ledger, seeds=(0, 1))
    (session,), _ = sessions(ledger, more, job)
    assert len(session.specs) == 2
    finish(session)
    assert [ledger.standing(spec.key).status for spec in more] == ["done", "done"]
    assert len(ledger.attempts(more[0].key)) == 1


def test_runs_at_different_places_go_on_in_sessions_of_their_own(ledger):
    specs, job = block(ledger, seeds=(0,))
    (session,), _ = sessions(ledger, specs, job)
    session.advance()
    session.suspend("cancelled")
    more, job = block(ledger, seeds=(0, 1))
    found, _ = sessions(ledger, more, job)
    assert [s.loop.position for s in found] == [0, session.loop.position]


def test_code_that_changed_since_the_plan_is_not_run_under_its_key(ledger):
    specs, _ = block(ledger, seeds=(0,))
    check_code(specs)
    other = replace(specs[0], sampler=replace(specs[0].sampler, source="0" * 64))
    with pytest.raises(RunError, match="the code of sgld changed"):
        check_code([other])
    with pytest.raises(RunError, match="the code of sgld changed"):
        sessions(ledger, [other], Job([other], ledger.root, "cpu", "cpu-0"))
    assert not ledger.attempts(other.key)


def test_a_diverged_run_is_told_once_and_costs_what_it_cost(ledger):
    specs, job = block(ledger, seeds=(0, 1), **{"schedule.step_size": "0.99", "task.noise": "0"})
    (session,), said = sessions(ledger, specs, job)
    session.loop.theta[0] = float("nan")
    session.advance()
    session.checkpoint()
    session.advance()
    finish(session)
    assert [kind for kind, _ in said].count("diverged") == 1
    lost, fine = (ledger.standing(spec.key).attempt.result() for spec in specs)
    assert (lost["status"], lost["step"], lost["chain"]) == ("diverged", 1, 0)
    assert (lost["steps_done"], fine["steps_done"]) == (300, 3000)


def test_the_cost_of_init_is_in_the_result(ledger):
    specs, job = block(ledger, "hmc", seeds=(0,))
    (session,), _ = sessions(ledger, specs, job)
    finish(session)
    result = ledger.standing(specs[0].key).attempt.result()
    assert result["passes"] == 1 + result["steps_done"] * result["passes_per_step"]


def test_a_refresh_costs_in_the_plan_what_it_costs_in_the_run(ledger):
    specs, job = block(ledger, "sgld-svrg", seeds=(0,))
    asked = RunRequest(["sgld-svrg"], ["mixture5"], seeds=[0], chains=2, budget="steps=3000")
    (planned,) = plan(registry(), asked, ledger)
    (session,), _ = sessions(ledger, specs, job)
    assert planned.passes == pytest.approx(1 + planned.spec.steps * (2 / 100 + 1 / 100))
    assert session.loop.cost.per_step == pytest.approx((planned.passes - 1) / planned.spec.steps)
