"""Shared parts of the wide tables: a row per method with seven columns, and all other columns on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness import statistics
from harness.reports import (
    ONE_DRAW,
    Column,
    Estimate,
    FieldScore,
    Group,
    Level,
    Table,
    number,
    settings_from,
    tuned_otherwise,
    typical,
    with_interval,
)

RunCosts = Callable[[Group], Sequence[float | None]]
Cell = Callable[[Group], Any]
HEADERS = {
    "distribution_error": "distribution error",
    "ece": "ECE",
    "passes_to_low_error": "data passes to low error",
    "joint_bias2": "squared bias",
    "joint_error": "joint error",
    "kernel_stein_discrepancy": "kernel Stein discrepancy",
    "greatest_variance": "widest variance",
    "largest_bias2": "largest squared bias",
    "last_mode_first_visit": "last mode first visited",
    "least_variance": "narrowest variance",
    "mean_error": "mean error (sd)",
    "median_error": "median of chains",
    "mode_mass_tv": "mode mass TV",
    "modes_covered": "modes covered",
    "nll": "NLL",
    "paper_ess_mean": "mean of the paper's ESS",
    "paper_ess_median": "median of the paper's ESS",
    "share_within_r": "share within r",
    "single_test_error": "test error of a draw",
    "temperature": "mean T",
    "temperature_max": "hottest T",
    "temperature_min": "coldest T",
    "variance_ratio": "variance ratio",
    "wasserstein2": "Wasserstein-2",
    "within_mode_covariance_ratio": "within-mode covariance ratio",
    "worst_mean_error": "worst mean error (sd)",
}
"""The names of metrics in tables, where underscores for spaces do not give them. None has a comma."""
JOINT_LAW = ("worst_mean_error", "least_variance", "greatest_variance", "distribution_error")
"""The metrics of the gate."""
JOINT, COST, FAILED = "joint_error", "passes_to_low_error", "failed_chains"
SPREAD = "within_mode_covariance_ratio"
LOW = dict.fromkeys(("joint_error", "passes_to_low_error"), "min")
"""Metrics that follow from curves, and are best where they are lowest."""
POOLED = ("ess_bulk", "ess_tail")
"""Effective sizes of all chains of a run together; the others are those of one chain."""
WIDE, NARROW = 1.25, 0.8
"""Limits of the spread within a mode, in units of the truth's, beyond which a row has a warning."""
COLUMNS = {
    "task": "task", "protocol": "protocol", "budget": "budget", "chains": "chains", "group": "group key",
    "rank": "rank", "method": "method", "verdict": "verdict", "times_best": "times the best",
    "gradients": "gradients", "passes": "data passes", "with_tuning": "data passes with tuning", "seconds": "seconds",
    "warning": "warning", "warnings": "all warnings", "seeds": "seeds", "status": "status", "ranks": "possible ranks",
    "rank_by_passes": "rank by data passes", "settings": "settings", "given": "given at no cost",
    "changed": "set by the user", "untuned": "untuned", "tuned": "tuned", "caveats": "caveats", "laws": "laws",
    "verified": "verified", "reference": "reference",
}  # fmt: skip
"""The headers of the columns that are not metrics, by key."""
VERDICTS = {statistics.Verdict.TIED: "tied", statistics.Verdict.TOO_FEW: "not known"}
"""Verdicts whose words in a table are shorter than in a record."""
TERMS = "[], \N{PLUS-MINUS SIGN}: 95 % over seeds. Terms: docs/glossary.md"
"""The end of the footnote of every table, which fits into 100 characters."""


def header(metric: str) -> str:
    """Return a metric's name for tables; "x per data pass" if it is divided by a cost."""
    for suffix, unit in (("_per_pass", "data pass"), ("_per_second", "second")):
        if metric.endswith(suffix):
            return f"{header(metric.removesuffix(suffix))} per {unit}"
    return HEADERS.get(metric, metric.replace("_", " "))


def passes(metric: str) -> RunCosts:
    """Return the cost function of an effective size: the data passes of one chain, or of all chains."""

    def cost(group: Group) -> list[float | None]:
        chains = group.chains if metric in POOLED else 1
        return [passes and passes * chains for passes in group.done.numbers.passes]

    return cost


def metric_cell(score: FieldScore, metric: str) -> Cell:
    """Return the cell of a metric: its estimate with the interval, without the remedy if it has no value."""
    return lambda group: with_interval(score.estimate(group, metric)).partition(":")[0]


def rank_cell(score: FieldScore, metric: str) -> Cell:
    """Return the cell of a rank by a metric, with the ranks that the significant differences leave open."""

    def cell(group: Group) -> str:
        rank = score.standing(group, metric).rank
        return rank_text(rank.rank, rank.low, rank.high) if rank else "-"

    return cell


