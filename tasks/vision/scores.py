"""Scores of predictive distributions and of pairs of draws, as NumPy functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import diagnostics
from tasks.vision.metrics import LOW_ENTROPY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def unseen_values(mean: Mapping[str, Array], entropies: Mapping[str, Array]) -> dict[str, float | None]:
    """How well the posterior mean (n, K) tells each unseen set from the test images, by entropy and largest p."""
    found: dict[str, float | None] = {}
    for name in mean.keys() - {"test"}:
        found[f"entropy_{name}"] = float(entropies[name].mean())
        found[f"low_entropy_mass_{name}"] = float((entropies[name] < LOW_ENTROPY).mean())
        scores = {"": (entropies["test"], entropies[name]), "_maxprob": (-mean["test"].max(1), -mean[name].max(1))}
        for suffix, (seen, unseen) in scores.items():
            found[f"auroc{suffix}_{name}"] = diagnostics.ood.auroc(seen, unseen)
            found[f"aupr{suffix}_{name}"] = diagnostics.ood.aupr(seen, unseen)
            found[f"fpr95{suffix}_{name}"] = diagnostics.ood.fpr95(seen, unseen)
    return found


def disagreements(predicted: NDArray[Any]) -> NDArray[np.float32]:
    """The share of images (S, n) that each two draws put in different classes, (S, S)."""
    shares = np.zeros((len(predicted), len(predicted)), dtype=np.float32)
    for k, row in enumerate(predicted):
        shares[k, :k] = (predicted[:k] != row).mean(axis=1)
    return shares + shares.T


def mean_disagreements(pairs: NDArray[np.float32], cycle: NDArray[np.int64]) -> dict[str, float | None]:
    """Means of (S, S) over all pairs of draws, and over those of different cycles; None where there are none."""
    upper = np.triu(np.ones(pairs.shape, dtype=bool), 1)
    between = upper & (cycle[:, None] != cycle)
    means = {"disagreement": upper, "disagreement_between_cycles": between}
    return {name: float(pairs[chosen].mean()) if chosen.any() else None for name, chosen in means.items()}
