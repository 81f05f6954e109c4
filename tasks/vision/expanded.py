"""Parameter expansion of a network task, and the digits by an expanded network."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import param
from harness.tasks import Network, NetworkTask
from tasks.vision.cnn import DigitsCNN

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from harness.tasks import Layout, NetworkProblem, Streams


@dataclass(frozen=True, kw_only=True)
class ParameterExpansion:
    """The first base of a `NetworkTask`, `class Mine(ParameterExpansion, MyTask)`: each weight is W = P V Q.

        -log p(theta) = prior_precision |V, biases|^2 / 2 + expansion_precision |P, Q|^2 / 2

    The target of W is another one than that of the network without expansion, whatever the precisions: W is no longer
    normal. A step of V, P and Q moves W in directions that a step of W alone does not have, and the paper finds more
    diverse draws by it. It gives P and Q a friction of their own, 1 beside 100; here a sampler has one for all.

    Source: D. Kim et al., "Parameter Expanded Stochastic Gradient Markov Chain Monte Carlo", ICLR 2025,
    arXiv 2503.00699, and cs-giung/px-sgmcmc (Apache-2.0), whose factor of |P, Q|^2 / 2 is 2.
    """

    expansion_precision: float = param(2.0, "[0, inf)", "of the normal prior on P and Q", source="px-sgmcmc")

    def network(self) -> Network:
        from tasks.networks.expansion import expanded

        plain = super().network()  # type: ignore[misc]
        assert isinstance(plain, Network)
        make = plain.make
        return Network(lambda: expanded(make()))

    def log_prior(self, theta: Tensor) -> Tensor:
        return -(_precisions(self, theta.dtype, theta.device) * theta.square()).sum(1) / 2

    def prior_gradient(self, theta: Tensor) -> Tensor:
        return _precisions(self, theta.dtype, theta.device) * theta

    def build(self, streams: Sequence[Streams], device: str) -> NetworkProblem:
        import torch

        problem: NetworkProblem = super().build(streams, device)  # type: ignore[misc]
        layout: Layout = self.layout()  # type: ignore[attr-defined]
        problem.under_normal_prior = _of_products(layout, torch.empty(1, layout.dim, device=device))[0] == 0
        return problem


@dataclass(frozen=True, kw_only=True)
class DigitsCNNExpanded(ParameterExpansion, DigitsCNN):
    """`digits-cnn` with parameter expansion: W = P V Q of each layer, which `ParameterExpansion` describes.

    The data, the network's function at the start, the metrics and the protocols are those of `digits-cnn`, so their
    predictions can be compared; the posterior is another one.
    """

    provides: ClassVar = NetworkTask.provides


def _of_products(layout: Layout, like: Tensor) -> Tensor:
    """Return 1 for entries of P and Q, and 0 for others, (C, D)."""
    return layout.fill(lambda block: block.name.endswith((".weight.0.P", ".weight.0.Q")), like)


@functools.lru_cache(maxsize=8)
def _precisions(task: ParameterExpansion, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the precision of each entry of theta, (1, D), made once."""
    import torch

    assert isinstance(task, NetworkTask)
    layout, precision = task.layout(), task.prior_precision or 0.0
    like = torch.empty(1, layout.dim, dtype=dtype, device=device)
    return precision + (task.expansion_precision - precision) * _of_products(layout, like)
