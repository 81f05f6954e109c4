"""Studies of tuned settings that `bench tune` found, in a results folder or in a plugin, for `--settings STUDY`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from harness import DataError, Registry, UsageError
from harness.contracts import HARNESS, Offer, Plugin
from harness.results import ONE_SETTING, spec
from harness.runs import Pair, plugin_metadata, resolve, source_hash
from harness.system import read_json
from harness.tasks import TUNING_SEED, Protocol

FOLDER = "tuning"
FORMAT = 2
NAME = "[a-z][a-z0-9-]*"
_TYPES = {"method": str, "task": str, "protocol": str, "budget": str, "settings": dict, "trials": int, "passes": float,
          "code": dict}  # fmt: skip
_TYPES_SINCE_2 = {"searches": list, "schedules": list, "seeds": list, "finalist_seeds": list}

StudyKey = tuple[str, str, str, str, str]
"""The names of a method, a task, a protocol and a budget, and what the search was given."""
HOW = {f"run.{f.name}" for f in fields(spec.Execution)}
"""Settings of how runs are executed: a search with them is one without them."""


@dataclass(frozen=True)
class Study:
    """A study: its records as `bench tune` writes them, by method, task, protocol, budget and what they were given.

    `owners` has the distribution of each record that a plugin brought: nobody here has seen its trials.
    """

    name: str
    records: Mapping[StudyKey, Mapping[str, Any]]
    owners: Mapping[StudyKey, str] = field(default_factory=dict)

    @property
    def pairs(self) -> set[tuple[str, str, str]]:
        """The method, task and protocol of each record of a search that was given nothing."""
        return {key[:3] for key, one in self.records.items() if not given_to(one)}

    def record(
        self,
        method: str,
        task: Offer,
        protocol: Protocol,
        budget: str,
        fits: Callable[[Mapping[str, Any]], bool] = lambda record: not given_to(record),
    ) -> Mapping[str, Any] | None:
        """Return the record of a pair at a budget, or else at the nearest: of the newest rules, the user's first.

        Of the records that fit the command, those of searches that were given most of what it gives.
        """
        of_pair = [one for one in self.of_pair(method, task, protocol) if fits(one)]
        most = max((len(given_to(one)) for one in of_pair), default=0)
        of_pair = [one for one in of_pair if len(given_to(one)) == most]
        if same := [one for one in of_pair if budget in (one["budget"], one.get("asked_budget"))]:
            return max(reversed(same), key=version)
        passes = {name: _passes(name, task, protocol) for name in {budget, *(one["budget"] for one in of_pair)}}

        def nearness(one: Mapping[str, Any]) -> tuple[int, float]:
            here, there = passes[budget], passes[one["budget"]]
            return version(one), -abs(math.log(here / there)) if here and there else -math.inf

        return max(reversed(of_pair), key=nearness, default=None)

    def of_pair(self, method: str, task: Offer, protocol: Protocol) -> list[Mapping[str, Any]]:
        """Return the records of a pair."""
        return [one for key, one in self.records.items() if key[:3] == (method, task.name, protocol.name)]

    def layer(
        self,
        registry: Registry,
        pair: Pair,
        budget: str,
        given: Mapping[str, Any],
    ) -> dict[str, spec.Origin]:
        """Return the tuned settings of a pair for what the command gives.

        Raise `UsageError` if there are none.
        """
        if self.name == ONE_SETTING:
            return {}
        method, sampler, task, protocol = pair.method, pair.sampler, pair.task, pair.protocol

        def fits(record: Mapping[str, Any]) -> bool:
            fixed = given_to(record)
            if not fixed or not fixed.keys() <= given.keys():
                return not fixed
            try:
                plain = replace(pair, defaults_only=True)
                settings = resolve(registry, plain, {**record["settings"], **given}, budget)
            except UsageError:  # the command's schedule has no such settings
                return False
            return {name: values(settings)[name] for name in fixed} == fixed

        record = self.record(method.name, task, protocol, budget, fits)
        if record is None:
            where = f"{task.name}@{protocol.name}"
            only = sorted({f" but with {key(one)[-1]}" for one in self.of_pair(method.name, task, protocol)})
            raise UsageError(
                f"study {self.name} has no settings of {method.name} on {where}{' or'.join(only)}; to find some: "
                f"bench tune --sampler {method.name} --task {where} --study {self.name}"
            )
        if owner := self.owners.get(key(record)):
            text = f"study {self.name} of {owner}"
            return {name: spec.Origin(value, "plugin", text) for name, value in record["settings"].items()}
        schedule = registry.find("schedules", str(record["settings"]["schedule"]), prefer=sampler.distribution)
        parts = {"sampler": sampler, "schedule": schedule, "task": task}
        tuning = spec.Tuning(
            study=self.name, version=version(record), budget=spec.budget_label(record["budget"]),
            schedules=tuple(record.get("schedules", ())), searches=len(record.get("searches", [record])),
            trials=record["trials"], passes=record["passes"],
            changed=changed_code(record, {part: source_hash(offer.target) for part, offer in parts.items()}),
        )  # fmt: skip
        return {name: spec.Origin(value, spec.TUNED, str(tuning), tuning) for name, value in record["settings"].items()}


def _passes(budget: str, task: Offer, protocol: Protocol) -> float | None:
    """Return the data passes of a budget, steps as those of one gradient on a batch; None of what is no budget."""
    kind, _, text = budget.partition("=")
    try:
        amount = float(protocol.budgets.get(budget, text))
    except ValueError:
        return None
    if not (math.isfinite(amount) and amount > 0):
        return None
    if kind == "passes":
        return amount
    facts = plugin_metadata.task_facts(task, plugin_metadata.resolve(task, protocol.task_settings()))
    return amount * facts.batch_terms / facts.priced_terms


def version(record: Mapping[str, Any]) -> int:
    """Return the version of the rules by which a record was tuned."""
    return int(record.get("search_version", 1))


def changed_code(record: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    """Return the parts whose code differs from the record, for example "sampler and the task". "" if none."""
    return " and the ".join(part for part, source in sources.items() if record["code"].get(part) != source)


def path(results: Path, study: str) -> Path:
    """Return the file of a study in a results folder. `UsageError` for an invalid name of a study."""
    if not re.fullmatch(NAME, study):
        raise UsageError(f"{study!r:.80} is not a name of a study: it must match {NAME}")
    if study == ONE_SETTING:
        raise UsageError(f"{ONE_SETTING} is not a name of a study: it means settings that nobody tuned")
    return results / FOLDER / f"{study}.json"


def read(file: Path) -> dict[StudyKey, Mapping[str, Any]]:
    """Return the records of a study by their keys. `DataError` for a file that is not a study."""
    document = read_json(file) or {}
    records = document.get("tuned")
    if document.get("format") not in (1, FORMAT) or not isinstance(records, list) or not all(map(_whole, records)):
        raise DataError(f"{file} is not a study of this version of bench; delete it and run `bench tune` again")
    for one in records:
        seeds, finalist_seeds = one.get("seeds", []), one.get("finalist_seeds", [])
        if set(seeds) & set(finalist_seeds) or any(seed < TUNING_SEED for seed in [*seeds, *finalist_seeds]):
            raise DataError(
                f"{file}: {one['method']} on {one['task']} was tuned on seeds that are not reserved for it, or chosen "
                "on those that it was searched on; delete the record and run `bench tune` again"
            )
    return {key(one): one for one in records}


def key(record: Mapping[str, Any]) -> StudyKey:
    """Return the key of a record."""
    given = ", ".join(f"{name}={value}" for name, value in sorted(given_to(record).items()))
    return record["method"], record["task"], record["protocol"], record["budget"], given


def values(settings: Any) -> dict[str, Any]:
    """Return the resolved values of all settings by their dotted names."""
    parts = {
        "sampler": settings.sampler_params, "schedule": settings.schedule_params, "task": settings.task_params,
        "run": settings.run,
    }  # fmt: skip
    return {f"{part}.{name}": value for part, params in parts.items() for name, value in params.items()}


def given_by(settings: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a command gives its runs, as resolved values.

    That is without the schedule, which is a tuned setting, without how runs are executed, and without what restates
    the protocol or the method.
    """
    resolved = values(settings)
    restated = {name for name, origin in settings.origins.items() if origin.provenance != spec.USER}
    changed = {name: resolved.get(name) for name in sorted(given.keys() - HOW - restated)}
    return {name: value for name, value in changed.items() if name in settings.origins or value}  # run.moved has none