def rank_text(rank: int | None, low: int | None, high: int | None) -> str:
    """Return a rank with its ends as text: "2 (1 to 3)", "2" if they are alike, or "-"."""
    return "-" if rank is None else f"{rank}" if low == high else f"{rank} ({low} to {high})"


def with_ends(estimate: Estimate | None) -> tuple[float, float, float] | None:
    """Return an estimate's mean and the ends of its interval, the mean if they are missing; None without a mean."""
    if estimate is None or estimate.mean is None:
        return None
    low, high = (estimate.mean if end is None else end for end in (estimate.low, estimate.high))
    return estimate.mean, low, high


def spread(score: FieldScore, group: Group) -> str:
    """Return a warning ("too wide x4.7") if the interval of the spread within a mode is outside the limits, or ""."""
    estimate = score.estimate(group, SPREAD)
    ends = with_ends(estimate)
    if estimate is None or ends is None or not estimate.target:
        return ""
    mean, low, high = ends
    factor = number(mean / estimate.target)
    if low > WIDE * estimate.target:
        return f"too wide x{factor}"
    return f"too narrow x{factor}" if high < NARROW * estimate.target else ""


def failed_chains(score: FieldScore, group: Group) -> str:
    """Return the number of failed chains, "2 of 40 chains failed", or "" if there are none."""
    share = score.estimate(group, FAILED)
    if share is None or not share.mean:
        return ""
    chains = group.chains * len(share.by_seed)
    return f"{share.mean * chains:.0f} of {chains} chains failed"


def warnings(score: FieldScore, group: Group, metric: str) -> Iterator[str]:
    """Yield what a reader has to know of a row, the gravest first: why it has no rank, what is wrong, what is open."""
    standing, estimate = score.standing(group, metric), score.estimate(group, metric)
    reason = standing.status.removeprefix("unranked: ").partition(":")[0].partition(" (")[0]
    by_width = reason == "biased" and spread(score, group)  # which says how
    if standing.rank is None and not by_width:
        yield reason
    yield spread(score, group)
    yield failed_chains(score, group)
    if metric == JOINT and estimate is not None and estimate.mean is not None and estimate.mean > ONE_DRAW:
        yield "above one exact draw"
    if standing.rank is not None and standing.rank.seeds:
        yield f"{standing.rank.seeds:,} seeds would decide"


def verdict(score: FieldScore, group: Group, metric: str) -> str:
    """Return the verdict on a row: best, tied, worse, not known, or that it has no rank."""
    rank = score.standing(group, metric).rank
    return "not ranked" if rank is None else VERDICTS.get(rank.verdict, str(rank.verdict))


def label(score: FieldScore, group: Group) -> str:
    """Return the group's label, with its warm start, its caveats and what is given: "sgrld, given metric"."""
    given = f", given {', '.join(group.given)}" if group.given else ""
    warm = f", started by {name}" if (name := group.settings.get("run.warm_start")) else ""
    return score.labels[group.key] + warm + given + "".join(f", {name}" for name in group.caveats)


def chosen_by(group: Group) -> str:
    """Return who chose a row's settings: its ruleset, or by which rules or at which budget it was tuned."""
    return tuned_otherwise(group) or str(group.ruleset)


class Row(Mapping[str, Any]):
    """A row of a table, whose cells are computed when they are read: most columns are shown on demand only."""

    def __init__(self, group: Group, cells: Mapping[str, Cell]) -> None:
        self._group, self._cells = group, cells

    def __getitem__(self, key: str) -> Any:
        return self._cells[key](self._group)

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)


