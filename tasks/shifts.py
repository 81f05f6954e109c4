"""Distribution shift: predictions are also scored on test rows that are changed, by kind of change and severity."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness import PluginError
from harness.tasks import (
    Likelihood,
    Metric,
    NetworkTask,
    Observer,
    Outcome,
    PredictiveObserver,
    Streams,
    finite_or_none,
)

if TYPE_CHECKING:
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, NetworkProblem

Array = NDArray[Any]
Shift = Callable[[Array, int, np.random.Generator], Array]

SEVERITIES = (1, 2, 3, 4, 5)
PREFIX = "shift_"
MOST = 2**22
"""Largest number of predicted numbers that are kept, 16 MiB as float32."""


def shift_metrics(likelihood: Likelihood) -> tuple[Metric, ...]:
    """Return the metrics of shifted rows: the likelihood's error, nll and, for classes, ece.

    Each is the unweighted mean over all shifts and severities. The mean of the error is not divided by that of a
    baseline, as the mCE of Hendrycks and Dietterich (2019) is.
    """
    return tuple(
        replace(one, name=PREFIX + one.name, summary=f"mean over shifts and severities of: {one.summary}")
        for one in likelihood.metrics
        if one.name in (likelihood.error, "nll", "ece")
    )


class WithShifts:
    """The first base of a `NetworkTask`, `class Mine(WithShifts, NetworkTask)`, that scores shifted test rows too.

    Metrics: `shift_metrics`, unless `metrics` are stated. Curves: shift_METRIC_NAME against the severity, from 0, the
    rows as they are. Arrays: shifted_probabilities (1 + 5 shifts, n, K), or what the likelihood stores in their place,
    unless there are more than `MOST` numbers; first of the rows as they are, then shift by shift with rising severity;
    shifted_classes (n,); and shifts, the names in their order, as the bytes of lines.

    shifts        name -> f(row, severity, generator), which returns a row "x" of a test set with its changes, of the
                  same shape; severities are 1 to 5. The generator is a stream of name, severity and number of the row,
                  so every run and every sampler has the same rows
    shifted_rows  n, the first of the test rows; declare it as a parameter to make it a setting. A draw costs forward
                  passes of (1 + 5 shifts) n rows
    """

    shifts: ClassVar[Mapping[str, Shift]] = {}
    shifted_rows: ClassVar[int] = 1000

    def __init_subclass__(cls) -> None:
        bases = [base for base in cls.__mro__ if base in {WithShifts, NetworkTask}]
        if bases[:1] != [WithShifts]:
            raise PluginError(f"{cls.__name__}: write `class {cls.__name__}(WithShifts, ...)`, with this base first")
        stated: dict[str, Any] = dict(vars(cls))
        super().__init_subclass__()
        if cls.shifts and "metrics" not in stated:
            known = {metric.name for metric in cls.metrics}
            new = [metric for metric in shift_metrics(cls.likelihood) if metric.name not in known]
            cls.metrics = (*cls.metrics, *new)

    def observer(self, problem: NetworkProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        """Return the task's observer, with the scores of shifted rows if there are `shifts`."""
        observer: Observer = super().observer(problem, chains, trajectory, cost)  # type: ignore[misc]
        if not self.shifts:
            return observer
        view = shifted_problem(problem, self.shifts, self.shifted_rows)
        rows = ShiftedRowsObserver(view, chains, trajectory, cost, likelihood=view.task.likelihood)
        rows.first_averaged = getattr(observer, "first_averaged", 0)
        return JoinedObserver(observer, rows)


