"""Draw docs/joint-error.svg and write its numbers into docs/joint-error.md: `python docs/site/joint_error.py`.

The chain is sgld on a normal distribution in two dimensions. Nothing is simulated: the matrix A and the stationary
covariance P of a step are derived from the sampler's code, and the error of averages follows from them. Along a
direction, let c(k) be the covariance of z at two draws k steps apart, in units of the truth's variance. The average of
n draws of z has the bias 0 and the variance S[c], and that of z^2, in units of its sd under the truth, the bias
(c(0) - 1) / sqrt 2 and the variance S[c^2], with S[c] = 1/n sum over |k| < n of (1 - |k|/n) c(k).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness import linear
from harness.reporting.rendering import figures
from harness.reports import Figure
from plugins.samplers.sgld import SGLD

Array = NDArray[np.float64]

DOCS = Path(__file__).resolve().parents[1]
CURVATURE = (1.0, 9.0)
TILT = np.pi / 6
"""Angle between the wide axis of the truth and the first coordinate."""
STEP, SMALL = 0.04, 0.005
DRAWS = 4_000
ANGLES = np.linspace(0, np.pi, 361)
BEGIN, END = "<!-- numbers: python docs/site/joint_error.py -->", "<!-- end of numbers -->"
BIAS, VARIANCE, TRUTH = "#c44e52", "#4c72b0", "#333333"


class Parts(NamedTuple):
    """Bias squared and variance of the averages along some directions, for the worse of z and z^2."""

    bias2: Array
    variance: Array

    @property
    def total(self) -> Array:
        """The error b2 along each direction."""
        return self.bias2 + self.variance


def parts(h: float, n: int, angles: Array = ANGLES) -> Parts:
    """Return the error of averages of n draws at step size h along the directions at these angles."""
    decay, spread = law(h)
    squares = np.stack([np.cos(angles - TILT) ** 2, np.sin(angles - TILT) ** 2])
    truth = squares.T @ (1 / np.array(CURVATURE))
    weights = squares * spread[:, None] / truth  # c(k) = sum_i weights_i decay_i^k
    of_z = sum(w * mean_of(a, n) for w, a in zip(weights, decay, strict=True))
    pairs = [(i, j) for i in range(2) for j in range(2)]
    of_z2 = sum(weights[i] * weights[j] * mean_of(decay[i] * decay[j], n) for i, j in pairs)
    bias2 = (weights.sum(axis=0) - 1) ** 2 / 2
    worse = bias2 + of_z2 > of_z
    return Parts(np.where(worse, bias2, 0.0), np.where(worse, of_z2, of_z))


@cache
def law(h: float) -> tuple[Array, Array]:
    """Return what a step keeps of each principal coordinate, and its stationary variance, from the sampler's code."""
    step = linear.derive(SGLD(), h, 1.0, CURVATURE)
    covariance = step.stationary()
    if covariance is None or not np.allclose(step.A, np.diag(np.diag(step.A))):
        raise ValueError(f"no stationary law at h = {h:g}")
    return np.diag(step.A), np.diag(covariance)


def mean_of(a: float, n: int) -> float:
    """Return 1/n sum over |k| < n of (1 - |k|/n) a^|k|: the variance of the average of n draws of an AR(1) process."""
    return ((1 + a) / (1 - a) - 2 * a * (1 - a**n) / (n * (1 - a) ** 2)) / n


def numbers() -> str:
    """Return what the page says of the picture, as a Markdown table."""
    rows = []
    for h in (STEP, SMALL):
        there = parts(h, DRAWS)
        k = int(there.total.argmax())
        values = (there.total[k], there.bias2[k], there.variance[k])
        rows.append(f"| {h:g} | {' | '.join(f'{value:.4f}' for value in values)} | {np.degrees(ANGLES[k]):.0f}° |")
    head = "| step size h | joint error | bias² | variance | worst direction |\n| ---: | ---: | ---: | ---: | ---: |"
    return "\n".join([head, *rows])


