"""Cycles weighted by the harmonic mean of their likelihoods, compared with cycles of equal weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import Result, diagnostics, statistics
from harness.reports import Column, FieldScore, Group, Request, Run, Table
from reports.figures.parts import Array, FieldReport, record

if TYPE_CHECKING:
    from harness.reports import Store

CURVES = ("single_train_nll", "test_error")
KEPT = ("cycle_predictions", "cycle_numbers", "test_labels", "train_terms", "cycle", "chain")
NUMBERS = {
    "test_error_equal": "error equal (%)", "test_error_harmonic": "error weighted (%)",
    "nll_equal": "NLL equal", "nll_harmonic": "NLL weighted", "largest_weight": "largest weight", "gap": "gap (nats)",
}  # fmt: skip
HOW = "`bench run --set task.by_cycle=true` keeps what it needs"


class CycleWeights(FieldReport):
    """A table for each field (task, protocol, chains, budget) of runs that kept the mean prediction p_i of each cycle i
    (of each chain, if there are several) and the likelihood of the N training points under each of its K_i draws:

        log w_i = -(logsumexp_j(-loglik_ij) - log K_i),   loglik_ij = log p(data | theta_ij)
        p(y | x) = sum_i w_i p_i(y | x) / sum_i w_i

    beside w_i = 1, which all other reports and the authors' code use. w_i is the harmonic mean of the likelihoods of a
    cycle's draws, as an estimate of the evidence of its mode.

    gap             log w of the best cycle minus that of the second, in nats: the odds between them are exp(gap)
    largest_weight  the weight of the best cycle; if it is 1, the ensemble has one member

    It is not a reliable estimate. The harmonic mean has infinite variance under most posteriors, because the draw with
    the lowest likelihood decides its value; and log-likelihoods are sums over N terms, so differences of a thousandth
    of a nat per training point are N / 1000 nats between cycles: the largest gap decides everything.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, appendix F; M.
    Newton, A. Raftery, "Approximate Bayesian Inference with the Weighted Likelihood Bootstrap", JRSS B, 1994.
    """

    name: ClassVar[str] = "cycle-weights"

    def build(self, store: Store, request: Request) -> Result:
        report = super().build(store, request)
        if not report.records:
            return report
        most = max(record["terms"] for record in report.records)
        warning = (
            "warning: the harmonic mean of likelihoods has infinite variance, its value is that of the worst draw; "
            f"with N = {most:,} training points the largest gap decides everything. Equal weights are the default"
        )
        return replace(report, notes=[*report.notes, warning])

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        records, notes = [], []
        for group in score.groups:
            label = score.labels[group.key]
            seeds = [weighed for run in group.done if (weighed := _weighed(score, run)) is not None]
            if seeds and len(seeds) == len(group.done):
                records.append(_record(label, group, seeds))
            elif seeds or request.tasks:
                notes.append(f"{label}: not all finished runs have predictions of cycles; {HOW}")
        return Result([_table(score.title, records)] if records else [], records, notes=notes)


@dataclass(frozen=True, eq=False)
class Weighed:
    """The numbers of one run: N, the log weights of its cycles (chain by chain), and `NUMBERS`."""

    terms: int

    log_weights: Array
    numbers: Mapping[str, float | None]


def log_weights(log_likelihoods: Sequence[Array]) -> Array:
    """Return -(logsumexp(-l) - log K) for the log-likelihoods l (K,) of the draws of each cycle."""
    return np.array([-(np.logaddexp.reduce(-logs) - np.log(len(logs))) for logs in log_likelihoods])


def normalised(logs: Array) -> Array:
    """Return exp of log weights, with sum 1; the largest is subtracted first, as otherwise all could underflow to 0."""
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _weighed(score: FieldScore, run: Run) -> Weighed | None:
    kept = score.arrays(run, *KEPT)
    loss, error = (score.curves(name).get(run.attempt) for name in CURVES)
    if kept is None or loss is None or error is None:
        return None
    terms = int(kept["train_terms"][0])
    log_likelihood = -terms * loss[1]
    averaged = np.isfinite(error[1][0])
    cycle = kept["cycle"][kept["chain"] == 0]
    draws = [averaged & (cycle == number) for number in kept["cycle_numbers"]]
    if not all(chosen.any() for chosen in draws):
        return None
    logs = log_weights([chain[chosen] for chosen in draws for chain in log_likelihood])
    predicted = kept["cycle_predictions"].astype(np.float64).reshape(len(logs), -1, kept["cycle_predictions"].shape[-1])
    numbers: dict[str, float | None] = {}
    for name, weights in (("equal", np.full(len(logs), 1 / len(logs))), ("harmonic", normalised(logs))):
        mean = np.tensordot(weights, predicted, axes=1)
        numbers[f"test_error_{name}"] = 100 * diagnostics.error_rate(mean, kept["test_labels"])
        numbers[f"nll_{name}"] = diagnostics.nll(mean, kept["test_labels"])
    best = np.sort(logs)[::-1]
    numbers["largest_weight"] = float(normalised(logs).max())
    numbers["gap"] = float(best[0] - best[1]) if len(best) > 1 else None
    return Weighed(terms, logs, numbers)


def _record(label: str, group: Group, seeds: Sequence[Weighed]) -> dict[str, Any]:
    summary = record(
        "", group, label=label, seeds=len(seeds), terms=seeds[0].terms,
        cycles=max(len(seed.log_weights) for seed in seeds), run_keys=[run.key for run in group.done],
    )  # fmt: skip
    for name in NUMBERS:
        values = [value for seed in seeds if (value := seed.numbers[name]) is not None]
        over = statistics.mean_interval(values) if values else None
        summary |= {name: over and over.mean, f"{name}_low": over and over.low, f"{name}_high": over and over.high}
    return summary


def _table(heading: str, records: Sequence[Mapping[str, Any]]) -> Table:
    columns = [
        Column("label", "method"),
        Column("seeds", "seeds", "right"),
        Column("cycles", "cycles x chains", "right"),
    ]
    columns += [Column(name, words, "right", ".4g") for name, words in NUMBERS.items()]
    notes = [
        "means over seeds; weighted: by the harmonic mean of likelihoods, which has infinite variance",
        "gap: log weight of the best cycle minus that of the second",
    ]
    return Table(heading, columns, records, notes)
