"""Bias and mean squared error of csgld on a Gaussian, exact, beside the rates of Theorem 1; no run is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness import Result, linear
from harness.reports import Column, Figure, Report, Request, Table
from reports.figures.parts import legend_below, name_figure
from reports.tables import appendices
from reports.tables.appendices import CYCLE, START, STEPS, VARIANTS, cyclical

if TYPE_CHECKING:
    from harness.reports import Store

Array = NDArray[np.float64]

STEP_SIZES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
SMALL = STEP_SIZES[:4]
"""The step sizes to which rates are fitted."""

TIME = 200.0
"""The alpha_0 K at which the law of a step is compared with the target: long after its start, at the end of a cycle."""

TOLERANCE = 0.1
"""Largest shortfall of a fitted exponent against the theorem's, which holds in a limit; the fit uses a few points."""

CAPTION = (
    "csgld on a standard normal, exact: bias and mean squared error of the average of x^2 over the draws kept by step "
    "K, and the distance of the law of each step from the target. Dotted: the rate 1/K. Colours: the first step size."
)
KINDS = {"noise always on": True, "T = 0 while it explores": False}


@dataclass(frozen=True)
class Errors:
    """The errors of the average of x^2 over the draws kept by step K (n,): signed bias and mean squared error.

    `limit` is the bias as K grows, which is that of the last cycle alone; `distance` is W2 from the law of each step to
    the target (K,).
    """

    steps: Array
    bias: Array
    mse: Array
    limit: float
    distance: Array


class Theorem1(Report):
    """sgld under the cyclical schedule on U = x^2 / 2, from N(0, 10): phi = x^2, whose average is 1.

    The law of every step is normal with mean 0 and variance P_k, by propagated covariances, so E phi_k = P_k exactly;
    and with a_k the factor of step k, Cov(phi_j, phi_k) = 2 (a_{j+1} ... a_k P_j)^2, so the mean squared error of the
    average is exact too. (E x has no bias on a Gaussian.) Theorem 1 bounds the bias by O(1/(alpha_0 K) + alpha_0) and
    the mean squared error by O(1/(alpha_0 K) + alpha_0^2). The remainder as K grows, and the part beyond it, are fitted
    separately. The proof has noise in every step, the algorithm has none while it explores: both are shown, with cycles
    of 50 steps. Without noise the variance shrinks in each exploration, and steps so small that the rest of the cycle
    does not restore it leave a bias that grows as alpha_0 falls. Wasserstein-2 from N(0, P) to N(0, 1) is |sqrt P - 1|.
    Theorem 2 bounds it, with exact gradients and at the end of a cycle, by C_3 exp(-K alpha_0 / (2 C_4)) + (6 + C_2 K
    alpha_0 / 2)^(1/2) [(3 C_1 alpha_0^2 K / 8)^(1/2) + (3 C_1 alpha_0^2 K / 16)^(1/4)]: at a large fixed alpha_0 K it
    falls at least as fast as alpha_0^(1/4). Appendices E and G have a table of their own (`reports.tables.appendices`).
    """

    name: ClassVar[str] = "theorem1"

    def build(self, store: Store, request: Request) -> Result:
        by_size = {(kind, a): errors(a, noise=noise) for kind, noise in KINDS.items() for a in STEP_SIZES}
        rates = [row for kind in KINDS for row in _rates(kind, by_size)]
        shown = [Column("kind", "csgld"), Column("of", "of"), Column("against", "against")]
        shown += [Column(key, key, "right", ".2f") for key in ("fitted", "theorem")]
        others = [*appendices.comparisons(), *appendices.bounds()]
        records = [*rates, *_findings(rates), *others, *(_record(kind, a, e) for (kind, a), e in by_size.items())]
        figure = Figure("theorem1", lambda canvas: _draw(canvas, by_size), (10.8, 6.6), CAPTION)
        note = (
            f"limits: of the last of {STEPS // CYCLE} cycles of {CYCLE} steps, fitted over alpha_0 to {SMALL[-1]:g}; "
            f"what is beyond them: fitted over K from {STEPS // 4:,} at alpha_0 = {STEP_SIZES[2]:g}; on log scales"
        )
        names = {"table": "in", "of": "of", "finding": "finding", "evidence": "why"}
        appendix = Table("Appendices E and G", [Column(*pair) for pair in names.items()], others)
        return Result([Table("Rates", shown, rates, [note]), appendix], records, [figure])


def errors(step_size: float, *, noise: bool, steps: int = STEPS) -> Errors:
    """Return the exact errors of csgld with this alpha_0; with `noise`, all steps have T = 1 and all draws are kept."""
    trajectory = cyclical(step_size, CYCLE, steps, noise=noise)
    sampler = Request().plugin("samplers", "sgld")
    P = linear.propagate(sampler, trajectory, (1.0,), np.array([[START]]))[:, 0, 0]
    factors = np.array([step.A[0, 0] for step in linear.along(sampler, trajectory, (1.0,))])
    return _errors(P, factors, trajectory.keep)


