"""Shared parts of the wide tables: one row per method, ranked ones first, and notes on why others are not ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from harness import statistics
from harness.reports import (
    UNGATED,
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
Cell = Callable[[Group], str]
GATE = (
    "ranked only behind the joint gate: in the worst direction, the interval over seeds of the mean's error lies "
    "within 0.1 sd and that of the variance (also within modes) in [0.8, 1.25] of the truth's; where exact draws "
    "exist, that of the distribution error, the root mean square of the difference of distribution functions, within "
    "0.02"
)
JOINT = (
    "every finished row ranks by it, with its interval: it counts bias and variance in the worst direction, so no gate "
    "applies"
)
HEADERS = {
    "distribution_error": "distribution error",
    "ece": "ECE",
    "passes_to_low_error": "data passes to low error",
    "joint_error": "joint error",
    "kernel_stein_discrepancy": "kernel Stein discrepancy",
    "greatest_variance": "variance, widest direction",
    "last_mode_first_visit": "last mode first visited",
    "least_variance": "variance, narrowest direction",
    "mean_error": "mean error (sd)",
    "mode_mass_tv": "mode mass TV",
    "modes_covered": "modes covered",
    "nll": "NLL",
    "paper_ess_mean": "paper's ESS, mean",
    "paper_ess_median": "paper's ESS, median",
    "share_within_r": "share within r",
    "single_test_error": "test error, single draw",
    "temperature": "T, mean",
    "temperature_max": "T, hottest",
    "temperature_min": "T, coldest",
    "variance_ratio": "variance ratio",
    "wasserstein2": "Wasserstein-2",
    "within_mode_covariance_ratio": "within-mode covariance ratio",
    "worst_mean_error": "mean error, worst direction (sd)",
}


JOINT_LAW = ("worst_mean_error", "least_variance", "greatest_variance", "distribution_error")
"""The metrics of the gate."""
SPREAD = "within_mode_covariance_ratio"
POOLED = ("ess_bulk", "ess_tail")
"""Effective sizes of all chains of a run together; the others are those of one chain."""
WIDE, NARROW = 1.25, 0.8


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
    """Return the cell of a metric: its estimate with the interval, and a warning if the spread is wrong."""

    def cell(group: Group) -> str:
        warning = spread(score, group) if metric == SPREAD else ""
        return f"{with_interval(score.estimate(group, metric))} {warning}".rstrip()

    return cell


def metric_columns(score: FieldScore, metrics: Iterable[str]) -> dict[str, Cell]:
    """Return the cells of metrics, by their headers."""
    return {header(metric): metric_cell(score, metric) for metric in metrics}


def rank_cell(score: FieldScore, metric: str) -> Cell:
    """Return the cell of a rank by a metric: "2 (1 to 3)", or "-"."""

    def cell(group: Group) -> str:
        rank = score.standing(group, metric).rank
        return rank_text(rank.rank, rank.low, rank.high) if rank else "-"

    return cell


def verdict_cell(score: FieldScore, metric: str) -> Cell:
    """Return the cell of a verdict: "worse", or "not known (30 seeds)" with how many would decide."""

    def cell(group: Group) -> str:
        rank = score.standing(group, metric).rank
        return verdict_text(rank.verdict, rank.seeds) if rank else "-"

    return cell


def verdict_text(verdict: str | None, seeds: int | None) -> str:
    """Return a verdict for people, with how many seeds would decide if it is not known."""
    return f"{verdict} ({seeds:,} seeds)" if seeds else verdict or "-"


def failure_notes(score: FieldScore) -> list[str]:
    """Return notes on rows without a failure: how large a share of failures their number of runs does not exclude."""
    counts = sorted({len(group.runs) for group in score.groups if len(group.done) == len(group.runs)})
    bounds = ", ".join(f"{statistics.most_failures(0, n):.0%} at {n}" for n in counts).replace("%", " %")
    return [f"where no run failed, the share of failures is at most (95 %, exact): {bounds} runs"] if counts else []


def law_notes(score: FieldScore) -> list[str]:
    """Return a note on the rows at whose settings the laws were not run."""
    unknown = [score.labels[group.key] for group in score.groups if group.laws == Group.laws]
    rows = "" if len(unknown) == len(score.groups) else f" for {', '.join(unknown)}"
    return [f"laws: not run at these settings{rows}; `bench check --rows` runs them"] if unknown else []


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


def label(score: FieldScore, group: Group) -> str:
    """Return the group's label, with its warm start, its caveats and what is given: "sgrld, given metric"."""
    given = f", given {', '.join(group.given)}" if group.given else ""
    warm = f", started by {name}" if (name := group.settings.get("run.warm_start")) else ""
    return score.labels[group.key] + warm + given + "".join(f", {name}" for name in group.caveats)


