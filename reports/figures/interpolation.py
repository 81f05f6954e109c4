"""Whether two draws are in one valley: the test error of the networks on the line between them."""

from __future__ import annotations

import hashlib
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness import BenchError, Result
from harness.reports import Column, FieldScore, Group, Request, Run, Table
from harness.tasks import Streams
from reports.figures.parts import (
    KEEPS,
    Array,
    FieldReport,
    first_done,
    legend_below,
    name_panel,
    panel_figure,
    record,
    task_of,
)
from reports.figures.styles import COLOURS

if TYPE_CHECKING:
    from torch import Tensor

    from harness.tasks import NetworkProblem

IMAGES = 2_000
"""Test images for each network, the first ones: all positions on a line use the same."""
BATCHES = 20
"""Training batches whose statistics are averaged if those of batch normalisation are recomputed."""
PLACES = [k / 10 for k in range(11)]
PAIRS = 3
CAPTION = (
    "Pairs: the last draws of consecutive cycles, of a run of one cycle its first and last draw. With batch "
    "normalisation: solid, its statistics computed anew at each place; dashed, on the line too."
)
STROKES = {"as they are": "--", "recomputed": "-"}


class Interpolation(FieldReport):
    """A figure for each field (task, protocol, chains, budget) of classifiers with kept draws, one panel per method:

        error(t) of the network with the weights (1 - t) theta_a + t theta_b,   t = 0, 0.1 .. 1,

    on the first 2,000 test images, between the last draws of consecutive cycles (the first three pairs) of chain 0 of
    the lowest finished seed; for a run with one cycle, between its first and its last draw. Networks with batch
    normalisation have two lines: dashed with the draws' statistics interpolated, too, and solid with statistics that
    were recomputed from training batches at each position. Only the solid one shows the weights: the other one has a
    barrier from statistics that fit no network. `barrier` is the largest error above the straight line between the
    ends, in percentage points.

    It needs the draws, which networks keep only if requested: `bench run --draws all`. It builds the task and evaluates
    each network on the images, which may take minutes: the errors are kept in the results folder, until the code of
    this report or of the task changes.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, figure 3 (b).
    """

    name: ClassVar[str] = "interpolation"

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        if not any("single_test_error" in group.metrics() for group in score.groups):
            note = f"{score.groups[0].task} has no network to take between draws"
            return Result(notes=[note] if request.tasks else [])
        panels, missing = _panels(score, request)
        if not panels:
            return Result(notes=missing)
        records = [record for panel in panels for record in panel.records(name)]
        columns = [Column(k, k) for k in ("method", "statistics")]
        columns += [Column(k, k, "right", ",") for k in ("seed", "from_step", "to_step")]
        columns += [Column(k, k, "right", ".3g") for k in ("start", "highest", "end", "barrier")]
        note = "test errors in percent; barrier: most above the straight line between the ends"
        table = Table(score.title, columns, records, [note])
        figure = panel_figure(
            name, score, len(panels), lambda canvas, axes: _draw(canvas, axes, panels), CAPTION, panel=(2.7, 2.6),
            margin=(0.5, 1.2), labels=("t, from one draw to the other", "test error (%)"), least=6.4,
        )  # fmt: skip
        return Result([table], records, [figure], missing)


@dataclass(frozen=True, eq=False)
class JoinedRun:
    """One run: pairs of steps whose draws are joined, and the errors (P,) along each line by kind of statistics."""

    label: str
    group: Group
    run: Run
    lines: Sequence[tuple[tuple[int, int], dict[str, Array]]]

    def records(self, figure: str) -> list[dict[str, Any]]:
        """Return flat records, one per line."""
        return [
            record(
                figure, self.group, method=self.label, seed=self.run.seed, from_step=first, to_step=last,
                statistics=kind, start=float(y[0]), end=float(y[-1]), highest=float(y.max()),
                barrier=float((y - np.interp(PLACES, [0, 1], y[[0, -1]])).max()), errors=y.tolist(),
                run_keys=[self.run.key],
            )
            for (first, last), errors in self.lines
            for kind, y in errors.items()
        ]  # fmt: skip


