"""SMILE (2026): microcanonical dynamics on minibatches, refreshed by gradient noise; and its preconditioned form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param
from plugins.samplers.microcanonical import B, kick

if TYPE_CHECKING:
    from torch import Tensor

JUDGED = 10
"""The first step whose energy error is judged."""
LEAST = 1e-6
"""What the authors add to the variance, and the least mean and standard deviation."""


@dataclass(frozen=True, kw_only=True)
class SMILE(Sampler):
    """McLachlan's integrator at constant speed on minibatches, without a refreshment: the noise of gradients turns u.

        u <- kick(b e, g);  theta <- theta + e u / 2;  u <- kick((1 - 2b) e, grad U(theta))
        theta <- theta + e u / 2;  g <- grad U(theta);  u <- kick(b e, g),        e = sqrt(D h T) c

    Both new gradients are of the batch of the step; the first kick reuses the last gradient, of the batch before. u is
    a unit vector, 0 at first, so that the first kick gives it the direction of descent. Gradient noise that is alike in
    all directions only diffuses u: the target is exp(-U/T) as h -> 0, in two dimensions or more. Noise that differs
    between directions biases the variances: on N(0, I) in 20 dimensions at h = 0.05, noise of sd 3 makes them 1.06, and
    noise of sd 6 in five coordinates and 0.5 in the others makes them 4.7 and 0.07. `psmile` is meant for it. Skewed
    noise n shifts the mean, because a kick turns u less than in proportion to a large gradient: where n is alike in all
    directions and large beside the gradient, E grad U = D h E[n |n|^2] / (3 (D + 2)(D - 1) T) to first order in h.
    Without noise the motion is deterministic and need not be ergodic, so no stationary law is declared.

    The energy error e_t = |K + dU / T| of step t has a moving mean m and variance v, and from those of the steps before
    the quantiles q_p of a gamma distribution (Wilson and Hilferty). From the tenth step on, above q_guard the step is
    taken back and u is 0 again; above q at 1 - 2 a / 3 the scale c shrinks by 1 - s, below q at a / 3 it grows by
    1 + s: as the quantiles are those of the errors themselves, c falls by about s a / 3 a step for ever. Then

        m <- e_t for t < 3, else m + rate (e_t - m);   v <- ((1 - rate) v + rate (e_t - m)^2) / c_t,  v = 0 at first,

    where c_t = 1 - 2^(4 - t) from t = 5 on corrects the start. By default there is neither guard nor tuning, the
    "naive" variant of the authors, and U is not asked for. Where a step is taken back the authors go on from the
    gradient and U of the refused point; here they are those of the point that is kept. Their clip of gradients at 1e6
    and their zeros for NaN are not followed. Their experiments on densities refresh u: that is `mclmc` here.

    State: u and g (C, D); with guard or tuning (C, 1) each U, log c, m, v, and the count of steps. Two gradients a
    step.

    Source: arXiv 2602.06500 and its code.
    """

    gradients_per_step: ClassVar[int] = 2
    gradient_at: ClassVar[str] = "end"
    least_dimension: ClassVar[int] = 2
    zero_temperature: ClassVar[None] = None

    guard: float = param(1.0, "(0.5, 1]", "quantile of |dE| above which a step is taken back", source="naive; UCI 0.98")
    share: float = param(0.0, "[0, 1)", "a, share of steps that change c", source="naive; UCI 0.1")
    change: float = param(0.0, "[0, 1)", "s, relative change of c", source="naive; UCI 0.02")
    rate: float = param(0.01, "(0, 1]", "of the moving means", source="authors' code")

    @property
    def watches(self) -> bool:
        """Whether the energy error is looked at."""
        return self.guard < 1 or self.share * self.change > 0

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        if not self.watches:
            return {"u": 0 * theta, "g": potential.grad(theta)}
        energy, g = potential.value_and_grad(theta)
        zero = 0 * energy[:, None]
        tuner = {"log_c": zero, "mean": zero, "variance": zero, "t": zero}
        return {"u": 0 * theta, "g": g, "energy": energy[:, None], **tuner}

    def mass(self, state: dict[str, Tensor], g: Tensor) -> tuple[Tensor | float, dict[str, Tensor]]:
        """The diagonal D that gradients are divided by, and its state."""
        return 1.0, {}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        D, masses = self.mass(state, state["g"])
        length = (theta.shape[1] * h * T).sqrt()
        if self.watches:
            length = length * state["log_c"].exp()
        u, first = kick(state["u"], state["g"] / D, B * length, T)
        x = theta + length / 2 * u / D
        u, second = kick(u, potential.grad(x) / D, (1 - 2 * B) * length, T)
        x = x + length / 2 * u / D
        if not self.watches:
            g = potential.grad(x)
            u, _ = kick(u, g / D, B * length, T)
            return x, {"u": u, "g": g, **masses}
        energy, g = potential.value_and_grad(x)
        u, third = kick(u, g / D, B * length, T)
        moved = {"u": u, "g": g, "energy": energy[:, None]}
        return self._watched(theta, x, state, moved, first + second + third, T, masses)

    def _watched(
        self, theta: Tensor, x: Tensor, state: dict[str, Tensor], moved: dict[str, Tensor], K: Tensor, T: Tensor,
        masses: dict[str, Tensor],
    ) -> tuple[Tensor, dict[str, Tensor]]:  # fmt: skip
        """Guard and tuning by the energy error."""
        import torch

        error = (K + (moved["energy"] - state["energy"]) / T).abs()
        t, mean, variance = state["t"] + 1, state["mean"], state["variance"]
        judged = t >= JUDGED
        back = judged & (error > quantile(self.guard, mean, variance))
        shrink = judged & (error > quantile(1 - 2 * self.share / 3, mean, variance))
        grow = judged & (error < quantile(self.share / 3, mean, variance))
        mean = error.where(t < 3, mean + self.rate * (error - mean)).clamp(LEAST, 1e6)
        variance = (1 - self.rate) * variance + self.rate * (error - mean).square()
        corrected = variance / (1 - ((4 - t) * math.log(2)).exp())
        variance = variance.where(t < 5, corrected).clamp(LEAST**2, 1e14)
        one = torch.ones_like(mean)
        log_c = state["log_c"] + (one - self.change * shrink).log() + (one + self.change * grow).log()
        kept = {name: state[name].where(back, new) for name, new in moved.items() if name != "u"}
        u = (0 * moved["u"]).where(back, moved["u"])
        tuner = {"log_c": log_c, "mean": mean, "variance": variance, "t": t}
        return theta.where(back, x), {"u": u, **kept, **tuner, **masses}

    def limit_bias(self) -> None:
        return None

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if min(T) <= 0:
            raise UsageError("smile has no T = 0: its schedule must keep the temperature above 0 at every step")


def quantile(p: float, mean: Tensor, variance: Tensor) -> Tensor:
    """Of a gamma distribution with this mean and variance: m (1 - r / 9 + z sqrt(r / 9))^3, r = variance / m^2."""
    if p in (0.0, 1.0):
        return mean.new_full(mean.shape, float("inf") if p else 0.0)
    ninth = (variance + LEAST) / (mean * mean) / 9
    root = 1 - ninth + NormalDist().inv_cdf(p) * ninth.sqrt()
    return mean * (root * root * root)


@dataclass(frozen=True, kw_only=True)
class PSMILE(SMILE):
    """SMILE under a diagonal that makes the noise of gradients alike in all coordinates.

        m  <- m + rate (g - m);   V <- V + rate ((g - m)^2 - V);   sd = sqrt(V) within [low, high]
        D  =  sd / (root mean square of sd over the coordinates)
        kicks see g / D, and drifts are e u / (2 D); otherwise as `smile`

    With D held still it is `smile` in the coordinates D theta. V has the spread of the gradients themselves too, so D
    is right where the covariance of the noise is proportional to the Hessian, as that of minibatches roughly is; under
    the uneven noise of `smile`'s example the variances are 2.0 and 0.7. D moves at every step and its derivative is
    left out, which adds about 1 % at the default rate. Additional state: m and V (C, D), started at g and 0.
    """

    adaptive: ClassVar[tuple[str, ...]] = ("m", "V")

    low: float = param(1e-2, "(0, inf)", "least sd", unit=1, source="authors' code")
    high: float = param(1e4, "(0, inf)", "largest sd", unit=1, source="authors' code")

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        state = super().init(theta, potential, h, T, noise)
        return {**state, "m": state["g"], "V": 0 * state["g"]}

    def mass(self, state: dict[str, Tensor], g: Tensor) -> tuple[Tensor | float, dict[str, Tensor]]:
        m = state["m"] + self.rate * (g - state["m"])
        V = state["V"] + self.rate * ((g - m).square() - state["V"])
        sd = V.sqrt().clamp(self.low, self.high)
        return sd / sd.square().mean(1, keepdim=True).sqrt(), {"m": m, "V": V}
