"""The records of samplers, methods and schedules, and the parts that they share with the record of a task."""

from __future__ import annotations

import inspect
from typing import Any

from harness import BenchError, Info, Method, PluginError, Registry
from harness.contracts import Offer, load
from harness.runs import plugin_metadata


def loaded(offer: Offer) -> Any:
    """Return the class of an offer. `PluginError` if it does not load or the offer is a method."""
    if not isinstance(offer.info, Info):
        raise PluginError(f"{offer.name} is a method: it has no class of its own")
    return load(offer.target)


def head(offer: Offer) -> dict[str, Any]:
    """Return the first entries of every record."""
    target = offer.target or None
    return {
        "kind": offer.kind[:-1],
        "name": offer.name,
        "summary": offer.info.summary,
        "distribution": offer.distribution,
        "version": offer.version,
        "class": target,
    }


def text(offer: Offer) -> str:
    """Return the docstring of an offer's class: what it is, the equation, the source."""
    return inspect.cleandoc(loaded(offer).__doc__ or "")


def hyperparameters(offer: Offer) -> list[dict[str, Any]]:
    """Return a row for each hyperparameter: default, range, meaning, source of the default."""
    return [
        {
            "name": field.name,
            "default": None if field.required else field.default,
            "meaning": field.meaning,
            "allowed": ", ".join(field.choices) or field.allowed,
            "tuned within": field.tune,
            "source": field.source,
            "type": field.type,
            "required": field.required,
        }
        for field in plugin_metadata.fields(offer)
    ]


def sampler(offer: Offer, registry: Registry) -> dict[str, Any]:
    """Return the record of a sampler: description, hyperparameters, methods, and what the hook `bench_facts` adds."""
    cls = loaded(offer)
    record = {**head(offer), "description": text(offer), "hyperparameters": hyperparameters(offer)}
    record["methods"] = [
        {"method": known.name, "schedule": known.info.schedule, "summary": known.info.summary}
        for known in registry.offers("methods")
        if isinstance(known.info, Method) and known.info.sampler.rpartition(":")[2] == offer.name
    ]
    for facts in registry.facts("sampler"):
        record |= facts(offer, cls)
    return record


def schedule(offer: Offer) -> dict[str, Any]:
    """Return the record of a schedule: its description, with the equation, and its hyperparameters."""
    return {**head(offer), "description": text(offer), "hyperparameters": hyperparameters(offer)}


def launcher(offer: Offer) -> dict[str, Any]:
    """Return the record of a launcher: its description and its settings, `--set launcher.NAME=VALUE`."""
    settings = [
        {name: row[name] for name in ("name", "default", "meaning", "allowed", "type")}
        for row in hyperparameters(offer)
    ]
    return {**head(offer), "description": text(offer), "settings": settings}


def method(offer: Offer, registry: Registry) -> dict[str, Any]:
    """Return the record of a method: its sampler, schedule and settings, and the hyperparameters of both."""
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
