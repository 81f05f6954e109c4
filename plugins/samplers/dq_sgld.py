"""DQ-SGLD (Wang, Ding, Huggins 2026): a matrix step by which the noise of the minibatches is that of a chosen law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class DQSGLD(Sampler):
    """SGD whose matrix step turns the noise of the minibatches into a chosen covariance S; at h = 1 it adds no other.

        theta <- theta - h L g + sqrt(h (1 - h)) L M^(1/2) xi,    L = 2 S J M^-1,    M = C + J S J
        J = Hess U,  V = N cov(scores),  C = (N/n) V,  all at the mode;    S = T J^-1 or J^-1 V J^-1

    In the axes W with W' J W = I and W' V W = diag(v) all of these are diagonal, and the step is

        theta <- theta - 2 W (h r W' g - sqrt(h (1 - h) s r) Q' xi),    r = 1 / (1 + c/s)

    where S = W diag(s) W', W' C W = diag(c) and W = R Q with R R' = J^-1 and Q orthogonal.

    S is the covariance of the posterior in the normal approximation (`target=posterior`), or the sandwich, that of the
    mode from data set to data set, which differs where the model does not fit the data (`target=sandwich`; it has no
    T). Where U is quadratic and the noise of g has covariance C, S is the stationary covariance at *every* h up to 1,
    and that of theta_t+k and theta_t is (I - h L J)^k S: both are known before a run. For the sandwich I - h L J is the
    number 1 - 2 h n / (N + n), so at h = 1 N / n steps, a data pass, are worth an independent draw. As h -> 0 the step
    for the posterior is Langevin's, exact for any U.

    The noise is C if batches are drawn with replacement (`run.batch_order=replaced`). In the parts of a permutation the
    noises of an epoch cancel, and draws are too narrow. With all rows in every batch C is 0, L = 2 J^-1, and h = 1 is a
    reflection at the mode. C is that of the mode, without what the spread of theta adds to it. The step is that of the
    mode wherever the chain starts, and may diverge from afar. docs/misspecified.md has the variances that it reaches.

    Newton's method finds the mode; a step that does not lower U is undone and halved. State: W and Q (C, D, D), s and
    c/s (C, D), those at T = 1. One gradient a step; at the start two passes a Newton step and three more, and the
    scores of one batch. Not at T = 0.

    Source: Y. Wang, J. Ding, J. H. Huggins, "Accurate Large-sample Uncertainty Quantification using Stochastic Gradient
    Markov Chain Monte Carlo", ICML 2026, arXiv 2606.00293, by an outline of its equations. The equation of S, L J S + S
    J L' = L M L', is in the authors' code (wangyu1369/large-sample-sgmcmc-uq), with batches drawn with replacement. L =
    2 S J M^-1 solves it for any S; (S J + J S) M^-1 does for the posterior, but in general not for the sandwich. h < 1,
    with the noise that keeps S, is ours.
    """

    step_unit: ClassVar[int] = 0
    needs: ClassVar[frozenset[str]] = frozenset({"scores", "terms", "gauss_newton"})
    adaptive: ClassVar[tuple[str, ...]] = ("W", "Q", "s", "ratio")
    zero_temperature: ClassVar[None] = None

    target: str = param("posterior", choices=("posterior", "sandwich"), meaning="whose covariance S is", source="ours")
    newton: int = param(30, "[1, 1000]", "Newton steps that find the mode", source="ours")

    @property
    def exempt(self) -> Mapping[str, str]:  # type: ignore[override]
        """Of the sandwich, what is tested on a Gaussian whose scores at the mode are 0."""
        if self.target == "posterior":
            return {}
        return {"derived-law": "the laws' Gaussian fits its data: all scores at its mode are 0, and so is the sandwich"}

    @property
    def full_gradients_at_start(self) -> int:  # type: ignore[override]
        """Those of Newton's method, and U, Hessian and scores at its ends."""
        return 2 * self.newton + 3

    @classmethod
    def settings(cls, task: str) -> Mapping[str, object]:
        return {"schedule": "constant", "schedule.step_size": 1.0} if task.endswith("-misspecified") else {}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        import torch

        n, N = potential.scores(theta).shape[1], potential.terms
        mode = self.mode(theta, potential.full)
        scores = potential.full.scores(mode)
        scores = scores - scores.mean(1, keepdim=True)
        W, Q, v = axes(hessian(mode, potential.full), scores.mT @ scores)
        k = N / n if n < N else 0.0
        if self.target == "posterior":
            return {"W": W, "Q": Q, "s": torch.ones_like(v), "ratio": k * v}
        return {"W": W, "Q": Q, "s": v, "ratio": torch.full_like(v, k)}

    def mode(self, theta: Tensor, full: Potential) -> Tensor:
        """Return the mode (C, D) by Newton's method from theta."""
        import torch

        size = torch.ones_like(theta[:, :1])
        U, g = full.value_and_grad(theta)
        for _ in range(self.newton):
            step = torch.linalg.solve_ex(hessian(theta, full), g[:, :, None]).result[:, :, 0]
            tried = theta - size * step
            energy, slope = full.value_and_grad(tried)
            lower = (energy < U)[:, None]
            theta, g, U = tried.where(lower, theta), slope.where(lower, g), energy.where(lower[:, 0], U)
            size = (2 * size).clamp(max=1).where(lower, size / 2)
        return theta

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        W, heat = state["W"], T if self.target == "posterior" else 0 * T + 1
        share = 1 / (1 + state["ratio"] / heat)
        spread = (h * (1 - h)).clamp(min=0) * heat * state["s"] * share
        along = h * share * (W * potential.grad(theta)[:, :, None]).sum(1)
        along = along - spread.sqrt() * (state["Q"] * noise.normal(theta).expand_as(theta)[:, :, None]).sum(1)
        return theta - 2 * (W * along[:, None]).sum(2), state

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if max(h) > 1:
            raise UsageError(
                "dq-sgld keeps its covariance for step sizes up to 1, which need no noise but the batches'"
            )
        if min(T) <= 0:
            raise UsageError("dq-sgld has no T = 0: its schedule must keep the temperature above 0 at every step")

    def limit_bias(self) -> float | None:
        return 1.0 if self.target == "posterior" else None


