"""The test error between two draws: networks whose weights lie on the line from one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.tasks import NetworkProblem

    Array = NDArray[np.float64]

IMAGES = 2_000
"""Test images for each network, the first ones: all positions on a line use the same."""

BATCHES = 20
"""Training batches whose statistics are averaged if those of batch normalisation are recomputed."""


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
            problem.buffers[0] = torch.stack([problem.statistics_of(theta, batch) for batch in each]).mean(0)
            errors["recomputed"].append(_error(problem, theta))
    return {name: np.array(along) for name, along in errors.items()}


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
