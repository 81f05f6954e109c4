"""Step sizes and temperatures in the conventions of papers and libraries, converted in both directions.

Here h multiplies the gradient of the full-data sum U and the target is exp(-U/T): a step drifts by -h grad U and adds
noise of variance 2 h T. With momentum, v <- (1 - alpha) v - h grad U + N(0, 2 alpha h T - h^2 V), theta <- theta + v,
where V is the variance of a coordinate of the stochastic gradient if it is subtracted from the noise. N is the number
of likelihood terms in U, 1 for a plain density; it belongs to the task and is the same in all conventions. M is the
mass, which only physical forms have.

Source: the conversions are algebra; which convention a paper or a library uses was read in the paper or the code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness import BenchError, Registry
from harness.contracts import load, plugin_code
from harness.results.spec import MAX_STEPS
from harness.runs import task_facts


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step in the convention here: h, T, N; with momentum the friction alpha; V and M as above."""

    h: float
    T: float = 1.0
    N: int = 1
    alpha: float | None = None
    V: float = 0.0
    M: float = 1.0


@dataclass(frozen=True, eq=False)
class Convention:
    """One convention.

    step      how it writes a step; with momentum, two assignments
    settings  its settings as formulas of ours; `back` has ours as formulas of its settings
    divides   whether it divides by T, so that it cannot express T = 0
    """

    name: str
    used_by: tuple[str, ...]
    step: str
    settings: Mapping[str, str]
    back: Mapping[str, str]
    divides: bool = False

    def can_express(self, step: Step) -> bool:
        """Return whether the convention can represent this step."""
        if step.V and ("V" not in self.back or not step.T):
            return False
        if "alpha" in self.back:
            return step.alpha is not None and step.h > 0
        return step.T > 0 or not self.divides

    def to(self, step: Step) -> dict[str, float]:
        """Return the settings in this convention that give the same step."""
        known = {**vars(step), "sqrt": math.sqrt}
        return {name: _value(formula, known) for name, formula in self.settings.items()}


def _value(formula: str, known: dict[str, Any]) -> float:
    try:
        return float(eval(formula, {"__builtins__": {}}, known))  # noqa: S307 - one of the formulas below
    except ZeroDivisionError:  # h V / (2 T) if both V and T are 0
        return 0.0


CONVENTIONS = (
    Convention(
        "here",
        ("sgmcmc-bench", "Kim et al. 2022 (adaptive drift)", "Zhang et al. 2020 (ICLR)", "blackjax", "SGMCMCJax SGLD"),
        "theta - h grad U + N(0, 2 h T)",
        {"h": "h", "T": "T"},
        {"h": "h", "T": "T"},
    ),
    Convention(
        "Welling-Teh, pSGLD, TensorFlow Probability",
        ("Welling and Teh 2011", "Li et al. 2016 (pSGLD)", "TensorFlow Probability", "JavierAntoran"),
        "theta - epsilon/2 grad U/T + N(0, epsilon)",
        {"epsilon": "2*h*T", "T": "T"},
        {"h": "epsilon/(2*T)", "T": "T"},
        divides=True,
    ),
    Convention(
        "mean loss (csgmcmc, bnn_priors)",
        ("csgmcmc SGLD", "bnn_priors", "adaptive drift CIFAR"),
        "theta - lr grad(U/N) + N(0, 2 lr T/N)",
        {"lr": "h*N", "T": "T"},
        {"h": "lr/N", "T": "T"},
    ),
    Convention(
        "posteriors",
        ("posteriors",),
        "theta - lr grad(U/N) + N(0, 2 lr temperature)",
        {"lr": "h*N", "temperature": "T/N"},
        {"h": "lr/N", "T": "temperature*N"},
    ),
    Convention(
        "devinterp",
        ("devinterp",),  # without its localisation
        "theta - lr/2 nbeta grad(U/N) + N(0, lr)",
        {"lr": "2*h*T", "nbeta": "N/T"},
        {"h": "lr*nbeta/(2*N)", "T": "N/nbeta"},
        divides=True,
    ),
    Convention(
        "velocity form of SGHMC (Chen et al. 2014, eq. 15)",
        ("Chen et al. 2014, eq. 15", "Zhang et al. 2020: alpha_k is eta, eta is alpha, gamma-hat is beta"),
        "v = (1 - alpha) v - eta grad U + N(0, 2 (alpha - beta) eta T); theta + v",
        {"eta": "h", "alpha": "alpha", "beta": "h*V/(2*T)", "T": "T"},
        {"h": "eta", "alpha": "alpha", "V": "2*beta*T/eta", "T": "T"},
    ),
    Convention(
        "physical SGHMC (Chen et al. 2014, eq. 13)",
        (
            "Chen et al. 2014, eq. 13",
            "ML-SGHMC figure 1",
            "slides: theta first, by the old r, then grad U at the new theta",
        ),
        "r = r - epsilon grad U - epsilon C r/M + N(0, 2 (C - B) epsilon T); theta + epsilon r/M",
        {"epsilon": "sqrt(h*M)", "C": "alpha*M/sqrt(h*M)", "M": "M", "B": "sqrt(h*M)*V/(2*T)", "T": "T"},
        {"h": "epsilon**2/M", "alpha": "epsilon*C/M", "V": "2*B*T/epsilon", "M": "M", "T": "T"},
    ),
    Convention(
        "momentum on the mean loss (csgmcmc)",
        (
            "csgmcmc SGHMC: alpha is 1 - momentum",
            "ML-SGHMC bayesnn: mdecay is 1 - momentum",
            "SGD with momentum, T = 0",
        ),
        "v = momentum v - lr grad(U/N) + N(0, 2 (1 - momentum) lr T/N); theta + v",
        {"lr": "h*N", "momentum": "1 - alpha", "T": "T"},
        {"h": "lr/N", "alpha": "1 - momentum", "T": "T"},
    ),
)


