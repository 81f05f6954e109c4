"""The stochastic gradient bouncy particle sampler (Fearnhead et al. 2024): straight paths, reflected uphill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param
from plugins.samplers.microcanonical import normalised

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SGBPS(Sampler):
    """The chain moves at its velocity v, which is reflected on the gradient at random, at a rate that is the slope.

        tau ~ Exp(max(0, v.g) / T),    s ~ Exp(refreshment_rate),    g = grad U(theta)
        theta <- theta + v h,                          if tau, s >= h
        theta <- theta + v tau + v' (h - tau),         if tau < s, h:  v' = v - 2 (v.k) k / |k|^2
        theta <- theta + v s + v' (h - s),             if s < tau, h:  v' ~ N(0, I)
        v <- v'

    Target exp(-U/T) as h -> 0. h is a time, v has the law N(0, I). The rate is that at the start of a step, in which
    there is one event at most. k is the gradient of the same minibatch at the event, or g with `reflection` "start".
    There is no stability limit. Noise of the gradient leaves the target as h -> 0: the mean rates of v and of the
    reflected v still differ by v.g / T. Without refreshment a chain on a round Gaussian stays in a plane.
    The law of v does not depend on T; at rates of 10 and more, where nearly every step draws v anew, the law one-step
    of `bench check` takes that for a T that is missing.

    On a round Gaussian the reflection on k leaves the angular momentum as it is, and that on g increases it at each
    event, until the velocity is drawn anew. On N(0, I) in ten dimensions, at the default rate and exact gradients, the
    variance is about 1 + 0.3 h with k and 1 + 80 h with g; with the noise of variance 9 in the gradient it is about
    1 + 8 h with k and 1 + 9 h with g.

    At T = 0 the rates of reflection are infinite. State: v (C, D). Two gradients a step, or one with "start". The
    authors' code reflects on g, and takes a new minibatch after each event for the rest of the step, which may have
    more events; this does not. Its comments speak of a reflection on the same observation's gradient at the event.

    Source: P. Fearnhead, S. Grazzi, C. Nemeth, G. O. Roberts, "Stochastic Gradient Piecewise Deterministic Monte Carlo
    Samplers", arXiv 2406.19051, and the authors' code (SebaGraz/SG-PDMPS: src/sg-bps.jl), from which the law of v and
    the default rate are. The code was read, and of the paper the abstract only. The process is that of A.
    Bouchard-Cote, S. J. Vollmer, A. Doucet, JASA 2018.
    """

    step_unit: ClassVar[int] = 0
    zero_temperature: ClassVar[None] = None

    refreshment_rate: float = param(
        0.1, "[0, inf)", "rate at which v is drawn anew", source="SebaGraz/SG-PDMPS", tune="[0.01, 3]"
    )
    reflection: str = param(
        "event", "", "where the gradient of a reflection is taken: at the event, or at the start of the step",
        source="ours; the authors' code: start", choices=("event", "start"),
    )  # fmt: skip

    @property
    def gradients_per_step(self) -> int:  # type: ignore[override]
        """Return 2, or 1 where the reflection uses the gradient of the rate."""
        return 2 if self.reflection == "event" else 1

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"v": noise.normal(theta)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        v, g, each = state["v"], potential.grad(theta), (len(theta), 1)
        tau = -noise.uniform(each).log() / self.rate(v, g, T)
        s = -noise.uniform(each).log() / self.refreshment_rate
        drawn = noise.normal(theta)
        time = tau.minimum(s)
        event = time < h
        time = time.where(event, h)
        theta = theta + v * time
        k = potential.grad(theta) if self.reflection == "event" else g
        new = self.reflected(v, k).where(tau < s, drawn).where(event, v)
        # A gradient that is not finite has no direction, and is not to be taken for a flat one.
        return theta + new * (h - time) + 0 * g + 0 * k, {"v": new}

    def rate(self, v: Tensor, g: Tensor, T: Tensor) -> Tensor:
        """Return the rate (C, 1) of reflections."""
        return ((v * g).sum(1, keepdim=True) / T).clamp(min=0)

    def reflected(self, v: Tensor, k: Tensor) -> Tensor:
        """Return the velocity (C, D) after a reflection on the gradient k; v where k is 0."""
        n = normalised(k)
        return v - 2 * (v * n).sum(1, keepdim=True) * n

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if min(T) <= 0:
            raise UsageError("sg-bps has no T = 0: its schedule must keep the temperature above 0 at every step")