@dataclass(frozen=True, eq=False)
class End:
    """A draw of chain 0: its step, its weights (D,), its running statistics (B,)."""

    step: int
    theta: NDArray[np.float32]
    statistics: NDArray[np.float32]


def ends_of_cycles(score: FieldScore, run: Run, most: int) -> list[End]:
    """Return the last draws on disk of the first `most` cycles, or the first and last of one cycle; [] if none are."""
    seen, stored = score.arrays(run, "steps", "cycle", "chain"), score.arrays(run, "steps", file="draws")
    if seen is None or stored is None:
        return []
    buffers = (score.arrays(run, "buffers") or {}).get("buffers", np.zeros((len(seen["steps"]), 0), np.float32))
    row = {int(seen["steps"][i]): i for i in np.flatnonzero(seen["chain"] == 0)}
    index = {int(step): k for k, step in enumerate(stored["steps"]) if int(step) in row}
    by_cycle: dict[int, list[int]] = {}
    for step in index:
        by_cycle.setdefault(int(seen["cycle"][row[step]]), []).append(step)
    chosen = [steps[-1] for steps in by_cycle.values()]
    if len(by_cycle) == 1:
        chosen = sorted({*(only := next(iter(by_cycle.values())))[:1], only[-1]})
    draws = score.arrays(run, "draws", file="draws", rows=[index[step] for step in chosen[:most]]) or {}
    return [
        End(step, draw[0], buffers[row[step]]) for step, draw in zip(chosen[:most], draws.get("draws", []), strict=True)
    ]


def _pair(first: NDArray[np.float32], last: NDArray[np.float32]) -> Any:
    import torch

    return torch.from_numpy(np.stack([first, last]))


def _panels(score: FieldScore, request: Request) -> tuple[list[JoinedRun], list[str]]:
    panels, missing = [], []
    for group in score.groups:
        label, run = score.labels[group.key], first_done(group)
        ends = ends_of_cycles(score, run, PAIRS + 1) if run else []
        if run is None or len(ends) < 2:
            missing.append(f"{label}: no two draws of a finished run are on disk; {KEEPS}")
            continue
        try:
            task = task_of(group, request)
            lines = _errors(score, group, run, task, ends, request)
        except BenchError as error:  # the task has other settings now, or its data are missing
            missing.append(f"{label}: {error}")
            continue
        panels.append(JoinedRun(label, group, run, lines))
    return panels, missing


Lines = list[tuple[tuple[int, int], dict[str, Array]]]


def _errors(score: FieldScore, group: Group, run: Run, task: Any, ends: Sequence[End], request: Request) -> Lines:
    """Return the errors on each line, kept ones if they exist."""
    about = {"attempt": run.attempt, "code": _code(task), "pairs": len(ends) - 1}
    lines = score.kept(run, Interpolation.name, about)
    if lines is None:
        lines = score.keep(run, Interpolation.name, about, lambda: _computed(group, run, task, ends, request.say))
    return [((first, last), {kind: np.array(y) for kind, y in errors.items()}) for first, last, errors in lines]


def _computed(group: Group, run: Run, task: Any, ends: Sequence[End], say: Callable[[str], None]) -> list[Any]:
    pairs = list(itertools.pairwise(ends))
    networks = len(pairs) * len(PLACES) * (2 if ends[0].statistics.size else 1)
    what = f"{networks} networks on {IMAGES:,} test images; the errors are kept for the next time"
    say(f"interpolation, {group.method} on {group.task}: {what}")
    problem = task.build([Streams(run.seed, 0, (group.task,))], "cpu")
    start, lines = time.perf_counter(), []
    for k, (a, b) in enumerate(pairs, 1):
        thetas, statistics = _pair(a.theta, b.theta), _pair(a.statistics, b.statistics)
        errors = errors_on_line(problem, thetas, statistics, PLACES)
        lines.append([a.step, b.step, {kind: y.tolist() for kind, y in errors.items()}])
        spent = time.perf_counter() - start
        left = f", about {spent / k * (len(pairs) - k):,.0f} s left" if k < len(pairs) else ""
        say(f"interpolation, {group.method} on {group.task}: line {k} of {len(pairs)} after {spent:,.0f} s{left}")
    return lines


