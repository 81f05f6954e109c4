"""Blocks of runs on mixture5, opened as a worker opens them."""

from __future__ import annotations

from harness.contracts.registry import registry
from harness.runs.job import Job
from harness.runs.plan import RunRequest, plan
from harness.runs.session import Session


def job(ledger, sampler="sgld", seeds=(0,), draws="some", **given):
    """The runs of these seeds, 3,000 steps of two chains, with these settings."""
    asked = RunRequest([sampler], ["mixture5"], seeds=list(seeds), chains=2, budget="steps=3000", given=given)
    specs = [planned.spec for planned in plan(registry(), asked, ledger)]
    return Job(specs, ledger.root, "cpu", "cpu-0", draws=draws)


def sessions(ledger, work, listen=lambda *_: None):
    """A session for all runs of a job that stand at the same step."""
    return list(Session.open_all(ledger, work.specs, work, listen))


def session(ledger, sampler="sgld", **how):
    """The one session of a job."""
    (block,) = sessions(ledger, job(ledger, sampler, **how))
    return block


def finish(block):
    """Advance a session to its end and return the first attempt."""
    while not block.finished:
        block.advance()
    block.conclude()
    return block.attempts[0]
