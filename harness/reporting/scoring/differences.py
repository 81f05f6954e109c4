"""In which terms two groups differ. A comparison of them is fair only if its statement names these terms."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from harness.contracts.parameters import suggestions
from harness.system.errors import UsageError

if TYPE_CHECKING:
    from harness.reporting.scoring.groups import Group


class Term(StrEnum):
    """A term of a comparison, which has to be equal for both groups unless it is what is compared."""

    SCHEDULE = "schedule"
    WARM_START = "warm-start"
    BATCH = "batch"
    PRICE = "price"
    TUNING = "tuning"
    """Whether settings were searched, and by which rules. Groups tuned by different rules are never compared."""


def terms(words: Iterable[str]) -> list[Term]:
    """Return the terms that a statement names. `UsageError` for a word that is none of them."""
    for word in (words := list(words)):
        if word not in [*Term]:
            raise UsageError(f"{word!r:.80} is not a term in which compared rows may differ{suggestions(word, Term)}")
    return [Term(word) for word in words]


def differing_terms(a: Group, b: Group) -> dict[Term, tuple[str, str]]:
    """Return the terms in which two groups differ, with the values of both.

    A schedule that was searched is like any other tuned setting: it does not count as a difference if each of the two
    searches had the schedules of both.
    """
    values = {term: (_term(a, term), _term(b, term)) for term in Term}
    apart = {term: pair for term, pair in values.items() if pair[0] != pair[1]}
    searched = [set(group.tuning.schedules) if group.tuning else set() for group in (a, b)]
    if all(set(apart.get(Term.SCHEDULE, ())) <= schedules for schedules in searched):
        apart.pop(Term.SCHEDULE, None)
    if a.full_gradients is None or b.full_gradients is None:
        apart.pop(Term.PRICE, None)
    return apart


def refusal(a: Group, b: Group, named: Collection[Term] = ()) -> str:
    """Return why two groups are not compared by a statement that names these terms; "" if they are."""
    apart = differing_terms(a, b)
    never = {Term.TUNING} if a.tuning_version and b.tuning_version else set()
    refused = {term: values for term, values in apart.items() if term not in named or term in never}
    return "; ".join(f"they differ in {term}: {x} and {y}" for term, (x, y) in refused.items())


def _term(group: Group, term: Term) -> str:
    settings = group.settings
    if term == Term.SCHEDULE:
        return str(settings.get("schedule", ""))
    if term == Term.WARM_START:
        name, passes = settings.get("run.warm_start"), settings.get("run.warm_passes")
        return f"{passes:g} data passes of {name}" if name else "none"
    if term == Term.TUNING:
        return f"by rules {group.tuning_version}" if group.tuning_version else "not tuned"
    if term == Term.BATCH:
        names = sorted(name for name in settings if name.rpartition(".")[2] in {"batch", "batch_order"})
        return ", ".join(f"{name}={settings[name]}" for name in names) or "none"
    return "full gradients" if group.full_gradients else "gradients of minibatches or with noise"
