"""Resolve the settings of a run from their sources, and record the source of each.

The first source that has a setting decides: the command (--set, --schedule, --sweep), the study of `--settings`, the
sampler author's own `settings`, the protocol's settings for the budget, those that a plugin states for (method, task,
protocol), such as a paper's, the method, the protocol of the task, the task's untuned default step size, the class's
default. If the sampler and the stated settings come from the same distribution, these, which are more specific, precede
the author's.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.contracts.hookspecs import DEFAULT_SCHEDULE, Method, StatedSettings
from harness.contracts.offers import HARNESS
from harness.contracts.parameters import Field, check, of_part, spelled, suggestions
from harness.contracts.randomness import ORDERS
from harness.contracts.registry import Offer, Registry
from harness.contracts.task import Protocol, data_passes
from harness.results.spec import FIELDS, GIVEN, ONE_SETTING, SEARCH_VERSION, Origin
from harness.runs import plugin_metadata, warm_start
from harness.runs.plugin_metadata import SamplerFacts, TaskFacts
from harness.runs.stated import stated_settings
from harness.system.errors import UsageError

START, WARM = "run.warm_start", "run.warm_"
"""The setting that names the optimiser of a warm start, and the beginning of it and of those that belong to it."""
UNTUNED = 0.2
"""Step size of a run for which no source states one, as a share of the stability limit."""
LEARNING_RATES = (0.1, 0.001)
"""Usual learning rates on the mean loss: of SGD, and of optimisers that divide the gradient by its size."""
STEP_SIZES = ("lr", "learning_rate", "step_size", "step", "eta", "epsilon", "eps", "h")
"""What a step size is called elsewhere."""

WITH_GRADIENTS = ("terms", "scores", "gauss_newton")
"""Needs that are part of the gradients that a sampler pays for. A task provides all others at no cost."""


def _run_field(
    name: str, kind: str, default: Any, meaning: str, allowed: str = "", choices: tuple[str, ...] = ()
) -> Field:
    return Field(name, kind, default is None, default, False, allowed, choices, meaning, "")


RUN_FIELDS = {f.name: _run_field(f.name, *f.metadata["setting"]) for f in FIELDS if "setting" in f.metadata}


Given = Mapping[str, Any]
"""Settings of a command by their dotted names."""


class Study(typing.Protocol):
    """Tuned settings: all that is known here of what the fact `study` returns."""

    def layer(self, registry: Registry, pair: Pair, budget: str, given: Given) -> Mapping[str, Origin]:
        """Return the tuned settings of a pair for what a command gives. `UsageError` if there are none."""


@dataclass(frozen=True)
class Pair:
    """A method on a task under a protocol, with the settings that a plugin states and those of a study for it.

    `defaults_only` leaves out what papers and authors state. `owner` is the distribution of the method.
    """

    method: Method
    sampler: Offer
    task: Offer
    protocol: Protocol
    stated: StatedSettings | None = None
    tuned: Mapping[str, Origin] = field(default_factory=dict)
    defaults_only: bool = False
    owner: str = HARNESS


@dataclass(frozen=True)
class Passes:
    """The data passes of a run: of the sampler's `init`, of the warm start, and of each step."""

    init: int
    warm: float
    step: float

    def after(self, steps: int) -> float:
        """Return the data passes spent by the end of this many steps."""
        return self.init + self.warm + steps * self.step


@dataclass(frozen=True)
class Settings:
    """The resolved settings of a pair: the parameters of each component and of the run, and the origin of each.

    `sampler` and `task` are the facts of both with these parameters.
    """

    pair: Pair
    sampler: SamplerFacts
    task: TaskFacts
    passes: Passes
    schedule: Offer
    sampler_params: Mapping[str, Any]
    schedule_params: Mapping[str, Any]
    task_params: Mapping[str, Any]
    run: Mapping[str, Any]
    origins: Mapping[str, Origin]
    warm_start: Offer | None = None


