"""One row against another by one metric, paired by seed: RULES.md 4 and 5 as code. Pure functions on records.

    family = [compare(a, b, "modes_covered"), compare(a, b, "gradients_to_low_error", curves)]
    for comparison in judge(family):         # Holm over all that was tested
        comparison.better                    # "a", "b", or "" for undecided

A and B are groups of runs: two samplers, or one sampler of two nights. A task's metrics are averaged over seeds, and
compared by the mean difference; the joint error, gradients to low error and ess_mse are statistics over chains x seeds,
and compared by their ratio (`overall`). `compare_values` takes plain values by seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.analysis.statistics import mean_interval, paired_test, t_multiplier
from harness.reporting.scoring.comparison import FEWEST, Comparison, judge, too_few
from harness.reporting.scoring.estimates import Curves
from harness.reporting.scoring.groups import Group, Run, Value
from harness.reporting.scoring.pooled_comparison import STATISTICS, compare_overall
from harness.reporting.scoring.record import divergence

__all__ = ["Comparison", "compare", "compare_values", "judge"]


def compare(a: Group, b: Group, metric: str, curves: Curves | None = None) -> Comparison | None:
    """A metric of two groups, paired by seed; None where neither has it.

    A seed that one side has not run is left out. One where a side diverged, failed or has no value cannot be averaged
    away: it is left out too, and the verdict withheld. `curves` (`load_curves`) are needed for `STATISTICS` only.
    """
    if metric in STATISTICS:
        return compare_overall(a, b, metric, curves or {})
    known = _newest(a.metrics().get(metric), b.metrics().get(metric))
    if known is None:
        return None
    sides = [{run.seed: run for run in group.runs} for group in (a, b)]
    values: list[dict[int, float]] = [{}, {}]
    unpaired: dict[int, str] = {}
    outcomes: Counter[tuple[int, str]] = Counter()
    for seed in sorted({*sides[0], *sides[1]}):
        lacks = []
        for i, name in enumerate("AB"):
            found = _reading(sides[i].get(seed), metric, known.version)
            if isinstance(found, float):
                values[i][seed] = found
                continue
            lacks.append(f"{name} {found.text}")
            outcomes[i, found.outcome] += bool(found.outcome)
        if lacks:
            unpaired[seed] = ", ".join(lacks)
    paired = compare_values(values[0], values[1], known.direction, known.target)
    against = [f"{'AB'[i]} {what} in {n} of {len(sides[i])} seeds" for (i, what), n in outcomes.items() if n]
    withheld = "; ".join([*against, *([paired.withheld] if paired.withheld else [])])
    return replace(
        paired, metric=metric, version=known.version, unit=known.unit, unpaired=unpaired, withheld=withheld
    )  # fmt: skip


def compare_values(
    a: Mapping[int, float], b: Mapping[int, float], direction: str, target: float | None = None
) -> Comparison:
    """Values by seed, on the seeds that both have: mean difference, its interval over seeds, its p.

    direction "max" or "min" says where better is, "target" that the distance from `target` is what is compared. Sign
    flips from 10 pairs on, a paired t on 3 to 9, no test on fewer. ValueError for values that are not finite.
    """
    pairs = tuple(sorted(a.keys() & b.keys()))
    blank = Comparison("", 1, "", direction, target, pairs)
    if not pairs:
        return replace(blank, withheld="no seed of which both have a value")
    x, y = [a[seed] for seed in pairs], [b[seed] for seed in pairs]
    u, v = x, y
    if direction == "target" and target is not None:
        u, v = [abs(value - target) for value in x], [abs(value - target) for value in y]
    differences = [left - right for left, right in zip(u, v, strict=True)]
    found = mean_interval(differences)
    kind = f"t 95 % (x{t_multiplier(len(pairs) - 1):.2f})" if found.kind == "t" else found.kind
    made = replace(
        blank, a=sum(x) / len(x), b=sum(y) / len(y), effect=found.mean, low=found.low, high=found.high, interval=kind
    )
    if len(pairs) < FEWEST:
        return replace(made, withheld=too_few(len(pairs)))
    test = paired_test(differences)
    aimless = "no value of it is the best" if direction == "target" and target is None else ""
    return replace(made, p=test.p, test=test.method, withheld=aimless)


@dataclass(frozen=True)
class _Lack:
    """Why a run has no value; `outcome` is what it is counted as, where the run did take place."""

    text: str
    outcome: str = ""


def _reading(run: Run | None, metric: str, version: int) -> float | _Lack:
    if run is None:
        return _Lack("was not run")
    if run.status == "diverged":
        return _Lack(divergence(run), "diverged")
    if run.status != "done":
        return _Lack(f"failed ({run.status}); --retry runs it again", "failed")
    value = run.metrics.get(metric)
    if value is None:
        return _Lack("has no record of the metric; `bench rescore` may add it")
    if value.version != version:
        return _Lack(
            f"has version {value.version} of the metric, not {version}; `bench rescore` may bring it up to date"
        )
    return value.value if value.value is not None else _Lack("has no value", "has no value")


def _newest(a: Value | None, b: Value | None) -> Value | None:
    known = [value for value in (a, b) if value is not None]
    return max(known, key=lambda value: value.version, default=None)
