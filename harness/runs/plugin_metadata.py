"""What the plan must know of a plugin's class, cached so that planning imports no torch.

`facts` makes the object with the given settings (which checks them) and notes what it says of itself. The answer is
kept in the user's cache under the hashes of the class's code and of the code that asks it, so it is worked out once a
version and setting. Plugins from outside are asked in a child process, so that one that hangs or crashes is an error
of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.contracts.data import DataFile
from harness.contracts.entry_points import HARNESS
from harness.contracts.parameters import Field, check, schema, suggestions
from harness.contracts.plugin_errors import plugin_code
from harness.contracts.registry import Offer, Registry, load
from harness.contracts.sampler import Sampler
from harness.results.spec import ENGINE, RunSpec
from harness.runs.source import content_hash, hash_of
from harness.system import cache
from harness.system.errors import BenchError, PluginError, RunError, UsageError

if TYPE_CHECKING:
    from harness.contracts.schedule import Trajectory

DTYPES = ("float32", "float64")
CHECKED = 100_000
"""Steps that a sampler checks at once: as Python's numbers they take four times their memory."""


def instance(target: str, params: Mapping[str, Any]) -> Any:
    """The object itself; every failure of a plugin's own code becomes a `PluginError` that names it."""
    cls = load(target)
    with plugin_code(f"{target} cannot be made from {dict(params)!r:.200}"):
        return cls(**params)


def fields(offer: Offer) -> list[Field]:
    """The hyperparameters that the class of an offer declares."""
    return [Field(**{**record, "choices": tuple(record["choices"])}) for record in _cached(offer, "fields")]


def resolve(offer: Offer, params: Mapping[str, Any]) -> dict[str, Any]:
    """The typed and checked parameters: those given, the class's defaults for the rest.

    A parameter declared `later` is omitted at its default, so that earlier keys do not change.
    """
    known = {field.name: field for field in fields(offer)}
    for name in params:
        if name not in known:
            raise UsageError(f"{offer.kind[:-1]} {offer.name} has no setting {name!r:.80}{suggestions(name, known)}")
    resolved = {}
    for name, field in known.items():
        value = params.get(name, field.default)
        if name not in params and field.required:
            kind = offer.kind[:-1]
            raise UsageError(f"{kind} {offer.name} needs {name}; give it by --set {kind}.{name}=VALUE")
        value = check(field, value, where=offer.name)
        if not (field.later and value == field.default):
            resolved[name] = value
    return resolved


def sampler_facts(offer: Offer, params: Mapping[str, Any]) -> dict[str, Any]:
    """Gradients a step, needs and stability limit (of h * curvature; None where not linear) of a sampler.

    `optimiser`: it draws no noise, and can make a warm start.

    `never_compiled`: the reason of its exemption from the law `compiled`, None without one. `free_step`: h has no
    unit, and the limit is one of h itself.
    """
    return dict(_cached(offer, "sampler", params))


def weighs(offer: Offer) -> bool:
    """Whether the draws of a sampler have importance weights."""
    return bool(_cached(offer, "weighs"))


def step_limit(
    sampler: Offer, sampler_params: Mapping[str, Any], task: Offer, task_params: Mapping[str, Any]
) -> float | None:
    """The step size at which a sampler becomes unstable on a task, the limit over the curvature; None if unknown."""
    facts = sampler_facts(sampler, sampler_params)
    limit = facts["stability_limit"]
    curvature = 1.0 if facts["free_step"] else task_facts(task, task_params)["curvature"]
    return limit / curvature if limit and curvature and math.isfinite(limit) else None


def _sampler(target: str, params: Mapping[str, Any]) -> dict[str, Any]:
    from harness.engine.stability import working_limit

    sampler = instance(target, params)
    counts = {name: _whole(sampler, name, 0) for name in ("gradients_per_step", "full_gradients_per_step")}
    if not any(counts.values()):
        raise PluginError(f"{target} makes no gradient call a step: it declares {counts}")
    return {
        **counts,
        "full_gradients_at_start": _whole(sampler, "full_gradients_at_start", 0),
        "refresh_every": _whole(sampler, "refresh_every", 0),
        "needs": sorted(sampler.needs),
        "least_dimension": _whole(sampler, "least_dimension", 1),
        "never_compiled": sampler.exempt.get("compiled"),
        "optimiser": sampler.limit_bias() == 0 and sampler.particles == 1 and not sampler.refresh_every,
        "stability_limit": _rounded(limit := working_limit(sampler)),
        "free_step": limit is not None and sampler.step_unit == 0,
    }


