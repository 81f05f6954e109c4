"""Facts about a plugin's class that the plan needs, cached so that planning imports no torch.

A fact is computed from the object itself, which is made with the given settings (this checks them). It is kept in the
user's cache under the hashes of the class's code and of the code here, so it is computed once for each version and
setting. The facts of plugins from other distributions are computed in a child process, so that a plugin that hangs or
crashes becomes an error of that plugin.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from harness.contracts import user_files
from harness.contracts.data import DataFile
from harness.contracts.offers import HARNESS
from harness.contracts.parameters import Configurable, Field, check, schema, suggestions
from harness.contracts.plugin_errors import plugin_code
from harness.contracts.registry import Offer, load
from harness.contracts.sampler import Sampler
from harness.contracts.task import Metric, Protocol
from harness.results.ledger.heartbeats import Send
from harness.results.spec import ENGINE, RunSpec
from harness.runs.source import content_hash, hash_of
from harness.system import cache
from harness.system.errors import BenchError, PluginError, RunError, UsageError, require

if TYPE_CHECKING:
    from harness.contracts.schedule import Schedule, Trajectory

DTYPES = ("float32", "float64")
CHECKED = 100_000
"""Number of steps that a sampler checks at once: as Python numbers they take four times the memory."""
R = TypeVar("R")


@dataclass(frozen=True)
class SamplerFacts:
    """The facts of a sampler with its parameters.

    stability_limit  a limit of h * curvature, or None if the sampler is not linear
    step_unit        the power of U in the unit of h
    free_step        whether h has no unit; the limit is then a limit of h itself
    optimiser        whether the sampler draws no noise and can make a warm start
    never_compiled   the reason why the sampler is exempt from the law `compiled`, or None
    """

    gradients_per_step: int
    full_gradients_per_step: int
    full_gradients_at_start: int
    refresh_every: int
    needs: Sequence[str]
    least_dimension: int
    never_compiled: str | None
    optimiser: bool
    stability_limit: float | None
    step_unit: int
    free_step: bool


@dataclass(frozen=True)
class TaskFacts:
    """The facts of a task with its parameters; `max_block` is by the kind of device.

    A `dense` network has no convolutions: a term uses each weight once.
    """

    version: int
    dtype: str
    dim: int
    terms: int
    batch_terms: int
    priced_terms: int
    gauss_newton_gradients: int
    batch_orders: Sequence[str]
    steps_per_epoch: int
    curvature: float | None
    max_block: Mapping[str, int]
    opaque: bool
    dense: bool
    provides: Sequence[str]
    given: Mapping[str, str]
    metrics: Sequence[Metric]
    datasets: Sequence[DataFile]


def instance(target: str, params: Mapping[str, Any]) -> Any:
    """Make an object of a plugin's class. Any error of the plugin's code becomes a `PluginError` with its target."""
    cls = _class(target)
    with plugin_code(f"{target} cannot be made from {dict(params)!r:.200}"):
        return cls(**params)


def _class(target: str) -> Any:
    cls = load(target)
    if not (isinstance(cls, type) and issubclass(cls, Configurable)):
        raise PluginError(f"{target} is no class that derives from harness.Sampler, Schedule or tasks.Task")
    return cls


def fields(offer: Offer) -> list[Field]:
    """Return the hyperparameters that the class of an offer declares."""
    return [Field(**{**record, "choices": tuple(record["choices"])}) for record in _cached(offer, "fields")]


def resolve(offer: Offer, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed and checked parameters: the given ones, and the class's defaults for the rest.

    A parameter that is declared `later` is omitted if it has its default value, so that earlier run keys do not change.
    """
    return resolve_fields(offer, fields(offer), params)


