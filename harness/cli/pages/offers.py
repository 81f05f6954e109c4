"""The records of samplers, methods and schedules."""

from __future__ import annotations

import inspect
from typing import Any

from harness import facts
from harness.cli.classes import loaded
from harness.errors import BenchError
from harness.hookspecs import Info, Method
from harness.registry import Offer, Registry


def head(offer: Offer) -> dict[str, Any]:
    """What every record starts with."""
    target = offer.info.target if isinstance(offer.info, Info) else None
    return {
        "kind": offer.kind[:-1],
        "name": offer.name,
        "summary": offer.info.summary,
        "distribution": offer.distribution,
        "version": offer.version,
        "class": target,
    }


def text(offer: Offer) -> str:
    """The docstring of its class: what it is, the equation, the source."""
    return inspect.cleandoc(loaded(offer).__doc__ or "")


def hyperparameters(offer: Offer) -> list[dict[str, Any]]:
    """A row for each hyperparameter: default, range, meaning, source of the default."""
    return [
        {
            "name": field.name,
            "default": None if field.required else field.default,
            "required": field.required,
            "type": field.type,
            "allowed": ", ".join(field.choices) or field.allowed,
            "meaning": field.meaning,
            "source": field.source,
        }
        for field in facts.fields(offer)
    ]


def sampler(offer: Offer) -> dict[str, Any]:
    """A sampler: equation, cost, state, needs, hyperparameters, stability limit, limit bias.

    stability_limit   largest h times curvature that is stable, at the defaults; None where the sampler is not linear
    limit_bias        stationary variance over T/curvature as h goes to 0; 1 where the target is exact in that limit
    """
    cls = loaded(offer)
    record = {**head(offer), "description": text(offer), "hyperparameters": hyperparameters(offer)}
    record |= {
        "needs": sorted(cls.needs), "adaptive": list(cls.adaptive), "zero_temperature": cls.zero_temperature,
        "exempt": [{"law": law, "reason": reason} for law, reason in cls.exempt.items()],
    }  # fmt: skip
    unknown = ("gradients_per_step", "full_gradients_per_step", "stability_limit", "limit_bias", "state")
    record |= dict.fromkeys(unknown)
    if any(row["required"] for row in record["hyperparameters"]):
        return record | {"note": "it has no defaults for all hyperparameters, so what follows from them is not shown"}
    try:
        made = cls()
        found = facts.sampler_facts(offer, {})
        record |= {name: found[name] for name in unknown[:3]}
        return record | {"limit_bias": made.limit_bias(), "state": _state(made)}
    except Exception as error:  # noqa: BLE001 - a plugin may fail in any way, and its page is still worth showing
        return record | {"note": f"what follows from the defaults is not shown: {type(error).__name__}: {error}"}


def _state(made: Any) -> list[str]:
    """The names of what it carries from step to step."""
    from harness.conformance.linear import Probe

    return sorted(Probe(made, h=0.01, T=1.0, dim=2).start)


def schedule(offer: Offer) -> dict[str, Any]:
    """A schedule: equation and hyperparameters."""
    return {**head(offer), "description": text(offer), "hyperparameters": hyperparameters(offer)}


def method(offer: Offer, registry: Registry) -> dict[str, Any]:
    """A method: its sampler and schedule, the settings that make the pairing, and the hyperparameters of both."""
    assert isinstance(offer.info, Method)
    record = {**head(offer), "sampler": offer.info.sampler, "schedule": offer.info.schedule}
    record["settings"] = [{"setting": name, "value": value} for name, value in offer.info.settings.items()]
    rows = []
    for kind in ("samplers", "schedules"):
        try:
            part = registry.find(kind, getattr(offer.info, kind[:-1]))
            rows += [{**row, "name": f"{kind[:-1]}.{row['name']}"} for row in hyperparameters(part)]
            record[f"{kind[:-1]}_description"] = text(part)
        except BenchError as error:
            record["note"] = str(error)
    return record | {"hyperparameters": rows}