def page(text: str) -> str:
    """Return the page with the numbers between its marks."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{numbers()}\n{END}{rest.partition(END)[2]}"


def draw(canvas: Any) -> None:
    """Draw three panels: two laws, the error by direction, the error by the number of draws."""
    laws, directions, costs = canvas.subplots(1, 3)
    _laws(laws)
    _directions(directions)
    _costs(costs)


def _laws(axes: Any) -> None:
    around = np.linspace(0, 2 * np.pi, 200)
    turn = np.array([[np.cos(TILT), -np.sin(TILT)], [np.sin(TILT), np.cos(TILT)]])
    sampled = 2 * np.sqrt(law(STEP)[1])
    for size, colour, label in ((2 / np.sqrt(CURVATURE), TRUTH, "posterior"), (sampled, BIAS, f"sgld, h = {STEP:g}")):
        x, y = turn @ (np.asarray(size)[:, None] * np.stack([np.cos(around), np.sin(around)]))
        axes.plot(x, y, color=colour, label=label)
    worst = ANGLES[parts(STEP, DRAWS).total.argmax()]
    tip = np.array([np.cos(worst), np.sin(worst)])
    axes.annotate("worst\ndirection", xy=(0, 0), xytext=1.7 * tip, color=BIAS, ha="center", va="center",
                  arrowprops={"arrowstyle": "<-", "color": BIAS})  # fmt: skip
    axes.set(title="Two sd of the posterior and of the draws", aspect="equal", xlim=(-2.3, 2.3), ylim=(-2.3, 2.3))
    axes.legend(frameon=False, loc="lower right", fontsize="small")


def _directions(axes: Any) -> None:
    there, degrees = parts(STEP, DRAWS), np.degrees(ANGLES)
    axes.stackplot(degrees, there.variance, there.bias2, colors=(VARIANCE, BIAS), alpha=0.75, linewidth=0,
                   labels=("variance", "bias²"))  # fmt: skip
    worst = there.total.argmax()
    axes.plot(degrees, there.total, color=TRUTH, linewidth=1)
    axes.plot(degrees[worst], there.total[worst], "o", color=TRUTH)
    axes.annotate(f"joint error {there.total[worst]:.3f}", (degrees[worst], there.total[worst]), (0, 6),
                  textcoords="offset points", ha="center")  # fmt: skip
    axes.set(title=f"Error after {DRAWS:,} draws, by direction", xlabel="direction (degrees)", ylabel="error",
             xlim=(0, 180), ylim=(0, 1.25 * there.total.max()), xticks=range(0, 181, 45))  # fmt: skip
    axes.legend(frameon=False, loc="upper left", fontsize="small")


def _costs(axes: Any) -> None:
    counts = np.geomspace(300, 1e6, 60).astype(int)
    for h, colour in ((STEP, BIAS), (SMALL, VARIANCE)):
        errors = [parts(h, int(n)).total.max() for n in counts]
        axes.loglog(counts, errors, color=colour)
        axes.annotate(f"h = {h:g}", (counts[44], errors[44]), (4, 5), textcoords="offset points", color=colour,
                      fontsize="small")  # fmt: skip
    axes.loglog(counts, 1 / counts, "--", color=TRUTH, linewidth=1)
    axes.annotate("independent draws", (counts[22], 1 / counts[22]), (4, 4), textcoords="offset points",
                  color=TRUTH, fontsize="small")  # fmt: skip
    axes.axhline(0.01, color="#999999", linewidth=0.8)
    axes.annotate("low error, 0.01", (counts[0], 0.01), (0, 3), textcoords="offset points", color="#666666",
                  fontsize="small")  # fmt: skip
    axes.set(title="Joint error against cost", xlabel="draws", ylabel="joint error")


PICTURE = Figure("joint-error", draw, size=(12.0, 3.9))

if __name__ == "__main__":
    (image,) = figures.drawn(PICTURE, "svg")
    (DOCS / "joint-error.svg").write_bytes(image)
    path = DOCS / "joint-error.md"
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
