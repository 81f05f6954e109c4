"""The laws of smile and psmile: gradient noise makes their motion ergodic, so they are simulated under it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from plugins.checking import SamplerLaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

CHAINS = 512
STEPS = 1500
"""At the longer step size; twice as many at half of it."""

NOISE = 4.0
"""Variance of gradient noise over T, in units of the curvature where it differs between coordinates."""

X = 0.1
"""h times the largest curvature."""


class SMILELaw(SamplerLaw):
    """Under noise that is alike in all directions the limit is the target. No law is claimed of exact gradients."""

    shows: ClassVar[str] = (
        "Under isotropic gradient noise the variances of Gaussians with curvatures from 1 to 4, in 2, 5 and 20 "
        "dimensions at T = 1, 0.5 and 3, tend to T / lambda as h -> 0. "
        "Nothing is shown of exact gradients or of other noise."
    )

    def check(self, sampler: Any) -> None:
        """Variances at two step sizes, and their limit."""
        import numpy as np

        settings = ((2, 1.0), (5, 0.5), (20, 3.0))
        for dim, T in settings:
            curvature = np.geomspace(1, 4, dim)
            limit_is_the_target(sampler, curvature, np.full(dim, NOISE * T), T, among=sum(d for d, _ in settings))


class PSMILELaw(SamplerLaw):
    """D follows the spread of gradients, noise included, so the claim is for noise in proportion to the Hessian."""

    shows: ClassVar[str] = (
        "Under gradient noise whose covariance is proportional to the Hessian, with curvatures from 1 to 10 in 20 "
        "dimensions, the variances tend to T / lambda as h -> 0 at rate = 0.001, where D hardly moves; `smile` has 0.3 "
        "to 2.2 times that. Other noise biases the variances, and so does D at higher rates (by 1 % at 0.01)."
    )

    def check(self, sampler: Any) -> None:
        """Variances at two step sizes, and their limit, at a low rate."""
        from dataclasses import replace

        import numpy as np

        T, curvature = 1.5, np.geomspace(1, 10, 20)
        slow = replace(sampler, rate=1e-3)
        limit_is_the_target(slow, curvature, NOISE * T * curvature, T, settling=2000, among=len(curvature))


def limit_is_the_target(
    sampler: Any, curvature: Array, noise: Array, T: float, *, among: int, settling: int = 0
) -> None:
    """lambda var / T of each coordinate tends to 1 as h -> 0, on a Gaussian with gradient noise of these variances.

    From exact draws. `among` is the number of p-values of the whole law; `settling` steps are left out besides.
    """
    import numpy as np
    from scipy.stats import t

    from plugins.checking.forms import OWN_LEVEL

    h = X / curvature.max()
    by_step = [ratios(sampler, curvature, noise, T, h / k, settling, k * STEPS) for k in (1, 2)]
    means = [one.mean(0) for one in by_step]
    limit = 2 * means[1] - means[0]
    error = np.sqrt(sum(weight**2 * one.var(0, ddof=1) for weight, one in zip((1, 2), by_step, strict=True)) / CHAINS)
    bound = t.isf(OWN_LEVEL / among / 2, CHAINS - 1)
    allowed = bound * error + 2 * (means[0] - means[1]) ** 2
    worst = int(np.argmax(np.abs(limit - 1) / allowed))
    assert (np.abs(limit - 1) < allowed).all(), (
        f"at T = {T:g} in {len(curvature)} dimensions lambda var / T of coordinate {worst} tends to "
        f"{limit[worst]:.4g} +- {error[worst]:.2g} as h -> 0, should be 1"
    )


def ratios(sampler: Any, curvature: Array, noise: Array, T: float, h: float, settling: int, steps: int) -> Array:
    """lambda theta^2 / T, its mean over each chain (CHAINS, D), a third of `steps` and `settling` left out."""
    import torch

    from harness.engine import DirectNoise
    from plugins.checking.law import streams

    number = torch.tensor([h, T], dtype=torch.float64)
    scale = torch.from_numpy(curvature)
    spread = torch.from_numpy(noise).sqrt()
    (generator,) = [one.torch("noise") for one in streams(1)]

    def normal() -> Any:
        return torch.randn((CHAINS, len(curvature)), generator=generator, dtype=torch.float64)

    class Noisy:
        def __init__(self) -> None:
            self.slope = spread * normal()

        def grad(self, x: Any) -> Any:
            return scale * x + self.slope

        def value_and_grad(self, x: Any) -> Any:
            return (scale * x * x / 2 + self.slope * x).sum(1), self.grad(x)

    stream = DirectNoise([], torch.float64)
    theta = normal() * (T / scale).sqrt()
    state = sampler.init(theta, Noisy(), number[0], number[1], stream)
    total, burn_in = torch.zeros_like(theta), settling + steps // 3
    for k in range(settling + steps):
        theta, state = sampler.step(theta, dict(state), Noisy(), number[0], number[1], stream)
        if k >= burn_in:
            total += theta.square()
    return (total * scale / (T * (settling + steps - burn_in))).numpy()
