"""A RunSpec made up, and a result of it, for tests that run nothing."""

from __future__ import annotations

import dataclasses

from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.records import AttemptResult
from harness.results.spec import Component, Execution, Origin, RunSpec


def run_spec(seed=0, **changes):
    part = {"target": "m:C", "source": "0" * 64}
    fields = {
        "sampler": Component(name="sgld", params={"a": 1.0}, **part),
        "schedule": Component(name="constant", params={"step_size": 0.1}, **part),
        "task": Component(name="mixture5", params={}, **part),
        "task_version": 1, "protocol": "p", "data": "", "steps": 10, "burn_in": 0, "thin": 1, "seed": seed,
        "chains": 2, "method": "sgld", "budget": "smoke", "origins": {"a": Origin(1, "user")},
    }  # fmt: skip
    execution = {f.name: changes.pop(f.name) for f in dataclasses.fields(Execution) if f.name in changes}
    return RunSpec(execution=Execution(**{"dtype": "float64", **execution}), **{**fields, **changes})


def concluded(ledger, seed=0, **result):
    """An attempt that is done."""
    ledger.prepare()
    attempt = Attempt.create(ledger.runs, run_spec(seed), {"id": "0" * 64})
    conclude(attempt, AttemptResult(run_key=run_spec(seed).key, status="done", **result))
    return attempt