def find_pair(registry: Registry, method_name: str, task_name: str) -> Pair:
    """Return the pair that "--sampler METHOD --task TASK[@PROTOCOL]" names.

    The default is the task's first protocol. Only if settings are stated for that protocol, and the method's for
    another one, that is the default. So a task with a protocol of its own compares all methods under it.
    """
    name, at, protocol_name = task_name.partition("@")
    named = registry.method(method_name)
    method = named.info
    assert isinstance(method, Method)
    sampler = registry.sampler(named)
    task = registry.find("tasks", name)
    known = {protocol.name: protocol for protocol in plugin_metadata.protocols(task)}
    parts = named, sampler, task
    may_state = {HARNESS, *(part.distribution for part in parts)}
    stated = [s for s in stated_settings(registry, parts) if s.task == task.name and s.distribution in may_state]
    of_method = {one.protocol: one for one in stated if one.method == method.name}
    if not at:
        protocol_name = next(iter(known))
        if any(one.protocol == protocol_name for one in stated):
            protocol_name = next((name for name in known if name in of_method), protocol_name)
    protocol_name = spelled(protocol_name, known)
    if protocol_name not in known:
        raise UsageError(f"task {name} has no protocol {protocol_name!r:.80}{suggestions(protocol_name, known)}")
    of_paper = of_method.get(protocol_name)
    return Pair(method, sampler, task, known[protocol_name], of_paper, owner=named.distribution)


def with_study(registry: Registry, pair: Pair, study: Study, budget: str, given: Given) -> Pair:
    """Return a pair with its settings in a study at a budget, for what a command gives. `UsageError` if none are."""
    layer = study.layer(registry, pair, budget, given)
    earlier = any(origin.tuning and origin.tuning.version < SEARCH_VERSION for origin in layer.values())
    return replace(pair, tuned=layer, defaults_only=not earlier)


def resolve(registry: Registry, pair: Pair, given: Mapping[str, Any], budget: str = "") -> Settings:
    """Resolve all settings of a pair. `given` has the command's by dotted name; "schedule" is the schedule's name."""
    names = {"schedule": registry.names("schedules"), START: registry.names("samplers")}
    given = {**given, **{key: spelled(str(given[key]), names[key]) for key in names if given.get(key)}}
    layers = [_with_schedule(pair.method, layer) for layer in _layers(pair, given, budget)]
    chosen = next((str(layer["schedule"].value) for layer in layers if "schedule" in layer), DEFAULT_SCHEDULE)
    if pair.method.schedule and chosen != pair.method.schedule:
        raise UsageError(
            f"{pair.method.name} is {pair.method.sampler} under {pair.method.schedule}; "
            f"for another schedule say --sampler {pair.method.sampler} --schedule {chosen}"
        )
    schedule = registry.find("schedules", chosen, prefer=pair.sampler.distribution)
    origins: dict[str, Origin] = {}
    usual: Layer = {}
    for layer in reversed(layers):
        usual = _without_other_start(origins, layer)
        origins = dict(usual)
        fits = "schedule" not in layer or layer["schedule"].value == chosen
        origins.update(layer if fits else _without(layer, "schedule."))
    origins.pop("schedule", None)
    offers = {"sampler": pair.sampler, "schedule": schedule, "task": pair.task}
    declared = {part: plugin_metadata.fields(offer) for part, offer in offers.items()}
    _refuse_unknown(pair, declared, origins)

    task_params = _component(pair.task, declared["task"], "task", origins)
    sampler_params = _component(pair.sampler, declared["sampler"], "sampler", origins)
    sampler = plugin_metadata.sampler_facts(pair.sampler, sampler_params)
    task = plugin_metadata.task_facts(pair.task, task_params)
    for spec in declared["schedule"]:
        if spec.required and _is_step_size(spec) and f"schedule.{spec.name}" not in origins:
            origins[f"schedule.{spec.name}"] = _untuned_step(pair, sampler, task, spec.name)
    schedule_params = _component(schedule, declared["schedule"], "schedule", origins)
    plugin_metadata.schedule_facts(schedule, schedule_params)
    origins |= _given(pair, sampler, task)
    run = {
        name: check(spec, origins[f"run.{name}"].value if f"run.{name}" in origins else spec.default, where="run")
        for name, spec in RUN_FIELDS.items()
    }
    if (order := run["batch_order"]) != ORDERS[0] and order not in task.batch_orders:
        raise UsageError(f"run.batch_order = {order}: {pair.task.name} has no minibatches with these settings")
    if run["moved"] and not movable(sampler.needs, opaque=task.opaque):
        raise UsageError(f"run.moved: {pair.sampler.name} on {pair.task.name} uses the names of theta's coordinates")
    if (parts := run["substeps"]) & (parts - 1):
        raise UsageError(f"run.substeps = {parts} is not a power of two")
    origins.pop("run.moved", None)  # it chooses an instance, not a setting of the sampler
    warm, warm_passes = _warm_start(registry, pair, task_params, task, run, origins)
    at_start = sampler.full_gradients_at_start * _full_price(sampler, task)
    passes = Passes(at_start, warm_passes, passes_per_step(sampler, task))
    every = {"sampler": sampler_params, "task": task_params, "schedule": schedule_params, "run": run}
    for name, value in {f"{part}.{k}": v for part, params in every.items() for k, v in params.items()}.items():
        if name in usual and origins[name].provenance == "user" and usual[name].value == value:
            origins[name] = usual[name]  # restating a default does not override it
    kind = ONE_SETTING if pair.defaults_only else "default"
    origins = {n: replace(o, provenance=kind) if o.provenance == "default" else o for n, o in sorted(origins.items())}
    return Settings(
        pair, sampler, task, passes, schedule, sampler_params, schedule_params, task_params, run, origins, warm
    )


