"""The draws at the ends of cycles, with the running statistics that belong to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reports.figures.parts import arrays

if TYPE_CHECKING:
    from harness.reporting.scoring import Run
    from harness.results.store import Store


@dataclass(frozen=True, eq=False)
class End:
    """A draw of chain 0: its step, its weights (D,), its running statistics (B,)."""

    step: int
    theta: NDArray[np.float32]
    statistics: NDArray[np.float32]


def ends_of_cycles(store: Store, run: Run, most: int) -> list[End]:
    """The last draws on disk of the first so many cycles; of one cycle, its first and last. [] where there are none."""
    from safetensors import safe_open

    path = store.results / run.path / "draws.safetensors"
    seen = arrays(store, run, "steps", "cycle", "chain")
    if seen is None or not path.is_file():
        return []
    buffers = (arrays(store, run, "buffers") or {}).get("buffers", np.zeros((len(seen["steps"]), 0), np.float32))
    row = {int(seen["steps"][i]): i for i in np.flatnonzero(seen["chain"] == 0)}
    with safe_open(path, "numpy") as file:
        stored = {int(step): place for place, step in enumerate(file.get_tensor("steps")) if int(step) in row}
        by_cycle: dict[int, list[int]] = {}
        for step in stored:
            by_cycle.setdefault(int(seen["cycle"][row[step]]), []).append(step)
        chosen = [steps[-1] for steps in by_cycle.values()]
        if len(by_cycle) == 1:
            chosen = sorted({*(only := next(iter(by_cycle.values())))[:1], only[-1]})
        draws = file.get_slice("draws")
        return [
            End(step, np.asarray(draws[stored[step], 0]), buffers[row[step]]) for step in chosen[:most]
        ]  # fmt: skip


def pair(first: NDArray[np.float32], last: NDArray[np.float32]) -> Any:
    """Two rows as one tensor."""
    import torch

    return torch.from_numpy(np.stack([first, last]))
