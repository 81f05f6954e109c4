"""The kept draws that figures are made of: of each group, its lowest finished seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.contracts.hookspecs import Info
from harness.contracts.registry import registry
from harness.reporting.report import Request
from harness.reporting.scoring import Group, Run, labels
from harness.runs.plugin_metadata import instance

if TYPE_CHECKING:
    from harness.results.store import Store

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Panel:
    """One group's draws (n, C, D) of one run, and the steps (n,), counted from 1, that made them."""

    label: str
    group: Group
    run: Run
    draws: Array
    steps: NDArray[np.int64]

    @property
    def flat(self) -> Array:
        """The draws of all chains (n C, D)."""
        return self.draws.reshape(-1, self.draws.shape[-1])


def kept_draws(store: Store, field: Sequence[Group]) -> tuple[list[Panel], list[str]]:
    """A panel for each group that has draws, and what is missing of the others."""
    from safetensors.numpy import load_file

    names = labels(field)
    panels, missing = [], []
    for group in field:
        label = names[group.key]
        run = min(group.done, key=lambda run: run.seed, default=None)
        path = store.path.parent / run.path / "draws.safetensors" if run else Path()
        if run is None or not path.is_file():
            missing.append(f"{label}: no finished run with draws")
            continue
        arrays = load_file(path)
        panels.append(Panel(label, group, run, arrays["draws"].astype(np.float64), arrays["steps"]))
    return panels, missing


def task_of(group: Group, request: Request) -> Any:
    """The task with the group's settings."""
    return made(request, "tasks", group.task, "task", group)


def made(request: Request, room: str, name: str, prefix: str, group: Group) -> Any:
    """A component with the settings that a group has of it."""
    offer = (request.registry or registry()).find(room, name)
    assert isinstance(offer.info, Info)
    own = {key.removeprefix(f"{prefix}."): v for key, v in group.settings.items() if key.startswith(f"{prefix}.")}
    return instance(offer.info.target, own)


def label_plane(axes: Any, count: int) -> None:
    """Name the coordinates along the rim of a grid of axes of which the first `count` are in use; hide the others."""
    columns = axes.shape[1]
    for i, ax in enumerate(axes.flat):
        if i >= count:
            ax.set_axis_off()
        elif i + columns >= count:
            ax.tick_params(labelbottom=True)
            ax.set_xlabel(r"$\theta_1$")
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$\theta_2$")
