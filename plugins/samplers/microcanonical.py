"""Microcanonical dynamics: the velocity is a unit vector u that the gradient only turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

B = 0.1931833275037836
"""The share of a step that McLachlan's integrator spends on its first and its last kick."""


def kick(u: Tensor, g: Tensor, length: Tensor, T: Tensor) -> tuple[Tensor, Tensor]:
    """Turn u (C, D) away from the gradient g along an arc of `length`; also the energy K (C, 1), in units of T.

        f = -g/|g|,  p = f.u,  delta = length |g| / (T (D - 1)),  z = exp(-delta)
        u <- f (1 - z)(1 + z + p (1 - z)) + 2 z u, normalised;  K = (D - 1)(delta - log 2 + log(1 + p + (1 - p) z^2))

    From u = 0 it is f.
    """
    size = _length(g)
    f = -g / size
    p = (f * u).sum(1, keepdim=True)
    delta = length * size / (T * (u.shape[1] - 1))
    z = (-delta).exp()
    turned = f * ((1 - z) * (1 + z + p * (1 - z))) + 2 * z * u
    energy = (u.shape[1] - 1) * (delta + ((1 + p + (1 - p) * z * z) / 2).log())
    return normalised(turned), energy


def normalised(u: Tensor) -> Tensor:
    """u / |u|, chain by chain; 0 where u is."""
    return u / _length(u)


def _length(u: Tensor) -> Tensor:
    """|u| (C, 1), or the least positive number."""
    import torch

    return u.square().sum(1, keepdim=True).sqrt().clamp(min=torch.finfo(u.dtype).tiny)


def mclachlan(
    theta: Tensor, u: Tensor, g: Tensor, epsilon: Tensor, T: Tensor, gradient: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A step of length epsilon by McLachlan's integrator: theta, u, the last gradient and K.

    Kick b epsilon with the g given, half a drift, kick (1 - 2b) epsilon, half a drift, kick b epsilon: two gradients.
    """
    u, first = kick(u, g, B * epsilon, T)
    x = theta + epsilon / 2 * u
    u, second = kick(u, gradient(x), (1 - 2 * B) * epsilon, T)
    x = x + epsilon / 2 * u
    g = gradient(x)
    u, third = kick(u, g, B * epsilon, T)
    return x, u, g, first + second + third
