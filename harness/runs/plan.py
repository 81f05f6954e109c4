"""Expand a command into runs and look up in the ledger which of them still have to be done. Imports no torch."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from harness.contracts.data import DataFile, checksum
from harness.contracts.parameters import suggestions
from harness.contracts.randomness import TUNING_SEED
from harness.contracts.registry import Offer, Registry
from harness.engine.stepping.execution_mode import Work, choose, slowed
from harness.results.ledger.ledger import Ledger, RunStatus
from harness.results.spec import MAX_STEPS, SEARCH_VERSION, Component, Execution, RunSpec, budget_label
from harness.runs import plugin_metadata, uncompiled
from harness.runs.settings import Settings, Study, find_pair, movable, passes_per_step, resolve, with_study
from harness.runs.source import source_hash
from harness.system.errors import UsageError

MAX_RUNS = 20_000
"""The most runs of a command without --max-runs. Planning half as many seeds of one group takes 2 s and 84 MB."""
MAX_SEEDS = 1_000_000
"""The most seeds of any command. Their numbers alone take 40 MB."""
SHARED_FROM = 50_000
"""Chain steps from which one more process on a CPU pays off, about a tenth of a second."""
FILLS_GPU = 100_000
"""Parameters of chains side by side up to which a GPU takes no longer for more of them. Assumed, not measured."""
DIGITS = 15
"""The most digits of a seed or a budget. Such a number is still exact as a float, as JSON and DuckDB may read it."""


@dataclass(frozen=True)
class RunRequest:
    """The runs that a command asks for. Where `seeds` or `chains` is None, the protocol's value is used.

    `given` and `sweep` have settings by dotted name. `study` is the name of a study with tuned settings.
    """

    samplers: Sequence[str]
    tasks: Sequence[str]
    seeds: Sequence[int] | None = None
    chains: int | None = None
    budget: str = "paper"
    given: Mapping[str, Any] = field(default_factory=dict)
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    device: str = "cpu"
    study: str = ""


@dataclass(frozen=True)
class Planned:
    """A run, its standing in the ledger, its cost in data passes per chain, and what is missing to compile it.

    At most `max_block` runs advance together. `work` says what a step is of.
    """

    spec: RunSpec
    standing: RunStatus
    passes: float
    max_block: int
    work: Work
    data: tuple[DataFile, ...] = ()
    missing: str | None = None

    def record(self) -> dict[str, Any]:
        """Return the entries that the records of `bench plan` and `bench run` share."""
        spec, status = self.spec, self.standing.status
        return {
            "run_key": spec.key, "method": spec.method, "task": spec.task.name, "protocol": spec.protocol,
            "seed": spec.seed, "chains": spec.chains, "steps": spec.steps, "budget": spec.budget, "status": status,
        }  # fmt: skip


def size(registry: Registry, requests: Iterable[RunRequest], most: int = MAX_RUNS) -> int:
    """Count the runs that the requests name, from the lengths of their lists. `UsageError` if it exceeds `most`."""
    total = 0
    for request in (one for several in requests for one in single(registry, several)):
        points = math.prod(map(len, request.sweep.values()))
        if request.seeds is not None or total + points * len(request.tasks) > most:  # else protocols' are looked up
            total += points * len(request.tasks) * len(request.seeds or [0])
        else:
            seeds = (find_pair(registry, request.samplers[0], task).protocol.seeds for task in request.tasks)
            total += points * sum(map(len, seeds))
    if total > most:
        raise UsageError(
            f"this asks for {total:,} runs or more, and a command plans at most {most:,}; "
            f"ask for less, or raise the limit of `run`, `plan` or `nightly` by --max-runs {total}"
        )
    return total


def single(registry: Registry, request: RunRequest) -> list[RunRequest]:
    """Return a request for each sampler, with its settings: SAMPLER:KEY precedes KEY, and is for no other sampler."""
    names = [name for name in (*request.given, *request.sweep) if ":" in name]
    owners = {name: registry.method(name.rpartition(":")[0]) for name in names}

    def of(settings: Mapping[str, Any], owner: Offer | None) -> dict[str, Any]:
        return {name.rpartition(":")[2]: value for name, value in settings.items() if owners.get(name) == owner}

    requests = []
    for method in request.samplers:
        offer = registry.method(method) if owners else None
        given, swept = (of(request.given, offer), of(request.sweep, offer)) if offer else ({}, {})
        sweep = {name: values for name, values in of(request.sweep, None).items() if name not in given} | swept
        requests.append(replace(request, samplers=(method,), given=of(request.given, None) | given, sweep=sweep))
    return requests


def expand(registry: Registry, request: RunRequest, study: Study | None = None) -> list[tuple[Settings, list[RunSpec]]]:
    """Return all runs that a request names, in its order: for each resolved settings the runs of its seeds.

    The settings include the tuned ones of `study` if one is given.
    """
    groups = []
    for one, task in itertools.product(single(registry, request), request.tasks):
        plain = find_pair(registry, one.samplers[0], task)
        for point in _points(one.sweep):
            given = {**one.given, **point}
            pair = with_study(registry, plain, study, request.budget, given) if study else plain
            settings = resolve(registry, pair, given, request.budget)
            seeds = request.seeds if request.seeds is not None else pair.protocol.seeds
            chains = request.chains if request.chains is not None else pair.protocol.chains
            steps = _steps(request.budget, settings)
            spec = make_spec(settings, steps, chains, _label(request.budget, steps, settings), request.device)
            if settings.run["compile"] is None and uncompiled.why(spec):
                spec = uncompiled.in_mode(spec, "plain")
            groups.append((settings, [replace(spec, seed=seed) for seed in seeds]))
    return groups


def plan(registry: Registry, request: RunRequest, ledger: Ledger) -> list[Planned]:
    """Return each run of a request once, with its standing in the ledger and its cost in data passes per chain.

    Raises the errors that a worker would raise because of the settings alone, for example when a sampler refuses a
    step size.
    """
    planned: dict[str, Planned] = {}
    study = registry.facts("study")[0](registry, ledger.root, request.study) if request.study else None
    for settings, specs in expand(registry, request, study):
        standings = {spec.key: ledger.standing(spec.key) for spec in specs}
        if not all(standing.cached for standing in standings.values()):
            plugin_metadata.check_steps(settings.pair.sampler, specs[0], settings.task.steps_per_epoch)
        for spec in specs:
            if spec.key not in planned:
                each = passes_per_step(settings.sampler, settings.task, spec.substeps)
                passes = replace(settings.passes, step=each).after(spec.steps)
                block = settings.task.max_block[spec.execution.device]
                block = 1 if spec.moved else block  # the move of a seed is one constant of the compiled step
                work = _work(settings, spec.execution.device, spec.chains)
                data, lacks = tuple(settings.task.datasets), _lacks(spec, work)
                planned[spec.key] = Planned(spec, standings[spec.key], passes, block, work, data, lacks)
    return list(planned.values())


def divide(planned: Iterable[Planned], places: int) -> list[list[Planned]]:
    """Return the planned runs in blocks for `places` workers side by side, those with the most work first.

    A block has runs that differ only in their seed, at most as many as the task advances together. A run's numbers do
    not depend on the other runs of its block, except for rounding on an accelerator, so time alone decides. The runs,
    group by group, are dealt out in equal shares of the work, and a group is cut where a share ends (McNaughton 1959,
    doi:10.1287/mnsc.6.1.1). On CPUs, where the chains of a block share instructions, groups are cut only if there are
    fewer than workers.
    """
    groups: dict[str, list[Planned]] = {}
    for item in planned:
        groups.setdefault(item.spec.group, []).append(item)
    whole = len(groups) >= places and all(runs[0].work.device == "cpu" for runs in groups.values())
    share = math.inf if whole else sum(map(_cost, groups.values())) / places or 1.0  # 0: a sampler without gradients
    dealt = 0.0
    blocks: list[list[Planned]] = []
    for runs in groups.values():
        shares: dict[int, list[Planned]] = {}
        for part in _cut(runs, _most_parts(runs)):
            shares.setdefault(int(dealt / share * (1 + 1e-12)), []).extend(part)
            dealt += _cost(part)
        blocks += [part for one in shares.values() for part in _cut(one, -(-len(one) // one[0].max_block))]
    return sorted(blocks, key=_cost, reverse=True)


def _most_parts(runs: Sequence[Planned]) -> int:
    """Return the most parts of a group of which each is worth a worker of its own.

    On a GPU, chains of a density advance side by side; those of a network one after the other, so that one run is.
    """
    work, steps = runs[0].work, runs[0].spec.steps
    if work.device == "cpu":
        least = -(-SHARED_FROM // (work.chains * steps))
    else:
        least = 1 if work.opaque else -(-FILLS_GPU // (work.chains * work.dim))
    return max(1, len(runs) // least)


def _cut(runs: list[Planned], parts: int) -> list[list[Planned]]:
    """Cut runs into parts whose sizes differ by at most one."""
    ends = [len(runs) * i // parts for i in range(parts + 1)]
    return [runs[low:high] for low, high in itertools.pairwise(ends)]


def _cost(runs: Sequence[Planned]) -> float:
    """Return the cost of runs of a group, in data passes of all chains."""
    return len(runs) * runs[0].passes * runs[0].spec.chains


def moved(registry: Registry, spec: RunSpec) -> RunSpec | None:
    """Return the run with theta moved as its seed says (`run.moved`), or None if that does not apply to it.

    What it asks of plugins it asks in a process of their own, as a plan does.
    """
    sampler = plugin_metadata.sampler_facts(registry.find("samplers", spec.sampler.name), spec.sampler.params)
    task = plugin_metadata.task_facts(registry.find("tasks", spec.task.name), spec.task.params)
    return replace(spec, moved=True) if movable(sampler.needs, opaque=task.opaque) else None


def tuning_notes(specs: Iterable[RunSpec]) -> list[str]:
    """Return which runs have settings that were tuned at another budget or by earlier rules."""
    pairs: dict[str, dict[str, None]] = {}
    for spec in specs:
        tuning = next((origin.tuning for origin in spec.origins.values() if origin.tuning), None)
        if tuning and (0 < tuning.version < SEARCH_VERSION or tuning.budget != spec.budget):
            rules = " by earlier rules" * (0 < tuning.version < SEARCH_VERSION)
            text = f"settings tuned at {tuning.budget}{rules}, run at {spec.budget}"
            pairs.setdefault(text, {})[f"{spec.method} on {spec.task.name}"] = None
    return [f"{text}: {', '.join([*names][:3])}{', ...' * (len(names) > 3)}" for text, names in pairs.items()]


def _lacks(spec: RunSpec, work: Work) -> str | None:
    """Return what is missing to compile a run that would be compiled by default, or None."""
    asked = uncompiled.asked_mode(spec)
    lacks = slowed(asked, spec.steps, work)
    if asked is None and lacks is None and spec.steps >= work.compiled_from:
        return uncompiled.why(uncompiled.in_mode(spec, "compiled"))
    return lacks


def make_spec(settings: Settings, steps: int, chains: int, budget: str, device: str = "cpu") -> RunSpec:
    """Return the RunSpec of seed 0, of so many steps of the schedule.

    `UsageError` if the settings do not fit the device or the number of steps.
    """
    pair = settings.pair
    run = {name: value for name, value in settings.run.items() if value is not None}
    for f in fields(Execution):
        if device == "cpu" and f.metadata.get("when") == "cuda" and f.name in run:
            raise UsageError(f"run.{f.name} is a setting of GPUs; leave it out, or add --devices cuda:0")
    share = run["burn_in"]
    burn_in = round(share * steps) if share < 1 else round(share)
    if share >= 1 and share != burn_in:
        raise UsageError(f"run.burn_in = {share:g} is neither a share below 1 nor a number of steps")
    how = {f.name: run.pop(f.name) for f in fields(Execution) if f.name in run}
    cycles = settings.schedule_params.get("cycles")
    if isinstance(cycles, int) and cycles > steps:
        raise UsageError(f"schedule.cycles = {cycles} is more than the {steps} steps; lower it or raise the budget")
    if burn_in >= steps:
        raise UsageError(f"burn-in of {burn_in} steps leaves nothing of {steps}; lower run.burn_in or raise the budget")
    substeps = run["substeps"]
    if steps * substeps > MAX_STEPS:
        raise UsageError(f"run.substeps = {substeps} makes more than {MAX_STEPS:,} steps of {steps:,}")
    how["compile"] = choose(how.get("compile"), steps * substeps, _work(settings, device, chains))
    return RunSpec(
        sampler=_part(pair.sampler, settings.sampler_params),
        schedule=_part(settings.schedule, settings.schedule_params),
        task=_part(pair.task, settings.task_params),
        task_version=settings.task.version,
        protocol=pair.protocol.name,
        data=checksum(settings.task.datasets),
        steps=steps * substeps,
        seed=0,
        chains=chains,
        execution=Execution(device=device, dtype=settings.task.dtype, **how),
        warm_source=source_hash(settings.warm_start.target) if settings.warm_start else None,
        **{**run, "burn_in": burn_in * substeps, "thin": run["thin"] * substeps},
        method=pair.method.name,
        budget=budget,
        origins=settings.origins,
    )


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of "0-9", "0,3,7" or "0-4,10" as a list without repeats."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if not match:
            raise UsageError(f"--seeds {text!r:.200}: {part!r:.60} is neither a number nor a range like 0-9")
        if any(len(number) > DIGITS for number in match.groups() if number):
            raise UsageError(f"--seeds {text!r:.200}: {part!r:.60} is not below 10^{DIGITS}")
        low, high = int(match[1]), int(match[2] or match[1])
        if high >= TUNING_SEED:
            raise UsageError(
                f"--seeds {text!r:.200}: seeds from {TUNING_SEED:,} are for `bench tune`; choose lower ones"
            )
        if high < low or len(seeds) + high - low >= MAX_SEEDS:
            why = "is empty" if high < low else f"makes them more than {MAX_SEEDS:,}"
            raise UsageError(f"--seeds {text!r:.200}: the range {part!r} {why}")
        seeds += range(low, high + 1)
    return list(dict.fromkeys(seeds))


def parse_settings(words: Sequence[str], option: str) -> dict[str, str]:
    """Return words of the form "key=value" as a dict. `UsageError` for any other word, and if a key has two values."""
    settings: dict[str, str] = {}
    for word in words:
        name, equals, value = (part.strip() for part in word.partition("="))
        if not equals or not name or not value:
            raise UsageError(f"{option} {word!r:.80} is not KEY=VALUE, as in sampler.a=5")
        if settings.setdefault(name, value) != value:
            raise UsageError(f"{option} gives {name} twice, {settings[name]!r:.80} and {value!r:.80}; keep one")
    return settings


def _points(sweep: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    names = list(sweep)
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*sweep.values())]


def _part(offer: Offer, params: Mapping[str, Any]) -> Component:
    return Component(offer.name, offer.target, source_hash(offer.target), dict(params))


def _steps(budget: str, settings: Settings) -> int:
    """Return the length of a run in steps. `budget` is a name, "steps=N" or "passes=N" (data passes)."""
    pair, named = settings.pair, _named_passes(settings)
    kind, equals, text = budget.partition("=")
    if budget not in named and (not equals or kind not in ("steps", "passes")):
        known = [*named, "steps=N", "passes=N"]
        raise UsageError(
            f"unknown budget {budget!r:.80} of {pair.task.name}@{pair.protocol.name}{suggestions(budget, known)}"
        )
    amount = named[budget] if budget in named else _amount(kind, text)
    steps = int(amount) if equals and kind == "steps" else _affordable(amount, settings)
    if not 1 <= steps <= MAX_STEPS:
        size = "less than one step" if steps < 1 else f"more than {MAX_STEPS:,} steps"
        raise UsageError(f"--budget {budget!r} is {size}{_spent(settings)}")
    return steps


def _spent(settings: Settings) -> str:
    """Return what of a budget is spent before the first step, for a message; "" if nothing is."""
    full, warm = settings.passes.init, settings.passes.warm
    before = {
        f"the {full} data passes that {settings.pair.sampler.name} spends at the start": full,
        f"the {warm:g} data passes of the warm start": warm,
    }
    spent = " and ".join(text for text, passes in before.items() if passes)
    return f" after {spent}" if spent else ""


def _amount(kind: str, text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0 < amount < 10**DIGITS:
        raise UsageError(f"--budget {kind}={text!r:.80}: it is not a number above 0 and below 10^{DIGITS}")
    if kind == "steps" and not amount.is_integer():
        raise UsageError(f"--budget {kind}={text}: it is not a whole number of steps")
    return amount


def _work(settings: Settings, device: str, chains: int) -> Work:
    """Return what the execution mode depends on besides the setting and the length of the run."""
    task, never = settings.task, settings.sampler.never_compiled
    return Work(device=device, dim=task.dim, chains=chains, opaque=task.opaque, never=never)


def _label(budget: str, steps: int, settings: Settings) -> str:
    """Return the label of a budget: a named budget of the same length gives its name, however it was asked for.

    A budget with settings of its own must be asked for by name, because other runs of its length lack these settings.
    """
    with_settings = settings.pair.protocol.budget_settings.keys() - {budget}
    names = [name for name, length in _named_steps(settings).items() if length == steps and name not in with_settings]
    if names:
        return names[0]
    return f"passes={settings.passes.after(steps):.10g}" if budget.startswith("steps=") else budget_label(budget)


def _named_steps(settings: Settings) -> dict[str, int]:
    """Return the protocol's budgets in steps of this sampler, without those that a warm start uses up."""
    named, warm = _named_passes(settings), settings.passes.warm
    return {name: _affordable(passes, settings) for name, passes in named.items() if passes > warm}


def _named_passes(settings: Settings) -> dict[str, float]:
    """Return the protocol's budgets in data passes. All samplers get the same number of passes, not of steps."""
    share = settings.task.batch_terms / settings.task.priced_terms
    return {name: gradients * share for name, gradients in settings.pair.protocol.budgets.items()}


def _affordable(passes: float, settings: Settings) -> int:
    """Return the number of steps that `passes` data passes allow after those that are spent before the first step.

    A rounding error does not cost a step. `UsageError` if the warm start takes all data passes.
    """
    spent = settings.passes
    if settings.warm_start and spent.warm >= passes:
        raise UsageError(
            f"run.warm_passes = {settings.run['warm_passes']:g}: the warm start takes {spent.warm:g} data passes "
            f"and the whole budget is {passes:g}; lower run.warm_passes or raise the budget; "
            "run.warm_start=none leaves it out"
        )
    return int((passes - spent.init - spent.warm) / spent.step * (1 + 1e-12))
