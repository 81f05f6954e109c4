"""The record of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness import BenchError
from harness.contracts import Offer
from harness.contracts import data as files
from harness.tasks import TIERS, Protocol, Task
from plugins.inspection.shown.offers import head, hyperparameters, loaded, text


def task(offer: Offer) -> dict[str, Any]:
    """Return the record of a task: settings, sizes, protocols, metrics, data sets, truth.

    dimension    D
    terms        N
    batch_terms  n, the terms of a stochastic gradient
    curvature    largest eigenvalue of the Hessian at a mode; sgld is stable for h below 2/curvature
    truth        mean, sd, mcse (of the mean), sd_mcse, covariance; directions, and z3 and z4 along them; how. None if
                 it is not known
    tier         truth, reference (in function space) or none, and why
    """
    cls = loaded(offer)
    record = {**head(offer), "task_version": cls.version, "description": text(offer), "dtype": None}
    record |= {
        "settings": hyperparameters(offer),
        "protocols": [_protocol(p) for p in cls.protocols],
        "metrics": [
            {
                "metric": m.name, "direction": m.direction, "unit": m.unit, "summary": m.summary, "primary": i == 0,
                "target": m.target, "version": m.version,
            }
            for i, m in enumerate(cls.metrics)
        ],
        "data": [
            {"dataset": f.dataset, "path": f.path, "bytes": f.size, "status": files.problem(f) or "ok"}
            for f in cls.datasets
        ],
        "provides": sorted(cls.provides),
        "truth": None,
    }  # fmt: skip
    try:
        instance = cls()
    except Exception as error:  # noqa: BLE001 - a plugin may raise any error, and the rest of its page is still useful
        return record | {"note": f"it cannot be created from its defaults: {type(error).__name__}: {error}"}
    notes: list[str] = []
    record |= {
        "dtype": instance.dtype,
        "dimension": _value_or_note(instance.dim, notes),
        "terms": _value_or_note(instance.terms, notes),
        "batch_terms": _value_or_note(instance.batch_terms, notes),
        "curvature": _value_or_note(instance.curvature, notes),
        "truth": _value_or_note(lambda: truth(instance), notes),
        "tier": _value_or_note(lambda: tier(instance), notes),
    }
    return record | ({"note": "; ".join(dict.fromkeys(notes))} if notes else {})


def truth(task: Task) -> dict[str, Any] | None:
    """Return the moments of the target as plain lists, or None if they are not known."""
    known = task.truth()
    if known is None:
        return None
    moments = {"mean": known.mean, "sd": known.sd, "mcse": known.mean_mcse, "sd_mcse": known.sd_mcse}
    moments |= {"covariance": known.covariance, "directions": known.directions, "z3": known.z3, "z4": known.z4}
    return {**{name: np.asarray(values).tolist() for name, values in moments.items()}, "how": known.how}


def tier(task: Task) -> str:
    """Return a text that says how well the target is known, and why not better."""
    if (known := task.truth()) is not None:
        return f"truth ({known.how})"
    reference = task.function_reference()
    if reference is None:
        return f"none ({TIERS['none']})"
    return (
        f"none ({reference.how}; not used: {reference.refused})"
        if reference.refused
        else f"{reference.tier} ({reference.how})"
    )


def _value_or_note(question: Callable[[], Any], notes: list[str]) -> Any:
    """Return the result of `question`. If it raises an error, for example for missing data, note it and return None."""
    try:
        return question()
    except BenchError as error:
        notes.append(str(error))
        return None


def _protocol(protocol: Protocol) -> dict[str, Any]:
    of_budgets = [f"{budget}: {_listed(settings)}" for budget, settings in protocol.budget_settings.items()]
    return {
        "protocol": protocol.name,
        "budgets": ", ".join(f"{name} {steps}" for name, steps in protocol.budgets.items()),
        "chains": protocol.chains,
        "seeds": ", ".join(map(str, protocol.seeds)),
        "summary": protocol.summary,
        "settings": "; ".join([_listed(protocol.settings), *of_budgets]),
        "burn_in": protocol.burn_in,
        "thin": protocol.thin,
    }


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
