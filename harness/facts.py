"""What the plan must know of a plugin's class, cached so that planning imports no torch.

`facts` makes the object with the given settings (which checks them) and notes what it says of itself; the answer is
kept in the user's cache under the hash of the class's code, so it is worked out once a version and setting.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.errors import BenchError, PluginError, UsageError
from harness.hookspecs import Info
from harness.parameters import Field, check, near, schema
from harness.registry import Offer, load
from harness.source import source_hash
from harness.spec import ENGINE

FORMAT = 1


def instance(target: str, params: Mapping[str, Any]) -> Any:
    """The object itself; every failure of a plugin's own code becomes a `PluginError` that names it."""
    cls = load(target)
    try:
        return cls(**params)
    except BenchError:
        raise
    except Exception as error:
        raise PluginError(f"{target} cannot be made from {dict(params)}: {type(error).__name__}: {error}") from error


def fields(offer: Offer) -> list[Field]:
    """The hyperparameters that the class of an offer declares."""
    raw = _cached(offer, "fields", {}, lambda: [dataclasses.asdict(f) for f in schema(load(_target(offer)))])
    return [Field(**{**record, "choices": tuple(record["choices"])}) for record in raw]


def resolve(offer: Offer, params: Mapping[str, Any]) -> dict[str, Any]:
    """The full, typed and checked parameters: those given, the class's defaults for the rest."""
    known = {field.name: field for field in fields(offer)}
    for name in params:
        if name not in known:
            raise UsageError(f"{offer.kind[:-1]} {offer.name} has no setting {name!r}{near(name, known)}")
    resolved = {}
    for name, field in known.items():
        value = params.get(name, field.default)
        if name not in params and field.required:
            kind = offer.kind[:-1]
            raise UsageError(f"{kind} {offer.name} needs {name}; give it by --set {kind}.{name}=VALUE")
        resolved[name] = check(field, value, where=offer.name)
    return resolved


def sampler_facts(offer: Offer, params: Mapping[str, Any]) -> dict[str, Any]:
    """Gradients a step, needs and stability limit (of h * curvature; None where not linear) of a sampler."""

    def describe() -> dict[str, Any]:
        from harness.conformance.linear import stability_limit

        sampler = instance(_target(offer), params)
        return {
            "gradients_per_step": sampler.gradients_per_step,
            "full_gradients_per_step": sampler.full_gradients_per_step,
            "needs": sorted(sampler.needs),
            "stability_limit": _rounded(stability_limit(sampler)),
        }

    return dict(_cached(offer, "sampler", params, describe))


def _rounded(limit: float | None) -> float | None:
    """Six digits: found by bisection, it is no more exact, and step sizes made of it stand in run keys."""
    return None if limit is None else float(f"{limit:.6g}")


def own_settings(offer: Offer, task: str) -> dict[str, Any]:
    """What the sampler's author recommends for a task, by dotted name."""
    return dict(_cached(offer, "settings", {"task": task}, lambda: dict(load(_target(offer)).settings(task))))


def schedule_facts(offer: Offer, params: Mapping[str, Any]) -> dict[str, Any]:
    """Nothing but the check that a schedule can be made from these parameters."""
    return dict(_cached(offer, "schedule", params, lambda: {"made": bool(instance(_target(offer), params))}))


def task_facts(offer: Offer, params: Mapping[str, Any]) -> dict[str, Any]:
    """Version, sizes, protocols, metrics, data files of a task with these parameters."""

    def describe() -> dict[str, Any]:
        task = instance(_target(offer), params)
        return {
            "version": task.version,
            "dtype": task.dtype,
            "dim": task.dim(),
            "terms": task.terms(),
            "batch_terms": task.batch_terms(),
            "steps_per_epoch": task.steps_per_epoch(),
            "curvature": task.curvature(),
            "max_block": task.max_block("cpu"),
            "provides": sorted(task.provides),
            "metrics": [dataclasses.asdict(m) for m in task.metrics],
            "datasets": [dataclasses.asdict(f) for f in task.datasets],
        }

    return dict(_cached(offer, "task", params, describe))


def protocols(offer: Offer) -> list[dict[str, Any]]:
    """The protocols of a task, the default first."""
    return list(_cached(offer, "protocols", {}, lambda: [_plain(p) for p in load(_target(offer)).protocols]))


def _plain(protocol: Any) -> dict[str, Any]:
    record = {f.name: getattr(protocol, f.name) for f in dataclasses.fields(protocol)}
    return {**record, "budgets": dict(protocol.budgets), "settings": dict(protocol.settings)}


def _target(offer: Offer) -> str:
    assert isinstance(offer.info, Info)
    return offer.info.target


def _cached(offer: Offer, kind: str, params: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    target = _target(offer)
    key = json.dumps([FORMAT, ENGINE, target, source_hash(target), kind, dict(params)], sort_keys=True)
    path = _folder() / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        pass
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a plugin prints must not mix with results
            value = json.loads(json.dumps(make()))
    except BenchError:
        raise
    except Exception as error:
        raise PluginError(f"{target} ({offer.distribution}): {type(error).__name__}: {error}") from error
    _write(path, value)
    return value


def _folder() -> Path:
    import platformdirs

    return Path(os.environ.get("BENCH_CACHE") or platformdirs.user_cache_dir("sgmcmc-bench")) / "facts"


def _write(path: Path, value: Any) -> None:
    """Best effort: a cache that cannot be written only costs time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps(value))
        aside.replace(path)
    except OSError:
        return