def hessian(theta: Tensor, full: Potential) -> Tensor:
    """Return the Gauss-Newton matrix of U (C, D, D), which is its Hessian if the model is linear in theta.

    A direction on which U does not depend, of infinite variance, gets a curvature that is the rounding of the others'.
    """
    import torch

    blocks, prior = full.gauss_newton(theta, last_layer=False, full=True)
    (matrix,) = blocks[0]
    largest = matrix.diagonal(dim1=1, dim2=2).amax(1, keepdim=True)
    return matrix + (prior + torch.finfo(matrix.dtype).eps * largest).expand(matrix.shape[:2]).diag_embed()


def axes(J: Tensor, V: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return W and Q (C, D, D) and v (C, D) with W' J W = I and W' V W = diag(v); NaN for a chain that is lost.

    W = R Q with R R' = J^-1 and Q orthogonal; R Q f(v) Q' does not depend on the choice of Q where numbers of v agree.
    """
    import torch

    root = torch.linalg.cholesky_ex(J).L
    half = torch.linalg.solve_triangular(root, V, upper=False)
    matrix = torch.linalg.solve_triangular(root, half.mT, upper=False)
    known = matrix.isfinite().all(2).all(1)[:, None]
    matrix = (matrix + matrix.mT).where(known[:, :, None], 0) / 2
    size = matrix.abs().amax((1, 2))[:, None].clamp(min=torch.finfo(matrix.dtype).tiny)
    v, Q = torch.linalg.eigh(matrix / size[:, :, None])  # of numbers near 0, Q is not orthogonal
    W = torch.linalg.solve_triangular(root.mT, Q, upper=True)
    return W.where(known[:, :, None], torch.nan), Q, (size * v.clamp(min=0)).where(known, torch.nan)
