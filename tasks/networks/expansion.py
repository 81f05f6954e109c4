"""Parameter expansion: each kernel and matrix of a network is a product P V Q, of which all three are sampled."""

from __future__ import annotations

from torch import Tensor, eye, nn
from torch.nn.utils import parametrize

EXPANDED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
"""The layers whose weight is expanded."""


class Product(nn.Module):
    """W = P V Q of a weight V (O, I, ...), with P (O, O) on its outputs and Q (I, I) on its inputs; both start at I."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        outputs, inputs = weight.shape[:2]
        self.P = nn.Parameter(eye(outputs, dtype=weight.dtype, device=weight.device))
        self.Q = nn.Parameter(eye(inputs, dtype=weight.dtype, device=weight.device))

    def forward(self, weight: Tensor) -> Tensor:
        mixed = (self.P @ weight.flatten(1)).view_as(weight)
        return mixed @ self.Q if weight.dim() == 2 else (mixed.movedim(1, -1) @ self.Q).movedim(-1, 1)


def expanded(module: nn.Module) -> nn.Module:
    """Return the module with the weights of its linear and convolutional layers as products P V Q, in place.

    Its function is the same at first. The new parameters have the names LAYER.parametrizations.weight.0.P and .Q.
    """
    for layer in [layer for layer in module.modules() if isinstance(layer, EXPANDED)]:
        parametrize.register_parametrization(layer, "weight", Product(layer.weight), unsafe=True)
    return module
