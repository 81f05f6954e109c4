"""Whether a colder posterior predicts better: error and likelihood against the temperature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from harness import Result
from harness.reports import Column, FieldScore, Group, Request, Table, with_interval
from reports.figures.parts import FieldReport, families, field_figure, legend_below, legend_height
from reports.figures.styles import looks
from reports.tables import wide

TEMPERATURE = "schedule.temperature"
SHOWN = ("nll", "test_error")
BARS = "Points: means over seeds; bars: their 95 % t intervals"


class Tempering(FieldReport):
    """A figure for each field (task, protocol, chains, budget) with groups that differ in schedule.temperature only:
    negative log-likelihood and test error, or `request.metric`, against T, one line per method. The target of a run is

        p_T(theta | data) ~ exp(-U(theta) / T),   U with the prior: T tempers both likelihood and prior

    Points are means over seeds with their 95 % t intervals. T = 0, without noise, is at the left end of an axis that is
    logarithmic above the lowest other T. A T whose runs diverged has a row and no point.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, appendix; F.
    Wenzel et al., "How Good is the Bayes Posterior in Deep Neural Networks Really?", ICML 2020.
    """

    name: ClassVar[str] = "tempering"

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        wanted = (request.metric,) if request.metric else SHOWN
        metrics = [metric for metric in wanted if metric in score.metrics]
        kin = {label: sorted(groups, key=_temperature) for label, groups in families(score.groups, TEMPERATURE).items()}
        if not metrics or not kin:
            note = (
                f"{score.title}: no {' or '.join(wanted)} of groups that differ in {TEMPERATURE} alone; "
                f"bench run --sweep {TEMPERATURE}=0.01,0.1,1 makes some"
            )
            return Result(notes=[note] if request.tasks else [])
        records = [
            {"figure": name, "family": label, "temperature": _temperature(group), **record}
            for label, groups in kin.items()
            for metric in metrics
            for group in groups
            if (record := score.record(group, metric)) is not None
        ]
        width = max(4.2 * len(metrics), 6.4)
        size = width, 3.0 + legend_height(kin, width)
        figure = field_figure(name, score, lambda canvas: _draw(canvas, score, kin, metrics), size, f"{BARS}.")
        return Result([_table(score, kin, metrics)], records, [figure])


Kin = Mapping[str, Sequence[Group]]


def _temperature(group: Group) -> float:
    return float(group.settings[TEMPERATURE])


def _table(score: FieldScore, kin: Kin, metrics: Sequence[str]) -> Table:
    columns = [Column("method", "method"), Column("T", "T", "right", "g"), Column("seeds", "seeds", "right")]
    columns += [Column(metric, metric.replace("_", " "), "right") for metric in metrics]
    rows = [
        {
            "method": label, "T": _temperature(group), "seeds": len(group.runs),
            **{metric: with_interval(score.estimate(group, metric)) for metric in metrics},
        }
        for label, groups in kin.items()
        for group in groups
    ]  # fmt: skip
    return Table(score.title, columns, rows, score.failures(), keys=2)


def _draw(canvas: Any, score: FieldScore, kin: Kin, metrics: Sequence[str]) -> None:
    axes = canvas.subplots(1, len(metrics), squeeze=False)[0]
    styles = looks(list(kin))
    handles = {}
    hot = [t for groups in kin.values() for t in map(_temperature, groups) if t > 0]
    cold = any(_temperature(group) == 0 for groups in kin.values() for group in groups)
    for ax, metric in zip(axes, metrics, strict=True):
        units = [e.unit for groups in kin.values() for group in groups if (e := score.estimate(group, metric))]
        for label, groups in kin.items():
            estimates = [(_temperature(group), wide.with_ends(score.estimate(group, metric))) for group in groups]
            points = [(t, *ends) for t, ends in estimates if ends and math.isfinite(ends[0])]
            ends = [(mean - low, high - mean) for _, mean, low, high in points]
            handles[label] = ax.errorbar(
                [t for t, *_ in points], [mean for _, mean, *_ in points],
                yerr=list(zip(*ends, strict=True)) or None, markersize=4, capsize=2, **{"marker": "o", **styles[label]},
            )  # fmt: skip
        if hot:
            ax.set_xscale(*(["symlog"] if cold else ["log"]), **({"linthresh": min(hot)} if cold else {}))
        ax.set(xlabel="temperature T", ylabel=f"{metric.replace('_', ' ')} ({units[0]})")
    legend_below(canvas, dict(sorted(handles.items())), BARS)