def shifted_problem(problem: NetworkProblem, shifts: Mapping[str, Shift], count: int) -> NetworkProblem:
    """Return a copy of a problem whose "test" is `shifted_rows` of the first `count` test rows."""
    key = "shifted rows"
    if key not in problem.sets:
        x = next(iter(problem.stretches("test", count)))
        rows = shifted_rows(x.cpu().numpy(), shifts)
        label = problem.labels["test"][: len(x)]
        repeated = label.repeat(len(rows) // len(x), *[1] * (label.ndim - 1))
        problem.sets[key] = {"x": _tensor(rows, x), "label": repeated}
    view = copy.copy(problem)
    arrays = problem.sets[key]
    vars(view)["labels"] = {"test": arrays["label"]}
    view.set = lambda _: arrays  # type: ignore[method-assign]
    view.stretches = lambda _, length: iter(arrays["x"].split(length))  # type: ignore[method-assign]
    return view


def _tensor(rows: Array, like: Tensor) -> Tensor:
    import torch

    return torch.from_numpy(rows).to(like.device)


def shifted_rows(x: Array, shifts: Mapping[str, Shift]) -> Array:
    """Return rows x (n, ...) as they are, then by shift and severity, ((1 + 5 shifts) n, ...).

    Raises:
        PluginError: if the name of a shift is no lower-case word, or if a shift fails, or returns a row of another
            shape or one that is not finite.
    """
    sets = [x]
    for name, shift in shifts.items():
        if not re.fullmatch("[a-z][a-z0-9_-]{0,39}", name):
            raise PluginError(f"shifts: the name {name!r:.80} is not a word of lower-case letters, digits, - and _")
        for severity in SEVERITIES:
            generators = (Streams(severity, row, ("shift", name)).numpy("data") for row in range(len(x)))
            pairs = zip(x, generators, strict=True)
            sets.append(np.stack([_shifted(name, shift, row, severity, generator) for row, generator in pairs]))
    return np.concatenate(sets).astype(x.dtype, copy=False)


def _shifted(name: str, shift: Shift, row: Array, severity: int, generator: np.random.Generator) -> Array:
    try:
        changed = np.asarray(shift(row.copy(), severity, generator))
    except Exception as error:
        raise PluginError(f"shifts[{name!r}] fails at severity {severity}: {type(error).__name__}: {error}") from error
    if changed.shape != row.shape or not np.isfinite(changed).all():
        what = "not finite" if changed.shape == row.shape else f"{changed.shape}, not {row.shape}"
        raise PluginError(f"shifts[{name!r}] returns at severity {severity} a row that is {what}")
    return changed


class JoinedObserver(Observer):
    """The outcome of two observers of the same draws."""

    def __init__(self, first: Observer, second: Observer) -> None:
        self.observers = {"": first, PREFIX: second}

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        """Add a block of draws."""
        for observer in self.observers.values():
            observer.observe(draws, weights, steps)

    def outcome(self) -> Outcome:
        """Return the metrics, curves and arrays of both."""
        first, second = (observer.outcome() for observer in self.observers.values())
        return Outcome(
            {**first.metrics, **second.metrics}, {**first.curves, **second.curves}, {**first.arrays, **second.arrays}
        )

    def state(self) -> dict[str, Tensor]:
        """Return the state of both."""
        return {f"{prefix}/{k}": leaf for prefix, one in self.observers.items() for k, leaf in one.state().items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        for prefix, observer in self.observers.items():
            start = f"{prefix}/"
            observer.load({k.removeprefix(start): leaf for k, leaf in state.items() if k.startswith(start)})


class ShiftedRowsObserver(PredictiveObserver):
    """The scores of a `WithShifts` on shifted rows, each set by itself, of predictions averaged over draws and chains.

    The test rows of its problem are those of `shifted_problem`. Scores of predictions that are not finite are NaN in
    the curves, and a metric with one does not exist.
    """

    def outcome(self) -> Outcome:
        """Return the metrics, curves and arrays that `WithShifts` describes; nothing before a draw has a weight."""
        if not float(self.tensors["weight"]) > 0:
            return Outcome({})
        kind, shifts = self.likelihood, list(self.problem.task.shifts)
        sets = 1 + len(shifts) * len(SEVERITIES)
        y = self.labels[: len(self.labels) // sets].cpu().numpy()
        losses = (self.tensors["weight"].log() - self.tensors["density"]).cpu().numpy().reshape(sets, -1).mean(1)
        scored = [kind.scored(moments, y) for moments in np.split(self.means()["test"], sets)]
        metrics: dict[str, float | None] = {}
        curves = {}
        each = [_scores(kind, *one) | {"nll": float(loss)} for one, loss in zip(scored, losses, strict=True)]
        for metric in shift_metrics(kind):
            name = metric.name.removeprefix(PREFIX)
            unshifted, *others = [scores.get(name, np.nan) for scores in each]
            metrics[metric.name] = finite_or_none(float(np.mean(others)))
            for shift, values in zip(shifts, np.reshape(others, (len(shifts), -1)), strict=True):
                points = np.array([0, *SEVERITIES], dtype=np.float64), np.array([[unshifted, *values]])
                curves[f"{metric.name}_{shift}"] = points
        predictions = np.stack([mean for mean, _ in scored]).astype(np.float32)
        arrays: dict[str, Array] = {"shifts": np.frombuffer("\n".join(shifts).encode(), dtype=np.uint8)}
        if predictions.size <= MOST:
            arrays |= {f"shifted_{kind.stored[0]}": predictions, f"shifted_{kind.stored[1]}": scored[0][1]}
        return Outcome(metrics, curves, arrays)


def _scores(kind: Likelihood, mean: Array, y: Array) -> dict[str, float]:
    return kind.scores(mean, y) if np.isfinite(mean).all() else {}
