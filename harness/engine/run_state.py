"""The state of a block of runs: its time, and each run's observer, draws and divergence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.task import Observer


@dataclass
class Clock:
    """Wall seconds of a block of runs, by purpose."""

    sampling: float = 0.0
    observing: float = 0.0


@dataclass(frozen=True)
class Divergence:
    """Where a chain became non-finite: the step, counted from 1, the chain within its run, and the end of the block."""

    step: int
    chain: int
    seen_at: int


class RunState:
    """One run within the block: its rows, its observer, the draws not yet fetched, and its divergence if any.

    `last_finite` holds the first 1,000 coordinates of the chain that diverged first, one step before it did. It exists
    only in the loop that noticed the divergence, and not if steps write in place. If draws are `weighted`, their log
    weights are stored too, as one more coordinate.
    """

    def __init__(
        self, rows: slice, observer: Observer, stride: int, particles: int = 1, *, weighted: bool = False
    ) -> None:
        self.rows = rows
        self.observer = observer
        self.stride = stride
        self.particles = particles
        self.weighted = weighted
        self.kept = 0
        self.stored = 0
        self.pending: list[np.ndarray] = []
        self.divergence: Divergence | None = None
        self.last_finite: Tensor | None = None
        self.log_weight_unit = math.nan

    def take(self, draws: Tensor, log_weights: Tensor, steps: np.ndarray) -> None:
        """Observe kept draws (B, C, D), and save those of every `stride`-th step as float32 for `fetch`; 0 saves none.

        Weights are relative to that of the first draw, because only their ratios matter and exp can overflow.
        """
        if self.divergence is not None or not len(steps):
            return
        if math.isnan(self.log_weight_unit):
            self.log_weight_unit = float(log_weights[0].max())
        log_weights = log_weights - self.log_weight_unit
        self.observer.observe(draws, log_weights.exp(), steps)
        if self.stride:
            first = -(self.kept // self.particles) % self.stride
            if self.weighted:
                draws = torch.cat([draws, log_weights[:, :, None]], dim=2)
            chosen = draws.unflatten(0, (-1, self.particles))[first :: self.stride].flatten(0, 1)
            self.pending.append(chosen.to(torch.float32).cpu().numpy())
            self.stored += len(self.pending[-1])
        self.kept += len(steps)

    def fetch(self) -> np.ndarray | None:
        """Return the draws (B, C, D) saved since the last call, (B, C, D + 1) if they are weighted, or None."""
        if not self.pending:
            return None
        draws = np.concatenate(self.pending)
        self.pending = []
        return draws
