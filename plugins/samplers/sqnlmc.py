"""Stochastic quasi-Newton Langevin Monte Carlo (Simsekli et al. 2016): curvature from the history of the chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor

FLATTEST = 0.01
"""Least curvature y's / s's of a pair, in units of b, that enters H: a flatter one would make H explode."""


@dataclass(frozen=True, kw_only=True)
class SQNLMC(Sampler):
    """Langevin steps preconditioned by an L-BFGS inverse Hessian H, from the position M steps back (HAMCMC).

        theta_t = theta_{t-M} - h H g + sqrt(2 h T) S xi,    g = grad U(theta_{t-M}),  S S' = H,  xi ~ N(0, I)

    These are M interleaved chains, and H comes from the others: from theta_{t-2M+2} to theta_{t-2} without
    theta_{t-M}, nor any earlier position of the chain that moves. So exp(-U/T) needs no Gamma term, and is the target
    as h -> 0; with theta_{t-2M} in H it would not be, for at small h it is theta_{t-M} but for little. Each chain is
    sgld in the coordinates that make H the identity: with H held still, variance (T / lambda) / (1 - x/2) with x an
    eigenvalue of h H times the Hessian, stable for x < 2. h has no unit: about 1 is a Newton step once H is right.

    Step t adds a pair s = theta_{t-1} - theta_{t-M} and y, the difference of the gradients there, both on the batch of
    step t; H is BFGS from I / b through the pairs of the last M - 2 steps, the latest last. A pair of less curvature
    than b / 100 is left out. Through p = s / y's and q = y - sqrt(y's / s'Bs) B s, with B the inverse of H so far, S is
    a product of factors I - p q'. All of these are combinations of the pairs, g and xi: their products with each other
    are all that is asked of the D coordinates, so a step needs no further vectors, and what is left is small. b should
    be at least the largest curvature of U: the first steps are sgld with h / b.

    State: the M - 1 positions before the last, (C, M - 1, D), and the M - 2 pairs s and y. Two gradients a step: at
    theta_{t-1}, for the pair, and at theta_{t-M}.

    Source: U. Simsekli, R. Badeau, A. T. Cemgil, G. Richard, "Stochastic Quasi-Newton Langevin Monte Carlo", ICML 2016.
    Checked against its abstract only, which has no equation: the update, and H without theta_{t-M}, are from memory of
    section 3. Which pairs are taken, and on which batch, is ours (the paper's are of neighbouring positions); S is
    the product form of K. W. Brodlie, A. R. Gourlay, J. Greenstadt, 1973, derived anew.
    """

    step_unit: ClassVar[int] = 0
    gradients_per_step: ClassVar[int] = 2
    adaptive: ClassVar[tuple[str, ...]] = ("s", "y")
    zero_temperature: ClassVar[None] = None

    memory: int = param(5, "[3, 100]", "M, lag of the move; M - 2 pairs make H", source="ours")
    b: float = param(1.0, "(0, inf)", "curvature of U where no pair tells", unit=1, source="ours")

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        none = theta.new_zeros((len(theta), self.memory - 2, theta.shape[1]))
        return {"past": theta[:, None].repeat(1, self.memory - 1, 1), "s": none, "y": none}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        start = state["past"][:, 0]
        g_last, g = potential.grad(theta), potential.grad(start)
        blocks = [state["s"], state["y"], g[:, None], noise.normal(theta).expand_as(theta)[:, None]]
        *pairs, v, xi = known(blocks)
        factors = self.factors(pairs)
        for i in reversed(range(len(factors))):
            per_ys, q = factors[i]
            v = v - q * (per_ys * with_row(i, v))
        v = (2 * h * T).sqrt() * xi - h / self.b**0.5 * v
        for s_i, (per_ys, q) in zip(pairs, factors, strict=False):
            v = v - s_i * (per_ys * inner(q, v))
        lost = ~theta.isfinite().all(1, keepdim=True)  # a chain that is lost stays lost, and is seen to be
        rows = [row for block in blocks for row in block.unbind(1)]
        coordinates = (v[:, : len(rows)] / self.b**0.5).unbind(1)
        moved = start + sum(c[:, None] * row for c, row in zip(coordinates, rows, strict=True))
        new = {"past": theta, "s": theta - start, "y": g_last - g}
        return moved.where(~lost, theta), {name: append(state[name], row) for name, row in new.items()}

    def factors(self, pairs: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """1 / y's and q of each pair, oldest first, from all s and then all y; zeros for a pair that is left out."""
        terms: list[tuple[Tensor, ...]] = []
        K = self.memory - 2
        for i, (s_i, y_i) in enumerate(zip(pairs[:K], pairs[K:], strict=True)):
            Bs = self.b * s_i
            for y_j, (Bs_j, per_ys, per_sBs) in zip(pairs[K:], terms, strict=False):
                Bs = Bs + y_j * (with_row(i, y_j) * per_ys) - Bs_j * (with_row(i, Bs_j) * per_sBs)
            ys, sBs = with_row(i, y_i), with_row(i, Bs)
            steep = ys > FLATTEST * self.b * with_row(i, s_i)
            terms.append((Bs, *((1 / x.where(steep, 1)).where(steep, 0) for x in (ys, sBs))))
        return [
            (per_ys, y_i - (with_row(i, y_i) * per_sBs).sqrt() * Bs)
            for i, (y_i, (Bs, per_ys, per_sBs)) in enumerate(zip(pairs[K:], terms, strict=True))
        ]


def known(blocks: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """For each of n vectors, given in blocks (C, K, D), its coordinates among them and its products with all, (C, 2 n).

    Both are linear: of a sum of such vectors they are the sums.
    """
    import torch

    half = [[a @ b.mT for b in blocks[: i + 1]] for i, a in enumerate(blocks)]
    every = range(len(blocks))
    products = torch.cat([torch.cat([half[i][j] if j <= i else half[j][i].mT for j in every], 2) for i in every], 1)
    axes = torch.eye(products.shape[1], dtype=products.dtype, device=products.device).expand_as(products)
    return torch.cat([axes, products], 2).unbind(1)


def with_row(i: int, a: Tensor) -> Tensor:
    """The product (C, 1) of the i-th row with a, by what is known of a."""
    return a[:, a.shape[1] // 2 + i, None]


def inner(a: Tensor, b: Tensor) -> Tensor:
    """The product (C, 1) of a and b, by what is known of them."""
    n = a.shape[1] // 2
    return (a[:, :n] * b[:, n:]).sum(1, keepdim=True)


def append(rows: Tensor, row: Tensor) -> Tensor:
    """Rows (C, K, D) without the first, and one more (C, D) at the end."""
    import torch

    return torch.cat([rows[:, 1:], row[:, None]], 1)
