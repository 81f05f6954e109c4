"""Control variates for the gradient of any sampler: class SGLDCV(ControlVariates, SGLD) is all that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor

OWN = ("centre", "centre_gradient")
"""State entries of the control variate, beside those of the sampler that it is put before."""


class Controlled:
    """A potential whose batch gradient is g(x) - g(c) + grad U(c): unbiased as g is, and exact at the centre c.

    Each gradient costs two of the batch. Energies, scores and metric are those of the potential itself.
    """

    def __init__(self, potential: Potential, centre: Tensor, centre_gradient: Tensor) -> None:
        self.potential = potential
        self.centre = centre
        self.centre_gradient = centre_gradient
        self.terms = potential.terms

    def grad(self, x: Tensor) -> Tensor:
        """The controlled gradient (C, D) at x."""
        return self.potential.grad(x) + self.correction()

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """U of the batch (C,) and the controlled gradient (C, D) at x."""
        value, g = self.potential.value_and_grad(x)
        return value, g + self.correction()

    def correction(self) -> Tensor:
        """The error of the batch's gradient at the centre (C, D), sign turned round."""
        return self.centre_gradient - self.potential.grad(self.centre)

    def scores(self, x: Tensor) -> Tensor:
        """Those of the potential."""
        return self.potential.scores(x)

    def metric(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """That of the potential."""
        return self.potential.metric(x)

    @property
    def full(self) -> Potential:
        """That of the potential."""
        return self.potential.full


@dataclass(frozen=True, kw_only=True)
class Centred(Sampler):
    """Puts the controlled gradient in the place of the batch's for the sampler that comes after it among the bases.

    A subclass says in `first_centre` where the centre lies. State, beside the sampler's: the centre and the gradient of
    the full U there, each (C, D). Every gradient of the sampler is two.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "potential": "the noise of the Gaussian's gradient is the same everywhere, so the controlled gradient is exact "
        "there, whatever the batch"
    }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        after: Any = super()  # the sampler that comes after among the bases of cls
        cls.adaptive = (*OWN, *after.adaptive)
        cls.exempt = {**Centred.exempt, **after.exempt}

    @property
    def gradients_per_step(self) -> int:  # type: ignore[override]
        """Twice the sampler's."""
        return 2 * super().gradients_per_step

    @property
    def full_gradients_at_start(self) -> int:  # type: ignore[override]
        """One, at the centre."""
        return 1

    def first_centre(self, theta: Tensor, potential: Potential, h: Tensor) -> Tensor:
        """The centre (C, D) to begin with, found by full gradients alone."""
        raise NotImplementedError(f"{type(self).__name__} has no first_centre")

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        centre = control(self.first_centre(theta, potential, h), potential)
        return super().init(theta, Controlled(potential, *centre.values()), h, T, noise) | centre

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        centre = {name: state[name] for name in OWN}
        rest = {name: leaf for name, leaf in state.items() if name not in OWN}
        theta, rest = super().step(theta, rest, Controlled(potential, *centre.values()), h, T, noise)
        return theta, rest | centre


def control(centre: Tensor, potential: Potential) -> dict[str, Tensor]:
    """The state entries of a centre; one full gradient."""
    return dict(zip(OWN, (centre, potential.full.grad(centre)), strict=True))


@dataclass(frozen=True, kw_only=True)
class ControlVariates(Centred):
    """A centre that stays: where `descent` full-gradient steps of size h, the first of the run, lead from the start.

    Source: J. Baker, P. Fearnhead, E. B. Fox, C. Nemeth, "Control variates for stochastic gradient MCMC", Statistics
    and Computing 29, 2019, whose centre is a mode.
    """

    descent: int = param(100, "[0, 100000]", "full-gradient steps that find the centre", source="ours")

    @property
    def full_gradients_at_start(self) -> int:  # type: ignore[override]
        """Those of the descent, and one at the centre."""
        return self.descent + 1

    def first_centre(self, theta: Tensor, potential: Potential, h: Tensor) -> Tensor:
        for _ in range(self.descent):
            theta = theta - h * potential.full.grad(theta)
        return theta


@dataclass(frozen=True, kw_only=True)
class VarianceReduction(Centred):
    """A centre that follows: the position at the start and after every `period` steps, for one full gradient each.

    Source: A. Dubey, S. J. Reddi, B. Poczos, A. J. Smola, E. P. Xing, S. A. Williamson, "Variance Reduction in
    Stochastic Gradient Langevin Dynamics", NIPS 2016 (SVRG-LD).
    """

    period: int = param(100, "[1, 1000000]", "steps between moves of the centre", source="ours; about N / n")

    @property
    def refresh_every(self) -> int:  # type: ignore[override]
        """The period."""
        return self.period

    def first_centre(self, theta: Tensor, potential: Potential, h: Tensor) -> Tensor:
        return theta

    def refresh(self, theta: Tensor, state: dict[str, Tensor], potential: Potential) -> dict[str, Tensor]:
        return state | control(theta, potential)