def _whole(made: Any, name: str, least: int, most: int | None = None, *arguments: Any) -> int:
    """What an object says of itself in whole numbers, by an attribute or a method."""
    value = getattr(made, name)
    value = value(*arguments) if callable(value) else value
    if type(value) is not int or value < least or (most is not None and value > most):
        limits = f"from {least} to {most}" if most is not None else f"of at least {least}"
        raise PluginError(f"{type(made).__name__}.{name} is {value!r:.40}, not a whole number {limits}")
    return value


def _rounded(limit: float | None) -> float | None:
    """Six digits: found by bisection, it is no more exact, and step sizes made of it stand in run keys."""
    return None if limit is None else float(f"{limit:.6g}")


def own_settings(offer: Offer, task: str) -> dict[str, Any]:
    """What the sampler's author recommends for a task, by dotted name."""
    return dict(_cached(offer, "settings", {"task": task}))


def schedule_facts(offer: Offer, params: Mapping[str, Any]) -> dict[str, Any]:
    """Nothing but the check that a schedule can be made from these parameters."""
    return dict(_cached(offer, "schedule", params))


def trajectory(spec: RunSpec, steps_per_epoch: int) -> Trajectory:
    """Every step of a run; raises what its schedule, or its sampler's `check_steps`, has against the settings."""
    sampler = instance(spec.sampler.target, spec.sampler.params)
    made: Trajectory = instance(spec.schedule.target, spec.schedule.params).trajectory(spec.steps, steps_per_epoch)
    if len(made) != spec.steps:
        raise PluginError(f"schedule {spec.schedule.name} made {len(made)} steps where {spec.steps} were asked for")
    made = made.with_burn_in(spec.burn_in, spec.thin)
    for part in (slice(k, k + CHECKED) for k in range(0, spec.steps, CHECKED)):
        sampler.check_steps(made.step_size[part].tolist(), made.temperature[part].tolist())
    return made


def check_steps(sampler: Offer, spec: RunSpec, steps_per_epoch: int) -> None:
    """Make the trajectory of a run, once for all seeds; an error names the run."""
    settings = [spec.schedule.target, spec.schedule.source, spec.schedule.params, spec.sampler.params]
    lengths = [spec.steps, spec.burn_in, spec.thin, steps_per_epoch]
    try:
        _cached(sampler, "steps", {"of": [*settings, *lengths]}, spec, steps_per_epoch)
    except BenchError as error:
        where = f"{spec.method} on {spec.task.name}@{spec.protocol}, {spec.steps} steps"
        raise type(error)(f"{where}: {error}") from error


def task_facts(offer: Offer, params: Mapping[str, Any]) -> dict[str, Any]:
    """Version, sizes, protocols, metrics, data files of a task with these parameters."""
    return dict(_cached(offer, "task", params))


def _task(target: str, params: Mapping[str, Any]) -> dict[str, Any]:
    task = instance(target, params)
    if task.dtype not in DTYPES:
        raise PluginError(f"{target}: dtype {task.dtype!r:.40} is not one of {', '.join(DTYPES)}")
    terms = _whole(task, "terms", 1)
    return {
        "version": _whole(task, "version", 1),
        "dtype": task.dtype,
        "dim": _whole(task, "dim", 1),
        "terms": terms,
        "batch_terms": _whole(task, "batch_terms", 1, terms),
        "steps_per_epoch": _whole(task, "steps_per_epoch", 1),
        "curvature": task.curvature(),
        "max_block": {kind: _whole(task, "max_block", 1, None, kind) for kind in ("cpu", "cuda")},
        "opaque": bool(task.opaque),
        "provides": sorted(task.provides),
        "given": dict(task.given),
        "metrics": [dataclasses.asdict(m) for m in task.metrics],
        "datasets": [dataclasses.asdict(f) for f in task.datasets],
    }


def protocols(offer: Offer) -> list[dict[str, Any]]:
    """The protocols of a task, the default first."""
    found = list(_cached(offer, "protocols"))
    if not found:
        raise PluginError(f"{offer.target} ({offer.distribution}) has no protocol")
    return found


def datasets(offer: Offer) -> list[DataFile]:
    """The data files that a task declares."""
    return [DataFile(**{**record, "urls": tuple(record["urls"])}) for record in _cached(offer, "datasets")]


