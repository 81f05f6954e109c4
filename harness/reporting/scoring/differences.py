"""In which terms two groups differ. A comparison of them is fair only if its statement names these terms."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from harness.contracts.parameters import suggestions
from harness.results.spec import TUNED
from harness.system.errors import UsageError

if TYPE_CHECKING:
    from harness.reporting.scoring.groups import Group


class Term(StrEnum):
    """What has to be equal for both groups unless it is what is compared. TUNING is whether and how they were tuned."""

    SCHEDULE, WARM_START, BATCH, PRICE, TUNING = "schedule", "warm-start", "batch", "price", "tuning"


def terms(words: Iterable[str]) -> list[Term]:
    """Return the terms that a statement names. `UsageError` for a word that is none of them."""
    for word in (words := list(words)):
        if word not in [*Term]:
            raise UsageError(f"{word!r:.80} is not a term in which compared rows may differ{suggestions(word, Term)}")
    return [Term(word) for word in words]


def differing_terms(a: Group, b: Group) -> dict[Term, tuple[str, str]]:
    """Return the terms in which two groups differ, with the values of both.

    A schedule that the searches of both groups could have chosen is like any other tuned setting, if its step size is
    one.
    """
    values = zip(Term, _terms(a), _terms(b), strict=True)
    apart = {term: (x, y) for term, x, y in values if x != y and x is not None and y is not None}
    if Term.SCHEDULE in apart and all({*apart[Term.SCHEDULE]} <= _searched_schedules(group) for group in (a, b)):
        del apart[Term.SCHEDULE]
    return apart


def _searched_schedules(group: Group) -> set[str]:
    tuned = any(kind == TUNED and name.startswith("schedule.") for name, kind in group.provenance.items())
    return set(group.tuning.schedules) if group.tuning and tuned else set()


def refusal(a: Group, b: Group, named: Collection[Term] = ()) -> str:
    """Return why two groups are not compared by a statement that names these terms; "" if they are.

    Groups that were tuned by different rules are never compared.
    """
    named = {*named} - ({Term.TUNING} if a.tuning_version and b.tuning_version else set())
    apart = {term: values for term, values in differing_terms(a, b).items() if term not in named}
    return "; ".join(f"they differ in {term}: {x} and {y}" for term, (x, y) in apart.items())


def _terms(group: Group) -> tuple[str | None, ...]:
    """Return the value of each term, None where it is not known."""
    settings = group.settings
    start, batches = (
        settings.get("run.warm_start"),
        sorted(n for n in settings if n.endswith((".batch", ".batch_order"))),
    )
    return (
        str(settings.get("schedule", "")),
        f"{settings.get('run.warm_passes', 0):g} data passes of {start}" if start else "none",
        ", ".join(f"{name}={settings[name]}" for name in batches) or "none",
        {True: "full gradients", False: "gradients of minibatches or with noise", None: None}[group.full_gradients],
        f"by rules {group.tuning_version}" if group.tuning_version else "not tuned",
    )
