"""Regressions that are judged by their predictions."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from harness.tasks import DataProblem, DataTask, Reference, Rows
from tasks.regression.uci.observer import FUNCTION_METRICS, REGRESSION_METRICS, RegressionObserver
from tasks.regression.uci.smile import log_normal

if TYPE_CHECKING:
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, Streams


@dataclass(frozen=True, kw_only=True)
class PredictedRegression(DataTask):
    """y_i ~ N(f(x_i), sigma^2): a subclass defines `predicted`, and the arrays x and y of "train" and "test".

    Its functions are f at the test rows: theta has symmetries that they do not have.

    record  the file that `bench truth` made of its reference, where there is one; without the file, `bench truth`
            makes it
    """

    record: ClassVar[Path | None] = None
    opaque: ClassVar[bool] = True
    metrics: ClassVar = (*REGRESSION_METRICS, *FUNCTION_METRICS)

    @property
    def tested(self) -> bool:
        return True

    def predicted(self, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return f (C, n) and log sigma, (C, 1) or (C, n), at x (C, n, features)."""
        raise NotImplementedError

    def log_likelihood(self, theta: Tensor, rows: Rows) -> Tensor:
        f, log_sigma = self.predicted(theta, rows["x"])
        return log_normal(rows["y"] - f, log_sigma)

    def functions(self, theta: Tensor) -> Tensor:
        import torch

        return self.predicted(theta, torch.from_numpy(self.arrays("test")["x"]).to(theta))[0]

    def function_reference(self) -> Reference | None:
        if self.stored_reference is not None or self.record is None or not self.record.exists():
            return self.stored_reference
        return Reference.of_record(json.loads(self.record.read_text()), len(self.arrays("test")["y"]))

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> RegressionObserver:
        return RegressionObserver(problem, chains.stop - chains.start, trajectory, cost)

    def build(self, streams: Sequence[Streams], device: str) -> PredictedProblem:
        return PredictedProblem(self, streams, device)


class PredictedProblem(DataProblem):
    """The potential, with what its predictions are scored on; where rows are held out there is no reference."""

    task: PredictedRegression

    @property
    def tuned(self) -> bool:
        """Whether it is of a search by predictions, so that rows are held out."""
        return self.streams[0].holds_out

    @functools.cached_property
    def scored(self) -> dict[str, Tensor]:
        """The rows that predictions are scored on."""
        rows = self.part("test")
        return self.tensors(rows, len(rows["y"]))

    def function_reference(self) -> Reference | None:
        """What predictions are compared with, where there is an accepted one."""
        reference = None if self.tuned else self.task.function_reference()
        return None if reference is None or reference.refused else reference