def build(
    score: FieldScore,
    by: str,
    beside: Iterable[str] = (),
    special: Mapping[str, Cell] = {},
    headers: Mapping[str, str] = {},
    note: str = "",
) -> Table:
    """Return one field's table, ranked by a metric.

    Shown are rank, method, verdict, the metric with its interval, how many times the best value it is (or the metrics
    `beside`), seconds or, if no row is timed, data passes, and a warning. On demand there are all other metrics, the
    cost, and the settings. `special` has cells of metrics that are not a plain estimate, `headers` their headers.
    """
    groups = score.ordered(by)
    estimate_of = {group.key: score.estimate(group, by) for group in groups}
    difference = any(e is not None and e.unit == "nats" for e in estimate_of.values())
    best = _distance(estimate_of[groups[0].key]) if score.standing(groups[0], by).rank else None
    timed = any(group.seconds is not None for group in groups)

    def from_best(group: Group) -> float | None:
        value = _distance(estimate_of[group.key])
        if value is None or best is None or not (difference or best):
            return None
        return value - best if difference else value / best

    metrics = {metric: metric_cell(score, metric) for metric in score.metrics} | dict(special)
    costs = cost_cells(score)
    foreign = any(group.level != Level.RUN_HERE for group in groups)
    cells: dict[str, Cell] = {
        "rank": lambda group: rank.rank if (rank := score.standing(group, by).rank) else None,
        "method": lambda group: label(score, group),
        "verdict": lambda group: verdict(score, group, by),
        "times_best": from_best,
        "warning": lambda group: next(filter(None, warnings(score, group, by)), None),
        **metrics,
        **costs,
        by: lambda group: estimate.mean if (estimate := estimate_of[group.key]) else None,
        f"{by}_shown": metrics.get(by, lambda _: None),
        "seconds_shown": lambda group: "not timed" if group.seconds is None else number(group.seconds),
        "seeds": lambda group: len(group.runs),
        "status": lambda group: score.standing(group, by).status,
        "warnings": lambda group: "; ".join(filter(None, warnings(score, group, by))),
        "ranks": rank_cell(score, by),
        **({"rank_by_passes": rank_cell(score, COST)} if COST in score.metrics else {}),
        "settings": chosen_by,
        "changed": lambda group: ", ".join(settings_from(group, "user", "swept")),
        "untuned": lambda group: ", ".join(settings_from(group, "untuned")),
        "tuned": lambda group: group.tuned,
        "given": lambda group: "; ".join(f"{name}: {what}" for name, what in group.given.items()),
        "caveats": lambda group: "; ".join(f"{name}: {text}" for name, text in group.caveats.items()),
        "laws": lambda group: str(group.laws),
        **({"verified": lambda group: str(group.level)} if foreign else {}),
        "reference": lambda _: score.reference,
        "task": lambda group: group.task,
        "protocol": lambda group: group.protocol,
        "budget": lambda group: group.budget,
        "chains": lambda group: group.chains,
        "group": lambda group: group.key,
    }
    known = {name: one.direction for group in groups for name, one in group.metrics().items()}
    best_of = {name: way for name, way in {**known, **LOW}.items() if way != "target"}
    named = {**{metric: header(metric) for metric in metrics}, **COLUMNS, **headers}
    named |= {"times_best": "minus the best"} if difference else {}
    right = {"rank", "seeds", "chains", "times_best", *metrics, *costs} - {"gradients"}
    every = {
        name: Column(
            name,
            named[name],
            "right" if name in right else "left",
            number if name in ("times_best", "passes", "with_tuning") else "",
            shown if (shown := f"{name}_shown") in cells else "",
            best_of.get(name, ""),  # type: ignore[arg-type]
        )
        for name in cells
        if name in named
    }
    first = ["rank", "method", "verdict", by, *(beside or ["times_best"]), "seconds" if timed else "passes", "warning"]
    counts = sorted({len(group.runs) for group in groups})
    seeds = f"{counts[0]}{f' to {counts[-1]}' * (len(counts) > 1)} seed{'s' * (counts[-1] > 1)}"
    return Table(
        f"{score.title}, {seeds}",
        [every[name] for name in first if name in every],
        [Row(group, cells) for group in groups],
        [f"{note or f'Ranked by {named[by]}'}. {TERMS}" if by else "Nothing to rank by: no run has a result"],
        keys=2,
        more=[column for name, column in every.items() if name not in first],
    )


def _distance(estimate: Estimate | None) -> float | None:
    """Return an estimate's value, or its distance from the best value of the metric, if it has one."""
    if estimate is None or estimate.mean is None:
        return None
    return estimate.mean if estimate.target is None else abs(estimate.mean - estimate.target)


def cost_cells(score: FieldScore) -> dict[str, Cell]:
    """Return the data passes of a chain, a median over seeds, and the seconds of sampling by the timing pass.

    Where it is recorded, a cell says whether gradients were full. If a row is tuned, one adds the data passes of
    tuning, shared among the chains of one run.
    """

    def spent(group: Group) -> float | None:
        return typical(group.done.numbers.passes) if group.done else None

    def with_tuning(group: Group) -> float | None:
        cost = spent(group)
        if cost is None or (group.tuned and not group.tuning):  # an earlier record does not say what the search cost
            return None
        return cost + (group.tuning.passes / group.chains if group.tuning else 0.0)

    kinds = {True: "full", False: "stochastic", None: "-"}
    recorded = any(group.full_gradients is not None for group in score.groups)
    gradients: dict[str, Cell] = {"gradients": lambda group: kinds[group.full_gradients]} if recorded else {}
    tuned: dict[str, Cell] = {"with_tuning": with_tuning} if any(group.tuning for group in score.groups) else {}
    return {**gradients, "passes": spent, **tuned, "seconds": lambda group: group.seconds}