def _datasets(target: str, _: Mapping[str, Any]) -> list[dict[str, Any]]:
    declared = [*load(target).datasets]
    if not all(isinstance(file, DataFile) for file in declared):
        raise PluginError(f"{target}: datasets are not all harness.DataFile")
    return [dataclasses.asdict(file) for file in declared]


def _plain(protocol: Any) -> dict[str, Any]:
    record = {f.name: getattr(protocol, f.name) for f in dataclasses.fields(protocol)}
    budget_settings = {name: dict(values) for name, values in protocol.budget_settings.items()}
    plain = {"budgets": dict(protocol.budgets), "settings": dict(protocol.settings)}
    return {**record, **plain, "budget_settings": budget_settings}


FACTS: dict[str, Callable[..., Any]] = {
    "fields": lambda target, _: [dataclasses.asdict(field) for field in schema(load(target))],
    "sampler": _sampler,
    "settings": lambda target, params: dict(load(target).settings(params["task"])),
    "schedule": lambda target, params: {"made": bool(instance(target, params))},
    "steps": lambda spec, steps_per_epoch: len(trajectory(spec, steps_per_epoch)),
    "task": _task,
    "protocols": lambda target, _: [_plain(protocol) for protocol in load(target).protocols],
    "datasets": _datasets,
    "weighs": lambda target, _: load(target).log_weight is not Sampler.log_weight,
}
"""How each kind of fact is worked out, where the plugin's code is executed."""


def _cached(offer: Offer, kind: str, params: Mapping[str, Any] | None = None, *arguments: Any) -> Any:
    """A fact; where it is not known, it is worked out from `arguments`, or from the target and `params`."""
    target = offer.target
    key = json.dumps([_code(), ENGINE, target, content_hash(target), kind, dict(params or {})], sort_keys=True)
    if key not in _known:  # a plan of a thousand seeds asks as many times
        text = cache.read("facts", key)
        if text is None:
            asked = f"{target} ({offer.distribution})", kind, arguments or (target, params or {})
            text = _ours(*asked) if offer.distribution == HARNESS else _outside(*asked)
            cache.keep("facts", key, text)
        _known[key] = text
    return json.loads(_known[key])


@functools.cache
def _code() -> str:
    """The hash of the code that works facts out: this module, the contracts and the stability limit."""
    harness = Path(__file__).parents[1]
    files = [Path(__file__), harness / "engine" / "stability.py", *(harness / "contracts").glob("*.py")]
    return hash_of({str(file.relative_to(harness)): file.read_bytes() for file in files}, [])


def _ours(where: str, kind: str, *asked: Any) -> str:
    """Here, but where that would import torch, in a child: the runs' fork server imports it anyway."""
    if kind == "sampler" and "torch" not in sys.modules:
        with contextlib.suppress(RunError):  # no child can be started
            return _outside(where, kind, *asked)
    return work_out(where, kind, *asked)


def _outside(where: str, *asked: Any) -> str:
    from harness.runs.subprocess_call import EndedError, plugin_call

    try:
        return str(plugin_call(f"{__name__}:work_out", where, *asked))
    except EndedError as error:
        raise PluginError(f"{where}: {error}") from error


def work_out(where: str, kind: str, arguments: tuple[Any, ...]) -> str:
    """A fact as JSON; what the code of the plugin raises becomes a `PluginError`."""
    with plugin_code(where):
        text = json.dumps(FACTS[kind](*arguments))
        json.loads(text, parse_constant=_number)
    return text


def _number(constant: str) -> float:
    """A stability limit may be infinite; no default of a hyperparameter may be NaN."""
    if constant == "NaN":
        raise ValueError("the default of a hyperparameter is NaN")
    return float(constant)


_known: dict[str, str] = {}
"""What this process has read or worked out, as JSON: each who asks gets an object of its own."""


def lacking(registry: Registry, method: str, task: str, protocol: str, metric: str | None = None) -> str:
    """What the installed plugins lack of a method on a task under a protocol, and of a metric of it; "" for nothing."""
    if task not in {offer.name for offer in registry.offers("tasks")}:
        return f"no task {task}"
    if method not in {offer.name for kind in ("samplers", "methods") for offer in registry.offers(kind)}:
        return f"no method {method}"
    try:
        offer = registry.find("tasks", task)
        found = next((each for each in protocols(offer) if each["name"] == protocol), None)
        if found is None:
            return f"{task} has no protocol {protocol}"
        metrics = {each["name"] for each in task_facts(offer, resolve(offer, found["settings"]))["metrics"]}
    except BenchError as error:
        return str(error)
    return f"{task} has no metric {metric}" if metric and metric not in metrics else ""