def facts(row: Mapping[str, Any], registry: Registry) -> dict[str, Any]:
    """Return, for `bench show RUN`, its first step, first draw and last step in every convention, or a note why not."""
    if row["steps"] > MAX_STEPS:
        return {
            "equivalents": [],
            "note": f"no equivalent step sizes: {row['steps']:,} steps are more than a run can have",
        }
    try:
        with plugin_code("the installed plugins"):
            return {"equivalents": _equivalents(row, registry)}
    except BenchError as error:
        return {"equivalents": [], "note": f"no equivalent step sizes: {error}"}


def _equivalents(row: Mapping[str, Any], registry: Registry) -> list[dict[str, Any]]:
    schedule = load(registry.target("schedules", row["schedule"]))(**json.loads(row["schedule_params"]))
    sizes = task_facts(registry.find("tasks", row["task"]), json.loads(row["task_params"]))
    steps, burn_in, thin = (row[name] // row["substeps"] for name in ("steps", "burn_in", "thin"))
    whole = schedule.trajectory(steps, sizes.steps_per_epoch).with_burn_in(burn_in, thin)
    trajectory = whole.divided(row["substeps"])
    friction = json.loads(row["sampler_params"]).get("friction")
    draws = trajectory.keep.nonzero()[0]
    rows: dict[Step, list[dict[str, Any]]] = {}
    for when, k in (("first step", 0), ("first draw", draws[0]), ("last step", -1)):
        h, T = float(trajectory.step_size[k]), float(trajectory.temperature[k])
        step = Step(h=h, T=T, N=sizes.terms, alpha=friction)
        if step not in rows:
            rows[step] = [
                {"at": when, "settings": settings_text(c.to(step)), "convention": c.name, "step": c.step}
                for c in CONVENTIONS
                if c.can_express(step)
            ]
    return [equivalent for each in rows.values() for equivalent in each]


def settings_text(settings: Mapping[str, float]) -> str:
    """Return settings as text with six digits: "lr = 0.1, T = 1"."""
    return ", ".join(f"{name} = {value:.6g}" for name, value in settings.items())


def formulas(by_name: Mapping[str, str]) -> str:
    """Return formulas as text; a symbol that is the same on both sides is left out."""
    texts = [f"{name} = {text}" for name, text in by_name.items() if name != text]
    return ", ".join(texts).replace("**", "^").replace("*", " ") or "the same"
