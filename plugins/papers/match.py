"""The test whether a value of ours matches a cell of a paper's table, by the rule of RULES.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from harness import statistics

Verdict = Literal["match", "mismatch", "inconclusive", "not reproducible as published"]
ErrorKind = Literal["sd", "se", "unknown"]
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Match:
    """The verdict on a cell, with the reason in words; difference = our mean - theirs."""

    verdict: Verdict
    reason: str
    difference: float


def match_cell(
    ours: ArrayLike,
    theirs: float,
    error: float | None,
    error_kind: ErrorKind,
    runs: int,
    smallest_gap: float | None,
    level: float = 0.95,
) -> Match:
    """Compare our values (n,), one per seed, with a printed mean +- error over `runs` runs, all in one unit.

    mismatch: |difference| > t_Welch sqrt(our se^2 + their se^2). match: no mismatch, and our half-width t s / sqrt(n)
    is at most half of `smallest_gap`, the smallest difference that the table claims in that column. inconclusive: no
    mismatch, but ours is too wide to decide or no gap is given; or there is only one seed, or a value that is not
    finite. error_kind "unknown" is tested as sd and as se, and both must give the same result. A cell printed without
    an error (None) is assumed to vary from run to run as ours does. Raise `ValueError` for a negative error, runs < 1,
    or an error over fewer than 2 runs.
    """
    x = statistics.as_values(ours)
    if runs < 1 or (error is not None and (error < 0 or runs < 2)):
        raise ValueError(f"error {error} over {runs} runs is not an error of a mean")
    difference = float(x.mean()) - theirs
    if len(x) == 1:
        return Match("inconclusive", "one run gets no verdict", difference)
    if not np.isfinite(x).all():
        return Match("inconclusive", "a value of ours is not finite", difference)
    if error is None and x.min() == x.max():
        return Match("inconclusive", "neither value has an error", difference)
    our_se = float(x.std(ddof=1)) / float(np.sqrt(len(x)))
    bounds = {
        reading: statistics.t_multiplier(df, level) * float(np.hypot(our_se, se)) + _ROUNDING * abs(theirs)
        for reading, se, df in _readings(our_se, len(x), error, error_kind, runs)
    }
    half_width = statistics.t_multiplier(len(x) - 1, level) * our_se
    return Match(*_judge(abs(difference), bounds, half_width, smallest_gap), difference)


def _judge(
    distance: float, bounds: dict[str, float], half_width: float, smallest_gap: float | None
) -> tuple[Verdict, str]:
    """Return the verdict from |difference|, its bound by each reading of the printed error, and our precision."""
    within = [reading for reading, bound in bounds.items() if distance <= bound]
    described = " and ".join(f"{bound:.3g} ({reading})" for reading, bound in bounds.items())
    if not within:
        return "mismatch", f"|difference| {distance:.3g} exceeds {described}"
    if len(within) < len(bounds):
        return (
            "inconclusive",
            f"|difference| {distance:.3g} is within bounds only if {within[0]}: {described}",
        )
    if smallest_gap is None:
        return "inconclusive", "the table claims no gap to judge our precision by"
    if half_width > smallest_gap / 2:
        return "inconclusive", f"our half-width {half_width:.3g} exceeds half the gap of {smallest_gap:.3g}"
    return "match", f"|difference| {distance:.3g} is within {described}"


def _readings(our_se: float, n: int, error: float | None, kind: ErrorKind, runs: int) -> list[tuple[str, float, float]]:
    """Return (assumption, their se, degrees of freedom) for each reading of the printed error."""
    if error is None:
        return [("no error printed, taken as ours", our_se * float(np.sqrt(n / runs)), n - 1)]
    errors = {"sd": error / float(np.sqrt(runs)), "se": error}
    kinds = list(errors) if kind == "unknown" else [kind]
    return [(f"+- is {k}", errors[k], _welch_df(our_se, n, errors[k], runs)) for k in kinds]


def _welch_df(se_a: float, n_a: int, se_b: float, n_b: int) -> float:
    if se_a == 0 and se_b == 0:
        return n_a + n_b - 2
    share = se_a**2 / (se_a**2 + se_b**2)
    return 1.0 / (share**2 / (n_a - 1) + (1 - share) ** 2 / (n_b - 1))