def passes_per_step(sampler: SamplerFacts, task: TaskFacts, substeps: int = 1) -> float:
    """Return the data passes of a step, or of one of the `substeps` that stand for it."""
    calls, price = (sampler.gradients_per_step, sampler.full_gradients_per_step), _full_price(sampler, task)
    return data_passes(calls, task.batch_terms, task.priced_terms, sampler.refresh_every * substeps, price)


def _full_price(sampler: SamplerFacts, task: TaskFacts) -> int:
    return task.gauss_newton_gradients if "gauss_newton" in sampler.needs else 1


def _is_step_size(spec: Field) -> bool:
    return spec.relative or spec.name == "step_size"


Layer = dict[str, Origin]


def _layers(pair: Pair, given: Mapping[str, Any], budget: str) -> list[Layer]:
    """Return the settings of each source, the strongest first.

    The order is: command, study, author, budget, stated (and author), method, protocol.
    """
    protocol, tuned = pair.protocol, dict(pair.tuned)
    if "schedule" in tuned and given.get("schedule", tuned["schedule"].value) != tuned["schedule"].value:
        tuned = {}  # they were searched under another schedule
    short = protocol.budget_settings.get(budget, {})
    stated = {"run.burn_in": protocol.burn_in, "run.thin": protocol.thin, **protocol.settings}
    recommended = {} if pair.defaults_only else plugin_metadata.own_settings(pair.sampler, pair.task.name)
    of_paper = None if pair.defaults_only else pair.stated
    stated_by, values = (of_paper.stated_by, of_paper.values) if of_paper else ("", {})
    schedule, of_method = pair.method.schedule, f"method {pair.method.name}"
    whose = "default" if pair.owner == HARNESS else "plugin"
    method = {name: Origin(value, whose, of_method) for name, value in pair.method.settings.items()}
    method |= {"schedule": Origin(schedule, whose, of_method)} if schedule else {}
    authors = {name: Origin(value, "plugin", pair.sampler.distribution) for name, value in recommended.items()}
    outside = pair.stated is None or pair.stated.distribution != pair.sampler.distribution
    start = stated.get(START)
    of_paper_start = values[START].value if START in values else start
    named = pair.method.settings.get(START, start), recommended.get(START, start), of_paper_start
    if any(name != start for name in named):
        short = _without(short, WARM)  # its lengths are those of the protocol's own warm start
    return [
        {name: Origin(value, "user", "command line") for name, value in given.items()},
        tuned,
        authors if outside else {},
        {name: Origin(value, "default", source_of_budget(protocol.name, budget)) for name, value in short.items()},
        {name: Origin(one.value, one.provenance, f"{stated_by}: {one.source}") for name, one in values.items()},
        {} if outside else authors,
        method,
        {name: Origin(value, "default", f"protocol {protocol.name}") for name, value in stated.items()},
    ]


