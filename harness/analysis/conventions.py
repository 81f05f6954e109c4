"""Step sizes and temperatures in the conventions of papers and libraries, there and back.

Here h multiplies the gradient of the full-data sum U and the target is exp(-U/T): a step drifts by -h grad U and adds
noise of variance 2 h T. With momentum, v <- (1 - alpha) v - h grad U + N(0, 2 alpha h T - h^2 V), theta <- theta + v,
V being the variance of a coordinate of the stochastic gradient where it is taken off the noise. N is the number of
likelihood terms in U, 1 for a plain density; it belongs to the task and is the same everywhere.

`CONVENTIONS` has a record for each: `to` gives what to write there for the same drift and the same noise, `from_` the
step here that settings written there amount to, N being known. Each undoes the other.

Source: the conversions are algebra; who uses which convention was read in the papers and in the libraries' code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Settings = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step size here: h, T, N; with momentum the friction alpha and V; M, the mass that only physical forms have."""

    h: float
    T: float = 1.0
    N: int = 1
    alpha: float | None = None
    V: float = 0.0
    M: float = 1.0


@dataclass(frozen=True)
class Equivalent:
    """The same step in another convention: who has it, its settings by name, and how it writes the step."""

    convention: str
    settings: dict[str, float]
    step: str


@dataclass(frozen=True, eq=False)
class Convention:
    """One convention: how it writes a step, its settings as formulas of ours, and ours as formulas of its settings.

    friction      whether it is about steps with momentum, and says nothing of others
    divides       whether it divides by T, and has no T = 0
    """

    name: str
    used_by: tuple[str, ...]
    step: str
    settings: Mapping[str, str]
    back: Mapping[str, str]
    to: Callable[[Step], dict[str, float]]
    from_: Callable[[Settings, int], Step]
    friction: bool = False
    divides: bool = False

    def can_say(self, step: Step) -> bool:
        """Whether it has words for this step."""
        if step.V and ("V" not in self.back or not step.T):
            return False
        if self.friction:
            return step.alpha is not None and step.h > 0
        return step.T > 0 or not self.divides

    def equivalent(self, step: Step) -> Equivalent:
        """The step in this convention."""
        return Equivalent(self.name, self.to(step), self.step)


def _corrected(step: Step) -> float:
    """beta-hat = h V / (2 T), the friction that the gradient's own noise makes up for; 0 without V."""
    return step.h * step.V / (2 * step.T) if step.V else 0.0


def _physical(s: Settings, N: int) -> Step:
    h = s["epsilon"] ** 2 / s["M"]
    return Step(
        h=h, T=s["T"], N=N, alpha=s["epsilon"] * s["C"] / s["M"], V=2 * s["B"] * s["T"] / s["epsilon"], M=s["M"]
    )


def _to_physical(step: Step) -> dict[str, float]:
    assert step.alpha is not None
    epsilon = math.sqrt(step.h * step.M)
    B = epsilon * step.V / (2 * step.T) if step.V else 0.0
    return {"epsilon": epsilon, "C": step.alpha * step.M / epsilon, "M": step.M, "B": B, "T": step.T}


def _to_velocity(step: Step) -> dict[str, float]:
    assert step.alpha is not None
    return {"eta": step.h, "alpha": step.alpha, "beta": _corrected(step), "T": step.T}


def _to_momentum(step: Step) -> dict[str, float]:
    assert step.alpha is not None
    return {"lr": step.h * step.N, "momentum": 1 - step.alpha, "T": step.T}


