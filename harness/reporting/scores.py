"""The groups and the scores of a store's runs, as a request selects them."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence

from harness.contracts.hookspecs import Info, Method
from harness.contracts.registry import Offer, registry
from harness.reporting.report import Request
from harness.reporting.scoring import accuracy
from harness.reporting.scoring.accuracy import Accuracy
from harness.reporting.scoring.grouping import groups_of
from harness.reporting.scoring.groups import Curve, Group, fields
from harness.reporting.scoring.score import FieldScore
from harness.results import laws, timings
from harness.results.store import Store
from harness.results.store.scored_runs import AT_ONCE, CurveKey, curve_arrays, curve_names, group_frames
from harness.runs.source import source_hash
from harness.runs.stated import stated_settings


def load_groups(store: Store, request: Request, *, trials: bool = False, substeps: bool = False) -> list[Group]:
    """Return all groups that the request selects and that have a concluded run.

    With `trials`, return only the groups of `bench tune`; with `substeps`, also those that take several steps for each
    of the schedule (`run.substeps`), which serve to estimate a bias and are no rows of other reports.
    """
    filters = request.tasks, request.methods, request.protocols
    frames = group_frames(store, *filters, trials=trials, substeps=substeps)
    methods = [*_offers(request, "samplers"), *_offers(request, "methods")]
    offered = {offer.name: offer.info for offer in methods if isinstance(offer.info, Info | Method)}
    stated = stated_settings(request.registry or registry())
    timed, installed = timings.read(store.results), functools.partial(_installed, request)
    facts = request.registry.facts("caveats") if request.registry else []
    caveats: dict[str, dict[str, str]] = {}
    for key, texts in (one for of_rows in facts for one in of_rows(store, request.registry).items()):
        caveats.setdefault(key, {}).update(texts)
    return [
        group
        for group in groups_of(frames, installed, offered, stated, timed, laws.read(store.results), caveats)
        if not request.budgets or group.budget in request.budgets
        if not request.chains or group.chains in request.chains
        if not request.groups or group.key in request.groups
    ]


def _installed(request: Request, task: str) -> set[str]:
    """Return the hashes of a task's installed code."""
    return {source_hash(offer.target) for offer in _offers(request, "tasks") if offer.name == task}


def _offers(request: Request, kind: str) -> Sequence[Offer]:
    return request.registry.offers(kind) if request.registry is not None else []


def load_curves(store: Store, groups: Iterable[Group], names: Sequence[str]) -> dict[CurveKey, Curve]:
    """Return the named curves of the groups' runs by (attempt, name), with NaN where a value does not exist."""
    return curve_arrays(store, [attempt for group in groups for attempt in group.runs.numbers.attempt], names)


def score_fields(store: Store, request: Request, *, substeps: bool = False) -> list[FieldScore]:
    """Return the scored fields of a request, in a fixed order. Each field is scored on its own. See `load_groups`.

    The reports of one request share what they compute of a field: each gets copies, to which it may add metrics.
    """
    filters = request.tasks, request.methods, request.protocols, request.budgets, request.chains, request.groups
    fields_once = request.once((store, filters, substeps), lambda: _score_fields(store, request, substeps=substeps))
    return [copy.copy(field) for field in fields_once]


def _score_fields(store: Store, request: Request, *, substeps: bool) -> list[FieldScore]:
    groups = load_groups(store, request, substeps=substeps)
    held: dict[str, dict[CurveKey, Curve]] = {}
    stored = functools.cache(lambda: curve_names(store))

    def curves(wanted: Sequence[Group], names: Sequence[str]) -> dict[CurveKey, Curve]:
        """Load the curves of all groups at once and keep them, unless there are too many."""
        names = [name for name in names if name in stored()]
        if not names:
            return {}
        if sum(len(group.runs) for group in groups) > AT_ONCE:
            return load_curves(store, wanted, names)
        if missing := [name for name in names if name not in held]:
            loaded = load_curves(store, groups, missing)
            held.update({name: {key: loaded[key] for key in loaded if key[1] == name} for name in missing})
        keys = [(attempt, name) for group in wanted for attempt in group.runs.numbers.attempt for name in names]
        return {key: held[key[1]][key] for key in keys if key in held[key[1]]}

    @functools.cache
    def accuracies() -> Mapping[str, Accuracy]:
        ends = itertools.accumulate(len(group.runs) for group in groups)  # about `AT_ONCE` runs a part
        pairs = itertools.groupby(zip(groups, ends, strict=True), lambda pair: pair[1] // AT_ONCE)
        parts = ([group for group, _ in part] for _, part in pairs)
        loaded = ((part, curves(part, accuracy.CURVES)) for part in parts)
        return {group.key: accuracy.accuracy(group, of_part) for part, of_part in loaded for group in part}

    return [FieldScore(field, groups, accuracies, curves, store.results) for field in fields(groups)]
