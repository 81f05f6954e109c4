"""Laws of samplers whose V follows the gradient, so that the preconditioner biases the density."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from plugins.checking import SamplerLaw

MEAN_SIZE = math.sqrt(2 / math.pi)
"""E |x| of a standard normal; E |x|^3 is twice that."""


def variance(lam: float, T: float, power: float = 1.0) -> float:
    """The variance of a density proportional to (lam + |x|)^power exp(-x^2 / 2T).

    In closed form for power 1, (lam T + 2 c T^1.5) / (lam + c T^.5), c = E |x|; otherwise by quadrature.
    """
    if power == 1:
        return (lam * T + 2 * MEAN_SIZE * T**1.5) / (lam + MEAN_SIZE * math.sqrt(T))
    import numpy as np

    x = np.linspace(0, 40, 400_001)
    mass = (lam + x) ** power * np.exp(-(x**2) / (2 * T))
    return float(mass @ x**2 / mass.sum())


class PSGLDLaw(SamplerLaw):
    """A density proportional to (lam + |g|) exp(-U/T)."""

    noisy_variance: ClassVar[Mapping[float, float]] = {1.0: 1.15, 9.0: 1.03}
    settings: ClassVar[Sequence[Mapping[str, Any]]] = ({"decay": 0.5, "lam": 1.0}, {"decay": 0.0, "lam": 2.0})

    def variance(self, sampler: Any) -> float:
        """On N(0, 1) at T = 1."""
        return variance(sampler.lam, 1.0)


class RMSpropSGLDLaw(PSGLDLaw):
    """That of psgld; its start is forgotten."""

    noisy_variance: ClassVar[Mapping[float, float]] = {1.0: 1.14, 9.0: 1.03}
    clocks: ClassVar[Mapping[str, str]] = {"t": "its bias correction 1 - decay^t tends to 1"}


class AdamSGLDLaw(PSGLDLaw):
    """That of psgld: the mean of the gradient is the gradient as h -> 0."""

    noisy_variance: ClassVar[Mapping[float, float]] = {1.0: 1.18, 9.0: 1.03}
    settings: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"beta1": 0.5, "beta2": 0.5, "lam": 1.0}, {"beta1": 0.5, "beta2": 0.0, "lam": 2.0},
    )  # fmt: skip
    clocks: ClassVar[Mapping[str, str]] = {"t": "its bias corrections 1 - beta^t tend to 1"}


class PMSGLDLaw(SamplerLaw):
    """A density proportional to (lam + |g|) exp(-(1 + a) U/T)."""

    noisy_variance: ClassVar[Mapping[float, float]] = {1.0: 0.57, 9.0: 0.53}
    settings: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"decay": 0.5, "lam": 1.0, "beta1": 0.5}, {"decay": 0.0, "lam": 2.0, "beta1": 0.5, "a": 2.0},
    )  # fmt: skip

    def variance(self, sampler: Any) -> float:
        """On N(0, 1) at T = 1."""
        return variance(sampler.lam, 1 / (1 + sampler.a))


class PreconditionedSGHMCLaw(SamplerLaw):
    """A density proportional to (lam + |g|)^(1 - c) exp(-U/T).

    c = 2 mu W / (1 + mu), W = (1 - decay) / (1 - mu decay), mu the momentum. It carries noise of j steps ago by the
    share mu^j, and in the steps between theta has moved by it, which E has seen with the weights (1 - decay) decay^i.
    Summed over both, r / M drifts by c times what its missing derivative is.
    """

    noisy_variance: ClassVar[Mapping[float, float]] = {1.0: 1.04, 9.0: 1.0}
    settings: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"decay": 0.5, "lam": 1.0, "friction": 0.5}, {"decay": 0.0, "lam": 2.0, "friction": 0.3},
    )  # fmt: skip

    def variance(self, sampler: Any) -> float:
        """On N(0, 1) at T = 1."""
        mu = 1 - sampler.friction
        c = 2 * mu * (1 - sampler.decay) / (1 - mu * sampler.decay) / (1 + mu)
        return variance(sampler.lam, 1.0, 1 - c)