def source_of_budget(protocol: str, budget: str) -> str:
    """Return the source of a setting that a protocol gives only to the runs of one budget."""
    return f"protocol {protocol}, {budget}"


def _with_schedule(method: Method, layer: Layer) -> Layer:
    """Return a layer that names its schedule if it sets parameters of one. The command's layer stays as it is."""
    sets_parameters = any(name.startswith("schedule.") for name in layer)
    from_command = any(origin.provenance == "user" for origin in layer.values())
    if "schedule" in layer or not sets_parameters or from_command:
        return layer
    return {**layer, "schedule": Origin(method.schedule or DEFAULT_SCHEDULE, "default", f"method {method.name}")}


def _without(settings: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if not name.startswith(prefix)}


def _without_other_start(origins: dict[str, Origin], layer: Layer) -> dict[str, Origin]:
    """Return weaker origins without the length and step size of a warm start, if the layer names another optimiser."""
    if START not in layer or START not in origins:
        return origins
    before, now = (str(names[START].value).rpartition(":")[2] for names in (origins, layer))  # DISTRIBUTION:NAME
    if before == now:
        return origins
    return _without(origins, WARM)


def _component(offer: Offer, declared: Sequence[Field], part: str, origins: dict[str, Origin]) -> dict[str, Any]:
    """Return the resolved parameters of one component. The class's defaults are added to `origins`."""
    given = {name: origin.value for name, origin in of_part(origins, part).items()}
    params = plugin_metadata.resolve_fields(offer, declared, given)
    sources = {spec.name: spec.source for spec in declared}
    for name, value in params.items():
        key = f"{part}.{name}"
        known = origins.get(key)
        origins[key] = replace(known, value=value) if known else Origin(value, "default", sources[name])
    return params


def _untuned_step(pair: Pair, sampler: SamplerFacts, task: TaskFacts, name: str) -> Origin:
    """Return the step size for a schedule's setting that no source states: a share of the stability limit.

    `UsageError`, with a step size to try, if the curvature is unknown or the sampler has no finite stability limit.
    """
    curvature = 1.0 if sampler.free_step else task.curvature
    limit = sampler.stability_limit or 2.0
    if not curvature or not math.isfinite(limit):
        per = 1 if sampler.step_unit == 0 else task.terms
        size = f"{LEARNING_RATES[sampler.step_unit == 0] / per:.0e}".replace("e-0", "e-")
        raise UsageError(
            f"no step size is known for {pair.method.name} on {pair.task.name}; a learning rate r on the mean loss is "
            f"{f'r/{per}' if per > 1 else 'r'}: try --set schedule.{name}={size}, or bench tune"
        )
    text = f"{UNTUNED} of the stability limit {limit:.4g}"
    text += "" if sampler.free_step else f" / curvature {curvature:.4g}"
    return Origin(UNTUNED * limit / curvature, "untuned", text)