def _errors(P: Array, factors: Array, keep: NDArray[np.bool_]) -> Errors:
    """Return the errors of averages over the kept steps, from the variances P_k and factors a_k of all steps.

    With R_k = sum over kept j < k of (a_{j+1} ... a_k P_j)^2 = a_k^2 (R_{k-1} + P_{k-1}^2 [k-1 kept]), the variance of
    the sum over kept draws is sum_k (2 P_k^2 + 4 R_k).
    """
    earlier, before, R = 0.0, 0.0, np.empty_like(P)
    for k, (a, p, kept) in enumerate(zip(factors.tolist(), P.tolist(), keep.tolist(), strict=True)):
        earlier = a * a * (earlier + before)
        R[k] = earlier
        before = p * p if kept else 0.0
    n = np.cumsum(keep)[keep]
    bias = np.cumsum((P - 1)[keep]) / n
    variance = np.cumsum((2 * P**2 + 4 * R)[keep]) / n**2
    limit = float((P - 1)[-CYCLE:][keep[-CYCLE:]].mean())
    steps = np.asarray(np.flatnonzero(keep) + 1, dtype=np.float64)
    return Errors(steps, bias, variance + bias**2, limit, np.abs(np.sqrt(P) - 1))


def _rates(kind: str, by_size: dict[tuple[str, float], Errors]) -> list[dict[str, Any]]:
    middle = by_size[kind, STEP_SIZES[2]]
    late = middle.steps >= STEPS // 4
    limits = np.array([abs(by_size[kind, a].limit) for a in SMALL])
    distances = np.array([by_size[kind, a].distance[round(TIME / a) - 1] for a in SMALL])
    K, sizes = middle.steps[late], np.array(SMALL)
    return [
        _rate(kind, "bias beyond its limit", "K", K, np.abs(middle.bias - middle.limit)[late], -1.0),
        _rate(kind, "limit of the bias", "alpha_0", sizes, limits, 1.0),
        _rate(kind, "mean squared error beyond its limit", "K", K, (middle.mse - middle.limit**2)[late], -1.0),
        _rate(kind, "limit of the mean squared error", "alpha_0", sizes, limits**2, 2.0),
        _rate(kind, "Wasserstein-2 of a step's own law", "alpha_0", sizes, distances, 0.25),
    ]


def _rate(kind: str, of: str, against: str, x: Array, y: Array, theorem: float) -> dict[str, Any]:
    fitted = float(np.polyfit(np.log(x), np.log(y), 1)[0])
    return {"kind": kind, "of": of, "against": against, "fitted": fitted, "theorem": theorem}


def _findings(rates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ledger's findings on the theorems' claims, for the proven variant and for the algorithm itself."""
    fitted = {(rate["kind"], rate["of"]): rate["fitted"] for rate in rates}
    parts = {
        "bias": ("Theorem 1", "bias beyond its limit", "limit of the bias", 1.0),
        "MSE": ("Theorem 1", "mean squared error beyond its limit", "limit of the mean squared error", 2.0),
        "Wasserstein-2 distance": ("Theorem 2", "", "Wasserstein-2 of a step's own law", 0.25),
    }
    by_size = []
    for kind, how in zip(KINDS, VARIANTS, strict=True):
        for of, (table, over_k, over_alpha, rate) in parts.items():
            texts = [f"{fitted[kind, over_k]:.2f} over K (the theorem's -1)"] if over_k else []
            least = "at least " if table == "Theorem 2" else ""
            texts.append(f"{fitted[kind, over_alpha]:.2f} over alpha_0 (the theorem's {least}{rate:g})")
            kept = fitted[kind, over_alpha] > rate - TOLERANCE and (not over_k or fitted[kind, over_k] < TOLERANCE - 1)
            by_size.append(
                {
                    "table": table, "of": of, "variant": how, "finding": "holds" if kept else "fails",
                    "evidence": f"fitted exponents on N(0, 1): {' and '.join(texts)}",
                }
            )  # fmt: skip
    return by_size


def _record(kind: str, step_size: float, e: Errors) -> dict[str, Any]:
    return {
        "kind": kind, "alpha_0": step_size, "steps": int(e.steps[-1]), "bias": float(e.bias[-1]),
        "bias_limit": e.limit, "mse": float(e.mse[-1]), "wasserstein2": float(e.distance[-1]),
    }  # fmt: skip


def _draw(canvas: Any, by_size: dict[tuple[str, float], Errors]) -> None:
    import matplotlib as mpl

    axes = canvas.subplots(2, 3, squeeze=False, sharey="col")
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.9, len(STEP_SIZES)))
    names = ("|bias|", "mean squared error", "Wasserstein-2 of a step's own law")
    for line, kind in zip(axes, KINDS, strict=True):
        for a, colour in zip(STEP_SIZES, colours, strict=True):
            e = by_size[kind, a]
            at = np.unique(np.geomspace(1, len(e.steps), 400).round().astype(int)) - 1
            line[0].plot(e.steps[at], np.abs(e.bias[at]), color=colour, label=f"{a:g}")
            line[1].plot(e.steps[at], e.mse[at], color=colour)
            if a in (0.01, 0.05, 0.2):  # more lines would hide each other
                line[2].plot(np.arange(1, 601), e.distance[:600], color=colour, linewidth=1)
        guide = np.array([2e2, 2e4])
        for ax, height in zip(line[:2], (3e3, 2e3), strict=True):
            ax.plot(guide, height / guide, color="0.5", linestyle=":")
            ax.annotate("1/K", (guide[0] * 3, height / guide[0] / 3), xytext=(4, 4), textcoords="offset points")
            ax.set_xscale("log")
        for ax, name in zip(line, names, strict=True):
            ax.set(yscale="log", xlabel="step K", title=f"{name}\n{kind}")
            ax.grid(color="0.9")
        line[0].set_ylim(bottom=1e-3)
        line[1].set_ylim(bottom=1e-4)
        line[2].set_ylim(bottom=1e-3)
    name_figure(canvas, "csgld on a standard normal, exact; dotted: the rate 1/K")
    handles = axes[0][0].get_legend_handles_labels()
    legend_below(canvas, dict(zip(*reversed(handles), strict=True)), r"first step size $\alpha_0$")
