"""What a comparison of two rows says, and the verdicts of a family of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.analysis.statistics import PERMUTATION_SEEDS, holm

LEVEL = 0.05
FEWEST = 3
"""Pairs without which there is no test at all."""

Better = Literal["a", "b", ""]


@dataclass(frozen=True)
class Comparison:
    """A against B by one metric.

    pairs      the seeds that count: both have a value
    a, b       the means over them, or the statistics
    effect     a - b averaged over the pairs (where direction is "target": of the distances from it); where `scale` is
               "ratio", a / b; inf where only B gets there; None where there is nothing to compare
    low, high  ends of its interval or range; `interval` says which: "t 95 % (x2.26)", "bootstrap 95 %", "range", "none"
    p, test    two-sided p of "no difference", and what it assumes; None where the seeds are too few
    unpaired   seed -> why it does not count: "A diverged at step 120, chain 2"
    withheld   why there is no verdict whatever p is; "" where nothing stands against one
    adjusted   p after Holm over the family; from `judge`
    better     which is better, if adjusted < .05 and nothing is withheld; from `judge`
    """

    metric: str
    version: int
    unit: str
    direction: str
    target: float | None
    pairs: tuple[int, ...] = ()
    a: float | None = None
    b: float | None = None
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    interval: str = "none"
    scale: Literal["difference", "ratio"] = "difference"
    p: float | None = None
    test: str = ""
    unpaired: Mapping[int, str] = field(default_factory=dict)
    withheld: str = ""
    adjusted: float | None = None
    better: Better = ""

    @property
    def favours(self) -> Better:
        """The side that the effect speaks for, by the metric's direction; "" where it speaks for none."""
        even = 1.0 if self.scale == "ratio" else 0.0
        if self.effect is None or self.effect == even or (self.direction == "target" and self.target is None):
            return ""
        return "a" if (self.effect > even) == (self.direction == "max") else "b"


def judge(family: Sequence[Comparison], level: float = LEVEL) -> list[Comparison]:
    """The comparisons, in their order, with p after Holm over all that were tested, and what is better."""
    tested = [comparison for comparison in family if comparison.p is not None]
    after = iter(holm([comparison.p for comparison in tested if comparison.p is not None]))
    return [_judged(c, next(after), level) if c.p is not None else c for c in family]


def too_few(pairs: int) -> str:
    """Why so many pairs get no verdict."""
    return (
        f"{pairs} {'pair' if pairs == 1 else 'pairs'} of seeds: a verdict needs {FEWEST}, a claim {PERMUTATION_SEEDS}"
    )


def _judged(comparison: Comparison, adjusted: float, level: float) -> Comparison:
    clear = adjusted < level and not comparison.withheld
    return replace(comparison, adjusted=adjusted, better=comparison.favours if clear else "")