def _warm_start(
    registry: Registry,
    pair: Pair,
    task_params: Mapping[str, Any],
    task: TaskFacts,
    run: dict[str, Any],
    origins: dict[str, Origin],
) -> tuple[Offer | None, float]:
    """Return the optimiser of the warm start, or None without one, and the data passes of its steps.

    If no step size is given for it, the optimiser's own on this task is added to `run` and `origins`.
    """
    name, passes, size = (run[key] for key in ("warm_start", "warm_passes", "warm_step_size"))
    if name is None:
        if passes is not None or size is not None:
            which = "warm_step_size" if passes is None else "warm_passes"
            raise UsageError(f"run.{which} is a setting of a warm start; leave it out, or add run.warm_start=OPTIMISER")
        return None, 0.0
    offer, optimiser = warm_start.find(registry, name)
    if passes is None:
        raise UsageError(f"run.warm_start = {name} needs its length; give it by --set run.warm_passes=20")
    if size is None:
        optimised = find_pair(registry, name, f"{pair.task.name}@{pair.protocol.name}")
        try:
            tuned = resolve(
                registry, optimised, {f"task.{k}": v for k, v in task_params.items()} | {"run.warm_start": None}
            )
            size, origin = tuned.schedule_params["step_size"], tuned.origins["schedule.step_size"]
        except (UsageError, KeyError):
            raise UsageError(
                f"no step size of {name} is known for a warm start on {pair.task.name}; "
                "give one by --set run.warm_step_size=H"
            ) from None
        run["warm_step_size"] = size
        origins["run.warm_step_size"] = Origin(size, origin.provenance, f"{name}: {origin.source}")
    per_step = passes_per_step(optimiser, task)
    return offer, warm_start.length(passes, per_step) * per_step


def _refuse_unknown(pair: Pair, declared: Mapping[str, Sequence[Field]], origins: Mapping[str, Origin]) -> None:
    known = [f"run.{name}" for name in RUN_FIELDS]
    known += [f"{part}.{spec.name}" for part, fields in declared.items() for spec in fields]
    for name in origins:
        if name not in known:
            source = "" if origins[name].provenance == "user" else f" (from {origins[name].source})"
            asked_for = f"{pair.method.name} on {pair.task.name}"
            near = suggestions(name, known)
            if spelled(name.rpartition(".")[2], STEP_SIZES) in STEP_SIZES:
                steps = [f"schedule.{spec.name}" for spec in declared["schedule"] if _is_step_size(spec)]
                near = f"; did you mean {', '.join(steps)}? A learning rate r on the mean loss of N points is r/N"
            raise UsageError(f"unknown setting {name!r:.80}{source} for {asked_for}{near}")


def movable(needs: Collection[str], *, opaque: bool) -> bool:
    """Return whether `run.moved` applies: neither the sampler, by its needs, nor the task has weights of a network."""
    return not opaque and {"layout", "gauss_newton"}.isdisjoint(needs)


def unmet(sampler: SamplerFacts, task: TaskFacts, called: str = "the task") -> str:
    """Return why a sampler cannot run on a task, from the facts of both. "" if it can."""
    if lacks := sorted(set(sampler.needs) - set(task.provides)):
        return f"needs {', '.join(lacks)} of a potential, which {called} does not provide"
    if task.dim < sampler.least_dimension:
        return f"moves in {sampler.least_dimension} dimensions or more, and {called} has {task.dim}"
    return ""


def _given(pair: Pair, sampler: SamplerFacts, task: TaskFacts) -> dict[str, Origin]:
    """Return what the task gives the sampler at no cost, by "needs.NAME". `UsageError` if it lacks a need."""
    if why := unmet(sampler, task, f"task {pair.task.name}"):
        raise UsageError(f"{pair.sampler.name} {why}; choose another task or sampler")
    needs = (name for name in sampler.needs if name not in WITH_GRADIENTS)
    given = {name: task.given.get(name, "as the task provides it") for name in needs}
    return {f"needs.{name}": Origin(what, GIVEN, "the task") for name, what in given.items()}