def resolve_fields(offer: Offer, declared: Sequence[Field], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `resolve` does, if the hyperparameters that the class declares are known."""
    known = {field.name: field for field in declared}
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


def sampler_facts(offer: Offer, params: Mapping[str, Any]) -> SamplerFacts:
    """Return the facts of a sampler with these parameters."""
    return SamplerFacts(**_cached(offer, "sampler", params))


def weighs(offer: Offer) -> bool:
    """Return whether the draws of a sampler have importance weights."""
    return bool(_cached(offer, "weighs"))


def step_limit(
    sampler: Offer, sampler_params: Mapping[str, Any], task: Offer, task_params: Mapping[str, Any]
) -> float | None:
    """Return the step size from which a sampler is unstable on a task: the limit / the curvature. None if unknown."""
    facts = sampler_facts(sampler, sampler_params)
    limit = facts.stability_limit
    curvature = 1.0 if facts.free_step else task_facts(task, task_params).curvature
    return limit / curvature if limit and curvature and math.isfinite(limit) else None


def _sampler(target: str, params: Mapping[str, Any]) -> SamplerFacts:
    from harness.engine.linear import working_limit

    sampler = instance(target, params)
    counts = {name: _whole(sampler, name, 0) for name in ("gradients_per_step", "full_gradients_per_step")}
    if not any(counts.values()):
        raise PluginError(f"{target} makes no gradient call a step: it declares {counts}")
    if (particles := _whole(sampler, "particles", 1)) > sum(counts.values()):
        raise PluginError(
            f"{target} has {particles} particles and makes {sum(counts.values())} gradient calls a step: all particles "
            "are draws, so each has to pay for a gradient"
        )
    calls, batches = counts["gradients_per_step"], _whole(sampler, "batches_per_step", 1)
    if batches > 1 and (calls == 0 or calls % batches):
        raise PluginError(f"{target}.batches_per_step is {batches}, no divisor of its {calls} gradient calls a step")
    return SamplerFacts(
        **counts,
        full_gradients_at_start=_whole(sampler, "full_gradients_at_start", 0),
        refresh_every=_whole(sampler, "refresh_every", 0),
        needs=sorted(sampler.needs),
        least_dimension=_whole(sampler, "least_dimension", 1),
        never_compiled=sampler.exempt.get("compiled"),
        optimiser=sampler.limit_bias() == 0 and particles == 1 and not sampler.refresh_every,
        stability_limit=_rounded(limit := working_limit(sampler)),
        step_unit=sampler.step_unit,
        free_step=limit is not None and sampler.step_unit == 0,
    )


def _whole(plugin: Any, name: str, least: int, most: int | None = None, *arguments: Any) -> int:
    """Return the value of an object's attribute or method, which must be a whole number from `least` to `most`."""
    value = getattr(plugin, name)
    value = value(*arguments) if callable(value) else value
    if type(value) is not int or value < least or (most is not None and value > most):
        limits = f"from {least} to {most}" if most is not None else f"of at least {least}"
        raise PluginError(f"{type(plugin).__name__}.{name} is {value!r:.40}, not a whole number {limits}")
    return value


def _rounded(limit: float | None) -> float | None:
    """Round a limit to six digits: bisection finds no more, and step sizes computed from it are part of run keys."""
    return None if limit is None else float(f"{limit:.6g}")


def own_settings(offer: Offer, task: str) -> dict[str, Any]:
    """Return the settings that the sampler's author recommends for a task, by dotted name."""
    return dict(_cached(offer, "settings", {"task": task}))


def _authors(target: str, task: str) -> dict[str, Any]:
    """Return what the sampler's `settings` gives for a task, if it is plain; the plan checks types and choices."""
    given, where = _class(target).settings(task), f"{target}.settings({task!r})"
    require(isinstance(given, Mapping), where, f"it returned a {type(given).__name__}, not a dict by dotted name")
    for name, value in given.items():
        plain = isinstance(value, bool | int | str | None) or (isinstance(value, float) and math.isfinite(value))
        what = f"{name!r:.80} = {value!s:.40} ({type(value).__name__}); names are text, and values finite numbers of "
        require(plain and isinstance(name, str), where, f"{what}Python, bool, None or declared text")
    return dict(given)


def schedule_facts(offer: Offer, params: Mapping[str, Any]) -> None:
    """Check that a schedule can be made from these parameters."""
    _cached(offer, "schedule", params)


class Parts(NamedTuple):
    """What a run consists of besides its task."""

    sampler: Sampler
    schedule: Schedule
    trajectory: Trajectory


def parts(spec: RunSpec, steps_per_epoch: int) -> Parts:
    """Make the sampler and the schedule of a run, and its trajectory.

    Raises the errors of the schedule and of the sampler's `check_steps`.
    """
    sampler: Sampler = instance(spec.sampler.target, spec.sampler.params)
    schedule: Schedule = instance(spec.schedule.target, spec.schedule.params)
    steps, burn_in, thin = (number // spec.substeps for number in (spec.steps, spec.burn_in, spec.thin))
    path = schedule.trajectory(steps, steps_per_epoch)
    if len(path) != steps:
        raise PluginError(f"schedule {spec.schedule.name} made {len(path)} steps where {steps} were asked for")
    path = path.with_burn_in(burn_in, thin).divided(spec.substeps)
    for part in (slice(k, k + CHECKED) for k in range(0, spec.steps, CHECKED)):
        sampler.check_steps(path.step_size[part].tolist(), path.temperature[part].tolist())
    return Parts(sampler, schedule, path)


def check_steps(sampler: Offer, spec: RunSpec, steps_per_epoch: int) -> None:
    """Make the trajectory of a run, once for all seeds, to check its settings. An error names the run."""
    settings = [spec.schedule.target, spec.schedule.source, spec.schedule.params, spec.sampler.params]
    lengths = [spec.steps, spec.burn_in, spec.thin, spec.substeps, steps_per_epoch]
    try:
        _cached(sampler, "steps", {"of": [*settings, *lengths]}, spec, steps_per_epoch)
    except BenchError as error:
        where = f"{spec.method} on {spec.task.name}@{spec.protocol}, {spec.steps} steps"
        raise type(error)(f"{where}: {error}") from error


def task_facts(offer: Offer, params: Mapping[str, Any]) -> TaskFacts:
    """Return the facts of a task with these parameters."""
    return _parsed(_text(offer, "task", params))


@functools.cache
def _parsed(text: str) -> TaskFacts:
    record = json.loads(text)
    metrics = [Metric(**metric) for metric in record["metrics"]]
    return TaskFacts(**{**record, "metrics": metrics, "datasets": _files(record["datasets"])})


def _task(target: str, params: Mapping[str, Any]) -> TaskFacts:
    task = instance(target, params)
    if task.dtype not in DTYPES:
        raise PluginError(f"{target}: dtype {task.dtype!r:.40} is not one of {', '.join(DTYPES)}")
    terms = _whole(task, "terms", 1)
    return TaskFacts(
        version=_whole(task, "version", 1),
        dtype=task.dtype,
        dim=_whole(task, "dim", 1),
        terms=terms,
        batch_terms=_whole(task, "batch_terms", 1, terms),
        priced_terms=_whole(task, "priced_terms", 1),
        gauss_newton_gradients=_whole(task, "gauss_newton_gradients", 1),
        batch_orders=[*task.batch_orders()],
        steps_per_epoch=_whole(task, "steps_per_epoch", 1),
        curvature=task.curvature(),
        max_block={kind: _whole(task, "max_block", 1, None, kind) for kind in ("cpu", "cuda")},
        opaque=bool(task.opaque),
        dense=bool(task.opaque) and "layout" in task.provides and all(len(b.shape) < 3 for b in task.layout().blocks),
        provides=sorted(task.provides),
        given=dict(task.given),
        metrics=_declared(task, "metrics", Metric, target),
        datasets=_declared(task, "datasets", DataFile, target),
    )


def _declared(of: Any, name: str, kind: type[R], target: str) -> list[R]:
    """Return the records that a task declares. `PluginError` if one of them is of another kind."""
    records = [*getattr(of, name)]
    if not all(isinstance(record, kind) for record in records):
        raise PluginError(f"{target}: {name} are not all harness.tasks.{kind.__name__}")
    return records


def protocols(offer: Offer) -> list[Protocol]:
    """Return the protocols of a task, the default first. `PluginError` if it has none."""
    declared = [Protocol(**{**record, "seeds": tuple(record["seeds"])}) for record in _cached(offer, "protocols")]
    if not declared:
        raise PluginError(f"{offer.target} ({offer.distribution}) has no protocol")
    return declared


def datasets(offer: Offer) -> list[DataFile]:
    """Return the data files that a task declares."""
    return _files(_cached(offer, "datasets"))


def _files(records: Iterable[Mapping[str, Any]]) -> list[DataFile]:
    return [DataFile(**{**record, "urls": tuple(record["urls"])}) for record in records]


def _plain(protocol: Protocol) -> dict[str, Any]:
    record = {f.name: getattr(protocol, f.name) for f in dataclasses.fields(Protocol)}
    budget_settings = {name: dict(values) for name, values in protocol.budget_settings.items()}
    plain = {"budgets": dict(protocol.budgets), "settings": dict(protocol.settings)}
    return {**record, **plain, "budget_settings": budget_settings}


FACTS: dict[str, Callable[..., Any]] = {
    "fields": lambda target, _: list(schema(_class(target))),
    "sampler": _sampler,
    "settings": lambda target, params: _authors(target, params["task"]),
    "schedule": lambda target, params: {"made": bool(instance(target, params))},
    "steps": lambda spec, steps_per_epoch: len(parts(spec, steps_per_epoch).trajectory),
    "task": _task,
    "protocols": lambda target, _: [*map(_plain, _declared(_class(target), "protocols", Protocol, target))],
    "datasets": lambda target, _: _declared(_class(target), "datasets", DataFile, target),
    "weighs": lambda target, _: _class(target).log_weight is not Sampler.log_weight,
}
"""The functions that compute each kind of fact. They execute the plugin's code."""


def _cached(offer: Offer, kind: str, params: Mapping[str, Any] | None = None, *arguments: Any) -> Any:
    """Return a fact. If it is not cached, compute it from `arguments`, or else from the target and `params`."""
    return json.loads(_text(offer, kind, params, *arguments))


def _text(offer: Offer, kind: str, params: Mapping[str, Any] | None = None, *arguments: Any) -> str:
    """Return a fact as JSON."""
    target = offer.target
    key = json.dumps([_code(), ENGINE, target, content_hash(target), kind, dict(params or {})], sort_keys=True)
    if key not in _known:  # a plan of a thousand seeds calls this a thousand times
        text = cache.read("facts", key)
        if text is None:
            asked = f"{target} ({offer.distribution})", kind, arguments or (target, params or {})
            text = _compute_here(*asked) if offer.distribution == HARNESS else _compute_in_child(*asked)
            for file in user_files.named_in(params or {}):
                user_files.locate(file)  # it may have changed while it was read
            cache.keep("facts", key, text)
        _known[key] = text
    return _known[key]


@functools.cache
def _code() -> str:
    """Return the hash of the code that computes facts: this module, the contracts and the law of a step."""
    harness = Path(__file__).parents[1]
    files = [Path(__file__), harness / "engine" / "linear.py", *(harness / "contracts").glob("*.py")]
    return hash_of({str(file.relative_to(harness)): file.read_bytes() for file in files}, [])


def _compute_here(where: str, kind: str, *asked: Any) -> str:
    """Compute a built-in plugin's fact in this process, or in a child if it needs torch, which is not imported yet.

    The fork server of the runs imports torch in any case.
    """
    if kind == "sampler" and "torch" not in sys.modules:
        with contextlib.suppress(RunError):  # no child can be started
            return _compute_in_child(where, kind, *asked)
    return work_out(where, kind, *asked)


def _compute_in_child(where: str, *asked: Any) -> str:
    from harness.runs.children import EndedError, plugin_call

    try:
        return str(plugin_call(f"{__name__}:work_out", where, *asked))
    except EndedError as error:
        raise PluginError(f"{where}: {error}") from error


def work_out(where: str, kind: str, arguments: tuple[Any, ...], *_: Send) -> str:
    """Compute a fact and return it as JSON. `PluginError` for any error of the plugin's code."""
    with plugin_code(where):
        text = json.dumps(FACTS[kind](*arguments), default=dataclasses.asdict)
        json.loads(text, parse_constant=_number)
    return text


def _number(constant: str) -> float:
    """Parse a JSON constant: a stability limit may be infinite, but no default of a hyperparameter may be NaN."""
    if constant == "NaN":
        raise ValueError("the default of a hyperparameter is NaN")
    return float(constant)


_known: dict[str, str] = {}
"""Facts that this process has read or computed, as JSON, so that each caller gets an object of its own."""
