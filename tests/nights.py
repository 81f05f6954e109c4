"""Made-up nights: concluded attempts for all runs of a suite, at the keys that `bench nightly` plans."""

from __future__ import annotations

import fabricated
import numpy as np
from safetensors.numpy import save

from harness.contracts.registry import registry
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.ledger.ledger import Ledger
from harness.results.records import ValueRow
from harness.runs.plan import plan
from harness.runs.source import equal_code
from plugins.nights.suite import complete, read

TINY = """
summary = "A tiny one."
reports = ["coverage", "leaderboard"]

[[run]]
samplers = ["sgld", "hmc"]
tasks = ["mixture5"]
seeds = "0-4"
budget = "smoke"
"""


def write_suite(folder, text=TINY, name="tiny.toml"):
    path = folder / name
    path.write_text(text)
    return path


def fabricate(results, suite, values, status="done", only=lambda spec: True, **details):  # noqa: ARG005
    """Conclude every run of a suite that is new and `only` takes; `values(spec)` are its metrics by name.

    `details` are those of `made_up`.
    """
    ledger = Ledger(results)
    ledger.prepare()
    for entry in complete(read(suite), registry(), results)[0].entries:
        for planned in plan(registry(), entry, ledger):
            if planned.standing.cached or not only(planned.spec):
                continue
            made_up(ledger, planned.spec, values(planned.spec), status, **details)


def made_up(ledger, spec, values, status="done", errors=None, **environment):
    """Conclude a run, as if today's code had made it; `errors(spec)` are the errors (C, n) behind its joint error."""
    attempt = Attempt.create(ledger.runs, spec, fabricated.environment(**environment))
    attempt.event("started", code=equal_code(spec))
    if errors is not None and status == "done":
        y = errors(spec)
        curve = {"joint_error/x": np.arange(y.shape[1], dtype=float), "joint_error/y": y}
        (attempt.path / "curves.safetensors").write_bytes(save(curve))
    conclude(attempt, _result(spec, values, status))


def _result(spec, values, status):
    about = {"wasserstein2": ("1", "min"), "modes_covered": ("modes", "max"), "joint_error": ("1", "min")}
    metrics = tuple(
        ValueRow(name=name, value=value, unit=about[name][0], direction=about[name][1], summary="", is_primary=i == 0)
        for i, (name, value) in enumerate(values.items())
    )
    done = status == "done"
    how = {} if done else {"reason": f"made up: {status}", "step": 7, "chain": 1}
    return fabricated.ended(
        spec.key, status=status, **how, metrics=metrics if done else (), seconds_sampling=2.0, seconds_observing=1.0,
        seconds_checkpoint=0.0, seconds_setup=0.5, steps_done=spec.steps, passes=float(spec.steps), draws_kept=100,
        draws_stored=0,
    )  # fmt: skip