def _code(task: Any) -> str:
    """Return a digest of the code that computes the errors: this report and the task."""
    files = [__file__, getattr(sys.modules.get(type(task).__module__), "__file__", None)]
    digest = hashlib.sha256()
    for file in files:
        digest.update(Path(file).read_bytes() if file else b"")
    return digest.hexdigest()


def _draw(canvas: Any, axes: Sequence[Any], panels: Sequence[JoinedRun]) -> None:
    handles: dict[str, Any] = {}
    for panel, ax in zip(panels, axes, strict=True):
        for k, (_, errors) in enumerate(panel.lines):
            for kind, y in errors.items():
                stroke, kinds = (STROKES[kind], f", statistics {kind}") if len(errors) > 1 else ("-", "")
                style = {"color": COLOURS[k], "marker": "o", "markersize": 2.5, "linewidth": 1.2}
                (handles[f"pair {k + 1}{kinds}"],) = ax.plot(PLACES, y, stroke, **style)
        name_panel(ax, panel.label)
    legend_below(canvas, dict(sorted(handles.items())))


def errors_on_line(
    problem: NetworkProblem, ends: Tensor, statistics: Tensor, positions: Sequence[float]
) -> dict[str, Array]:
    """Return the test error in percent, (P,), of theta(t) = (1 - t) theta_0 + t theta_1 at each position t.

    ends        two draws (2, D) of a problem of one chain
    statistics  their running statistics of batch normalisation (2, B); B = 0 without it

    "as they are": with the statistics interpolated, too. They are means and variances of activations, which are not
    linear in the weights, so between the draws they belong to no network. "recomputed", if B > 0: with the plain
    average of the statistics of `BATCHES` batches of the chain's own training images, the same at each position. It is
    also used at the ends, because the training run's own statistics are a running average over moving weights.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, figure 3 (b);
    P. Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", UAI 2018, 3.1, for the
    need of new statistics.
    """
    import torch

    ends, statistics = ends.to(problem.initial()), statistics.to(problem.buffers)
    normalised = statistics.shape[1] > 0
    batches = problem.draw_batches(BATCHES) if normalised else {}
    errors: dict[str, list[float]] = {name: [] for name in (("as they are", "recomputed")[: 1 + normalised])}
    for t in positions:
        theta = torch.lerp(ends[0], ends[1], t)
        problem.buffers[0] = torch.lerp(statistics[0], statistics[1], t)
        errors["as they are"].append(_error(problem, theta))
        if normalised:
            each = [{name: leaf[k] for name, leaf in batches.items()} for k in range(BATCHES)]
            problem.buffers[0] = torch.stack([_statistics(problem, theta, batch) for batch in each]).mean(0)
            errors["recomputed"].append(_error(problem, theta))
    return {name: np.array(along) for name, along in errors.items()}


def _statistics(problem: NetworkProblem, theta: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Return the statistics (B,) of normalisation on one batch of chain 0 alone, for the weights theta (D,)."""
    import torch

    fresh = torch.zeros_like(problem.buffers[0])
    layers = [part for part in problem.network.module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    momenta = [layer.momentum for layer in layers]
    ((_, (x, _)),) = problem.parts(0, batch)
    try:
        for layer in layers:
            layer.momentum = 1.0  # the running statistics are those of the last batch
        with torch.no_grad():
            problem.forward(theta, fresh, x, training=True)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
    return fresh


def _error(problem: NetworkProblem, theta: Tensor) -> float:
    labels = problem.labels["test"]
    seen = wrong = 0
    for logs in problem.predict(theta[None], slice(0, 1), "test"):
        predicted = logs[0].argmax(1)
        wrong += int((predicted != labels[seen : seen + len(predicted)]).sum())
        seen += len(predicted)
        if seen >= IMAGES:
            break
    return 100 * wrong / seen
