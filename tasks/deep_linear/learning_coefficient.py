"""The learning coefficient of a deep linear network."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence


def learning_coefficient(widths: Sequence[int], rank: int) -> float:
    """Return lambda of x -> W_L ... W_1 x at weights whose product, like each layer, has this rank.

    Let M_j = H_j - r. S has the k >= 2 smallest of them, with the k for which sum S >= l max S, and sum S < l M_j for
    every other M_j, where l = k - 1. With s = sum S and a = s - (ceil(s / l) - 1) l,

        lambda = (r (H_0 + H_L) - r^2) / 2 + a (l - a) / (4 l) - l (l - 1) / 4 (s / l)^2 + sum_{i < j in S} M_i M_j / 2.

    It is the exponent of the volume of weights with a mean squared error below epsilon, epsilon^lambda. For a posterior
    exp(-n beta L_n), n beta E L_n tends to lambda.

    Args:
        widths: H_0 ... H_L, of the input, the hidden layers and the output.
        rank: r, from 0 to the least width.

    Raises:
        ValueError: if there are fewer than two layers, or the rank is out of range.

    Source: M. Aoyagi, "Consideration on the learning efficiency of multiple-layered neural networks with linear
    units", Neural Networks 172, 2024.
    """
    if len(widths) < 3 or not 0 <= rank <= min(widths):
        raise ValueError(f"widths {list(widths)} and rank {rank}: two layers or more, and a rank of 0 to {min(widths)}")
    M = sorted(H - rank for H in widths)
    sums = [0, *itertools.accumulate(M)]
    k = next(k for k in range(2, len(M) + 1) if selected(M, k))
    l, s = k - 1, sums[k]
    a = s - (math.ceil(s / l) - 1) * l
    pairs = (s**2 - sum(m**2 for m in M[:k])) / 2
    regular = rank * (widths[0] + widths[-1]) - rank**2
    return regular / 2 + a * (l - a) / (4 * l) - (l - 1) * s**2 / (4 * l) + pairs / 2


def selected(M: Sequence[int], k: int) -> bool:
    """Return whether S is the first k of M, which is sorted."""
    s = sum(M[:k])
    return s >= (k - 1) * M[k - 1] and (k == len(M) or s < (k - 1) * M[k])
