"""The trial of `bench doctor` on a GPU: a step of a tiny network, recorded and replayed, against plain steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from harness import RunError
from harness.engine import Loop
from harness.tasks import Network, NetworkTask, Protocol, Streams
from plugins.samplers.msgld import MSGLD
from plugins.schedules.constant import Constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEPS = 8
"""Those that warm up, the one that is recorded, and replays of it."""


@dataclass(frozen=True, kw_only=True)
class TinyNetwork(NetworkTask):
    """A linear classifier of three classes on 16 rows of noise."""

    dtype: ClassVar[str] = "float64"
    prior_precision: ClassVar[float] = 1.0
    batch: ClassVar[int] = 8
    protocols: ClassVar = (Protocol("trial", "a few steps", {"smoke": STEPS}),)

    def network(self) -> Network:
        return Network(lambda: torch.nn.Linear(5, 3))

    def arrays(self, part: str) -> Mapping[str, NDArray[Any]]:
        generator = np.random.default_rng(0)
        return {"x": generator.normal(size=(16, 5)), "label": generator.integers(0, 3, 16)}


def try_recording(device: str) -> None:
    """Raise an error if steps cannot be recorded, or do not end where plain ones do."""
    plain, recorded = (_end(device, mode) for mode in ("plain", "compiled"))
    if not torch.allclose(recorded, plain, rtol=1e-6, atol=1e-9):
        raise RunError(f"recorded steps end {float((recorded - plain).abs().max()):.1g} from plain ones")


def _end(device: str, mode: str) -> torch.Tensor:
    """Return the position (1, D) of a chain of msgld after `STEPS` steps."""
    task = TinyNetwork()
    trajectory = Constant(step_size=1e-3).trajectory(STEPS, task.steps_per_epoch())
    loop = Loop(task, MSGLD(), trajectory, [Streams(0, 0)], 1, mode=mode, device=device)
    while not loop.finished:
        loop.advance_block()
    return loop.theta.cpu()
