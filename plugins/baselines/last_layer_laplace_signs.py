"""The Laplace approximation of a network's last layer, with the diagonal of the Hessian by random signs, a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Potential
from plugins.baselines.laplace_signs import LaplaceSigns

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class LastLayerLaplaceSigns(LaplaceSigns):
    """The Laplace approximation of the last layer alone; all other weights are those of SGD. Not MCMC.

        w     <- w - h grad U(w)
        c      = z (grad U(w + delta z) - grad U(w)) / delta,    z_i = -1 or 1 in the last layer, 0 before it
        H     <- the mean of c, each step decay times as heavy as the next
        theta  = w + sqrt(T / max(H, least)) xi in the last layer, w before it

    The last layer is the last weight matrix or kernel and all vectors after it: its bias, and a level of noise. On
    potentials without a matrix everything is the last layer, and this is laplace-signs.

    On a quadratic potential whose Hessian is diagonal within the last layer c is exact there, whatever the rest of the
    Hessian, and theta has the variance T / H_ii about w. At the minimum this is the law of the last layer under
    exp(-U/T) given the other weights, whose own variance is left out. If the Hessian is not diagonal within the last
    layer, T / H_ii is too narrow for that law too. Stable for x = h lambda < 2. A warm start (`run.warm_start`) brings
    w near a mode.

    With cross-entropy, and with a normal likelihood whose mean is the output, U is convex in each weight of the last
    layer, and H_ii is no less than the precision of the prior. Its estimate may be less: set `least` to that precision.

    Only for tasks that state the layout of their weights: the networks. State: theta - w, the sum behind H, and a count
    of steps (C, 1). Two gradients a step, both of the whole network.

    Source: E. Daxberger, A. Kristiadi, A. Immer, R. Eschenhagen, M. Bauer, P. Hennig, "Laplace Redux - Effortless
    Bayesian Deep Learning", NeurIPS 2021. The last layer is the default there, with a Kronecker-factored Hessian and
    after training; here the Hessian is diagonal, and its mean is taken along SGD.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"layout"})

    def random(self, theta: Tensor, potential: Potential) -> Tensor:
        """1 in the last layer, 0 before it (D,)."""
        import torch

        blocks = potential.layout.blocks
        last = max((k for k, block in enumerate(blocks) if len(block.shape) > 1), default=0)
        before = sum(block.size for block in blocks[:last])
        return (torch.arange(theta.shape[1], device=theta.device) >= before).to(theta.dtype)