def given_notes(score: FieldScore) -> list[str]:
    """Return notes on what the task gives to samplers at no cost."""
    by_text: dict[str, list[str]] = {}
    for group in score.groups:
        for name, what in group.given.items():
            by_text.setdefault(f"{name}: {what}", []).append(score.labels[group.key])
    return [f"given at no cost to {', '.join(labels)}: {what}" for what, labels in by_text.items()]


def caveat_notes(score: FieldScore) -> list[str]:
    """Return notes on what has to be known about the runs of rows: earlier code that is declared equal, late rows."""
    return [
        f"{score.labels[group.key]}: {name}: {text}" for group in score.groups for name, text in group.caveats.items()
    ]


def provenance_notes(groups: Sequence[Group], labels: Mapping[str, str]) -> list[str]:
    """Return notes on which settings are untuned defaults, which were tuned at what cost, and which the user chose."""
    kinds = {"untuned": "untuned default", "tuned": "tuned", "user": "set by the user"}
    return [
        f"{labels[group.key]}: {group.tuned if kind == 'tuned' else words}: {', '.join(names)}"
        for kind, words in kinds.items()
        for group in groups
        if (names := settings_from(group, kind))
    ]


def chosen_by(group: Group) -> str:
    """Return who chose a row's settings: its ruleset, or by which rules or at which budget it was tuned."""
    return tuned_otherwise(group) or str(group.ruleset)


def build(score: FieldScore, ranked_by: str, columns: Mapping[str, Cell], notes: Sequence[str] = ()) -> Table:
    """Return one field's table: rank, method, the given columns, seeds, status and settings."""
    foreign = any(group.level != Level.RUN_HERE for group in score.groups)
    levels: dict[str, Cell] = {"verified": lambda group: str(group.level)} if foreign else {}
    held = any(group.laws not in (Group.laws, "-") for group in score.groups)
    outcomes: dict[str, Cell] = {"laws": lambda group: group.laws.partition(":")[0]} if held else {}
    cells: dict[str, Cell] = {
        "rank": rank_cell(score, ranked_by),
        "verdict": verdict_cell(score, ranked_by),
        "method": lambda group: label(score, group),
        "seeds": lambda group: str(len(group.runs)),
        "status": lambda group: score.standing(group, ranked_by).short,
        **levels,
        **outcomes,
        **columns,
        "settings": chosen_by,
    }
    left = {"verdict", "method", "status", "verified", "laws", "settings"}
    shape = [Column(name, name, "left" if name in left else "right") for name in cells]
    groups = score.ordered(ranked_by)
    rows = [{**{name: cell(group) for name, cell in cells.items()}, "group": group.key} for group in groups]
    reasons = [
        f"{score.labels[group.key]} is not ranked: {status}"
        for group in groups
        if (status := score.standing(group, ranked_by).status) != "ranked"
    ]
    by = f"ranked by {header(ranked_by)}" if ranked_by else "nothing to rank by: no run has a result"
    ranking = by + (f"; {JOINT if ranked_by in UNGATED else GATE}" if score.truth_known else "")
    title = f"{score.title}; {score.multipliers()}"
    return Table(
        title,
        shape,
        rows,
        [
            ranking,
            *reasons,
            *law_notes(score),
            *score.failures(),
            *failure_notes(score),
            *given_notes(score),
            *caveat_notes(score),
            *provenance_notes(groups, score.labels),
            *notes,
        ],
        keys=3,
    )


def cost_columns(score: FieldScore, known: str) -> dict[str, Cell]:
    """Return columns of data passes of a chain, a median over seeds, and of seconds of sampling by the timing pass.

    `known` is a metric of all groups. Where it is recorded, a column says whether gradients were full. If a row is
    tuned, a column adds the data passes of tuning, shared among the chains of one run.
    """

    def passes(group: Group) -> float | None:
        return typical(group.done.numbers.passes) if score.estimate(group, known) else None

    def spent(group: Group) -> str:
        return number(cost) if (cost := passes(group)) else "-"

    def with_tuning(group: Group) -> str:
        if group.tuned and not group.tuning:  # a record of an earlier version does not say what the search cost
            return "-"
        tuning = group.tuning.passes / group.chains if group.tuning else 0.0
        return number(cost + tuning) if (cost := passes(group)) else "-"

    def seconds(group: Group) -> str:
        return "not timed" if group.seconds is None else number(group.seconds)

    kinds = {True: "full", False: "stochastic", None: "-"}
    recorded = any(group.full_gradients is not None for group in score.groups)
    gradients: dict[str, Cell] = {"gradients": lambda group: kinds[group.full_gradients]} if recorded else {}
    tuned: dict[str, Cell] = {"with tuning": with_tuning} if any(group.tuning for group in score.groups) else {}
    return {**gradients, "data passes": spent, **tuned, "seconds": seconds}
