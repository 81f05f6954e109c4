"""Makes the stored truths of the logistic posteriors: python -m tasks.regression.truth [dataset ...].

The harness's own HMC: many chains, started at draws of the prior. What it finds is written to truth/<dataset>.json only
if it is good enough: rank-normalised split R-hat below 1.01 and a bulk effective size above 10,000, for z and for z^2,
along each of `Truth.directions`, and no chain lost. Deterministic given the seed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness import UsageError, hmc_draws, truth_record, write_truth
from tasks.regression.blr import Australian, German, Heart, LogisticTask
from tasks.regression.laplace import laplace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHAINS = 64
BURN_IN = 500
DRAWS = 1500
SAMPLER = {"leapfrog": 8, "jitter": 0.5, "acceptance": 0.8}
"""A wide jitter: where all trajectories have half a period of some direction, z is fresh there and z^2 is not."""
TASKS: dict[str, LogisticTask] = {task.file.dataset: task for task in (Australian(), German(), Heart())}


def reference(
    task: LogisticTask, *, chains: int = CHAINS, burn_in: int = BURN_IN, draws: int = DRAWS
) -> NDArray[np.float64]:
    """Draws (n, C, D) by HMC, adapted in the burn-in that is dropped. `RunError` where a chain is lost."""
    step_size = 1 / laplace(task.design()).eigenvalues[-1]
    return hmc_draws(task, SAMPLER, step_size, chains=chains, burn_in=burn_in, draws=draws)


def record(task: LogisticTask, draws: NDArray[np.float64]) -> dict[str, Any]:
    """What is stored. `RunError` where the draws are not good enough."""
    name, eigenvalues = task.file.dataset, laplace(task.design()).eigenvalues
    return {
        "dataset": name,
        "data_sha256": task.file.sha256,
        "command": f"python -m tasks.regression.truth {name}",
        **truth_record(draws, name, SAMPLER, BURN_IN),
        "hessian_eigenvalues": [float(eigenvalues[0]), float(eigenvalues[-1])],
    }


def main(names: Sequence[str]) -> None:
    """Make the truths of the named data sets, of all where none is named."""
    for name in names or TASKS:
        if name not in TASKS:
            raise UsageError(f"unknown data set {name!r}; known: {', '.join(TASKS)}")
        write_truth(TASKS[name].record(), record(TASKS[name], reference(TASKS[name])))


if __name__ == "__main__":
    main(sys.argv[1:])
