"""The observer of Landsat: beside what that of classifiers has, mean errors along the whole run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.tasks import finite_or_none
from tasks.networks.observer import ClassifierObserver

if TYPE_CHECKING:
    from harness.tasks import Outcome


class RunErrorObserver(ClassifierObserver):
    """Adds run_test_error and run_train_error, the means of the curves single_test_error and single_train_error.

    A mean is over all points of a curve, from the first draw that is kept on, and over chains.
    """

    def outcome(self) -> Outcome:
        plain = super().outcome()
        if not plain.metrics:
            return plain
        means = {f"run_{rows}_error": plain.curves[f"single_{rows}_error"][1].mean() for rows in ("test", "train")}
        return replace(plain, metrics={**plain.metrics, **{name: finite_or_none(v) for name, v in means.items()}})
