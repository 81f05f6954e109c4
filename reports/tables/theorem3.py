"""Theorems 3.1 and 3.2 of the adaptive-drift paper on a Gaussian: the limits of the averages of msgld and asgld."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness import Result, Trajectory, linear
from harness.reports import Column, Report, Request, Table

if TYPE_CHECKING:
    from harness.reports import Store

STEP_SIZES = (0.0003, 0.001, 0.003)
A, BETA1 = 1.0, 0.9
"""Bias factor and smoothing factor of both samplers."""

NOTHING = 0.01
"""An error below this would be taken for one that vanishes; it is 25 times smaller than the errors that are found."""

FIRST, STRETCHES, LENGTH = 0.01, 8, 2000
"""Decreasing steps: 0.01 for 2,000 steps, half of it for 4,000, and so on, so that each stretch has the same sum."""


class Theorem3(Report):
    """msgld and asgld on U = x^2 / 2 at T = 1, with exact gradients: phi = x^2, whose average is 1.

    Both theorems say that E|phi_L - phi|^2 is O(epsilon^2) as L grows if the step epsilon is constant (i), and tends to
    0 if the steps decrease, their sum grows without limit and sum epsilon^2 / sum epsilon tends to 0 (ii). phi_L is the
    average weighted by the steps. As L grows its squared error tends to (P - 1)^2, where P is the stationary variance.

    msgld is linear, so P follows exactly from its step, and so do moments along decreasing steps. P tends to
    1 / (1 + a). asgld is not linear: for small steps m and V are g and g^2, so its drift is the gradient of
    x^2 / 2 + a sqrt(x^2 + lam), and P is the variance of that density, by quadrature. In both, the added drift does not
    vanish with epsilon; the proofs bound its size and treat it as an error of mean zero.
    """

    name: ClassVar[str] = "theorem3"

    def build(self, store: Store, request: Request) -> Result:
        limit = (asgld_variance() - 1) ** 2
        records = [_constant(msgld_errors()), _record("msgld", "(ii)", falling_error(), "as the steps fall")]
        records += [
            _record("asgld", "(i)", limit, "for small steps"),
            _record("asgld", "(ii)", limit, "as the steps fall"),
        ]
        shown = [
            Column("table", "theorem"),
            Column("part", "part"),
            Column("method", "of"),
            Column("finding", "finding"),
        ]
        shown += [Column("error", "squared error of x^2", "right", ".3f"), Column("evidence", "why")]
        note = f"N(0, 1), T = 1, a = {A:g}, beta1 = {BETA1:g}; exact, no run"
        return Result([Table("Theorems 3.1 and 3.2", shown, records, [note])], records)


def msgld_errors() -> NDArray[np.float64]:
    """Return (P - 1)^2 of msgld at each constant step."""
    variances = [linear.stationary_variance(_sampler("msgld", a=A, beta1=BETA1), h, 1.0) for h in STEP_SIZES]
    return (np.array(variances, dtype=np.float64) - 1) ** 2


def falling_error() -> float:
    """Return (P - 1)^2 of msgld after decreasing steps from the target's law, the limit of the weighted average."""
    h = np.concatenate([np.full(LENGTH * 2**j, FIRST / 2**j) for j in range(STRETCHES)])
    everywhere = np.ones(len(h), dtype=bool)
    path = Trajectory(h, np.ones(len(h)), everywhere, ~everywhere, np.zeros(len(h), dtype=int), ~everywhere)
    P = linear.propagate(_sampler("msgld", a=A, beta1=BETA1), path, (1.0,), np.diag([1.0, 0.0]))[:, 0, 0]
    return float((P[-1] - 1) ** 2)


def asgld_variance() -> float:
    """Return the variance of the density exp(-(x^2 / 2 + a sqrt(x^2 + lam)))."""
    from scipy.integrate import quad

    lam = _sampler("asgld").lam
    moments = [
        quad(lambda x, k=k: x**k * np.exp(-(x * x / 2 + A * np.sqrt(x * x + lam))), 0, 12, points=[1e-3, 0.1])[0]
        for k in (0, 2)
    ]
    return float(moments[1] / moments[0])


def _constant(errors: NDArray[np.float64]) -> dict[str, Any]:
    fitted = float(np.polyfit(np.log(STEP_SIZES), np.log(errors), 1)[0])
    how = f"for small steps (fitted exponent {abs(fitted):.2f}, the theorem's 2)"
    return _record("msgld", "(i)", float(errors[0]), how)


def _record(method: str, part: str, error: float, how: str) -> dict[str, Any]:
    theorem = {"msgld": "Theorem 3.1", "asgld": "Theorem 3.2"}[method]
    evidence = f"on N(0, 1) with a = {A:g} the squared error of the average of x^2 tends to {error:.2f} {how}, not to 0"
    return {
        "table": theorem, "part": part, "method": method, "error": error, "evidence": evidence,
        "finding": "fails" if error > NOTHING else "holds",
    }  # fmt: skip


def _sampler(name: str, **parameters: Any) -> Any:
    return Request().plugin("samplers", name, **parameters)