def given_to(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the search of a record was given; of an earlier record, what any search at its budget was."""
    if "given" in record:
        return dict(record["given"])
    searches = [one for one in record.get("searches", ()) if one.get("budget") == record["budget"]]
    given = {name: value for one in searches for name, value in one.get("given", {}).items()}
    return {name: value for name, value in given.items() if name not in {*HOW, "schedule"}}


def _whole(record: Any) -> bool:
    if not isinstance(record, dict) or type(record.get("search_version", 1)) is not int:
        return False
    types = {**_TYPES, **(_TYPES_SINCE_2 if version(record) >= 2 else {})}
    lists = [record.get(name, []) for name in ("seeds", "finalist_seeds")]
    whole = all(isinstance(record.get(name), kind) for name, kind in types.items())
    whole = whole and all(isinstance(one, list) for one in lists)
    seeds = [seed for one in lists for seed in one] if whole else []
    return whole and "schedule" in record["settings"] and all(type(seed) is int for seed in seeds)


def load(registry: Registry, results: Path, study: str) -> Study:
    """Return the study of that name; `one-setting` has no records. `UsageError` if there is none.

    Its records are the shipped ones, those of plugins about their own samplers and methods, and those of the results
    folder, of which the later replace the earlier.
    """
    if study == ONE_SETTING:
        return Study(study, {})
    records, owners = shipped(registry, study)
    if (of_folder := path(results, study)).is_file():
        of_file = read(of_folder)
        records, owners = records | of_file, {key: owner for key, owner in owners.items() if key not in of_file}
    if not records:
        known = {file.stem for plugin in registry.plugins for file in plugin.studies} | {ONE_SETTING}
        known |= {file.stem for file in (results / FOLDER).glob("*.json")}
        raise UsageError(f"there is no study {study!r:.80}; known: {', '.join(sorted(known))}")
    return Study(study, records, owners)


def shipped(registry: Registry, study: str) -> tuple[dict[StudyKey, Mapping[str, Any]], dict[StudyKey, str]]:
    """Return the records that plugins brought for a study, and the distribution of those that are not of bench."""
    records: dict[StudyKey, Mapping[str, Any]] = {}
    owners: dict[StudyKey, str] = {}
    for plugin in registry.plugins:
        for file in [file for file in plugin.studies if file.stem == study]:
            of_file = read(file)
            if plugin.distribution != HARNESS:
                of_file = {key: one for key, one in of_file.items() if offers(plugin, one["method"])}
                owners |= dict.fromkeys(of_file, plugin.distribution)
            records |= of_file
    return records, owners


def offers(plugin: Plugin, method: str) -> bool:
    """Return whether a plugin offers the sampler or method, so that a study of its may have settings for it."""
    return any(offer.name == method and offer.kind in ("samplers", "methods") for offer in plugin.offers)