HERE = Convention(
    "here",
    ("sgmcmc-bench", "Kim et al. 2022 (adaptive drift)", "Zhang et al. 2020 (ICLR)", "blackjax", "SGMCMCJax SGLD"),
    "theta - h grad U + N(0, 2 h T)",
    {"h": "h", "T": "T"},
    {"h": "h", "T": "T"},
    lambda step: {"h": step.h, "T": step.T},
    lambda s, N: Step(h=s["h"], T=s["T"], N=N),
)
WELLING_TEH = Convention(
    "Welling-Teh, pSGLD, TensorFlow Probability",
    ("Welling and Teh 2011", "Li et al. 2016 (pSGLD)", "TensorFlow Probability", "JavierAntoran"),
    "theta - epsilon/2 grad U/T + N(0, epsilon)",
    {"epsilon": "2*h*T", "T": "T"},
    {"h": "epsilon/(2*T)", "T": "T"},
    lambda step: {"epsilon": 2 * step.h * step.T, "T": step.T},
    lambda s, N: Step(h=s["epsilon"] / (2 * s["T"]), T=s["T"], N=N),
    divides=True,
)
MEAN_LOSS = Convention(
    "mean loss (csgmcmc, bnn_priors)",
    ("csgmcmc SGLD", "bnn_priors", "adaptive drift CIFAR"),
    "theta - lr grad(U/N) + N(0, 2 lr T/N)",
    {"lr": "h*N", "T": "T"},
    {"h": "lr/N", "T": "T"},
    lambda step: {"lr": step.h * step.N, "T": step.T},
    lambda s, N: Step(h=s["lr"] / N, T=s["T"], N=N),
)
POSTERIORS = Convention(
    "posteriors",
    ("posteriors",),
    "theta - lr grad(U/N) + N(0, 2 lr temperature)",
    {"lr": "h*N", "temperature": "T/N"},
    {"h": "lr/N", "T": "temperature*N"},
    lambda step: {"lr": step.h * step.N, "temperature": step.T / step.N},
    lambda s, N: Step(h=s["lr"] / N, T=s["temperature"] * N, N=N),
)
DEVINTERP = Convention(
    "devinterp",
    ("devinterp",),  # its localisation left out
    "theta - lr/2 nbeta grad(U/N) + N(0, lr)",
    {"lr": "2*h*T", "nbeta": "N/T"},
    {"h": "lr*nbeta/(2*N)", "T": "N/nbeta"},
    lambda step: {"lr": 2 * step.h * step.T, "nbeta": step.N / step.T},
    lambda s, N: Step(h=s["lr"] * s["nbeta"] / (2 * N), T=N / s["nbeta"], N=N),
    divides=True,
)
VELOCITY = Convention(
    "velocity form of SGHMC (Chen et al. 2014, eq. 15)",
    ("Chen et al. 2014, eq. 15", "Zhang et al. 2020: alpha_k is eta, eta is alpha, gamma-hat is beta"),
    "v = (1 - alpha) v - eta grad U + N(0, 2 (alpha - beta) eta T); theta + v",
    {"eta": "h", "alpha": "alpha", "beta": "h*V/(2*T)", "T": "T"},
    {"h": "eta", "alpha": "alpha", "V": "2*beta*T/eta", "T": "T"},
    _to_velocity,
    lambda s, N: Step(h=s["eta"], T=s["T"], N=N, alpha=s["alpha"], V=2 * s["beta"] * s["T"] / s["eta"]),
    friction=True,
)
PHYSICAL = Convention(
    "physical SGHMC (Chen et al. 2014, eq. 13)",
    (
        "Chen et al. 2014, eq. 13",
        "ML-SGHMC figure 1",
        "slides: theta first, by the old r, then grad U at the new theta",
    ),
    "r = r - epsilon grad U - epsilon C r/M + N(0, 2 (C - B) epsilon T); theta + epsilon r/M",
    {"epsilon": "sqrt(h*M)", "C": "alpha*M/sqrt(h*M)", "M": "M", "B": "sqrt(h*M)*V/(2*T)", "T": "T"},
    {"h": "epsilon**2/M", "alpha": "epsilon*C/M", "V": "2*B*T/epsilon", "M": "M", "T": "T"},
    _to_physical,
    _physical,
    friction=True,
)
MOMENTUM = Convention(
    "momentum on the mean loss (csgmcmc)",
    ("csgmcmc SGHMC: alpha is 1 - momentum", "ML-SGHMC bayesnn: mdecay is 1 - momentum", "SGD with momentum, T = 0"),
    "v = momentum v - lr grad(U/N) + N(0, 2 (1 - momentum) lr T/N); theta + v",
    {"lr": "h*N", "momentum": "1 - alpha", "T": "T"},
    {"h": "lr/N", "alpha": "1 - momentum", "T": "T"},
    _to_momentum,
    lambda s, N: Step(h=s["lr"] / N, T=s["T"], N=N, alpha=1 - s["momentum"]),
    friction=True,
)

CONVENTIONS = (HERE, WELLING_TEH, MEAN_LOSS, POSTERIORS, DEVINTERP, VELOCITY, PHYSICAL, MOMENTUM)
OTHERS = CONVENTIONS[1:]


def equivalents(h: float, T: float, N: int, alpha: float | None = None) -> list[Equivalent]:
    """All others for a step size; those that divide by T where T > 0, with friction where alpha is given."""
    step = Step(h=h, T=T, N=N, alpha=alpha)
    return [convention.equivalent(step) for convention in OTHERS if convention.can_say(step)]
