"""Natural-gradient variational inference with a mixture of Gaussians (Lin, Khan, Schmidt 2019): a baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class NGVI(Sampler):
    """Fits q = sum_c pi_c N(mu_c, P_c^-1) to exp(-U/T); each position is one draw from q. Not MCMC.

    With b = -U/T - log q, d_c = N(theta | c) / q(theta) and theta a draw from q, a step is, h being the learning rate,

        G_c              = -d_c Hess b
        P_c              <- P_c + h G_c + (h^2 / 2) G_c P_c^-1 G_c
        mu_c             <- mu_c + h P_c^-1 d_c grad b                (the new P_c)
        log (pi_c / pi_K) <- the same + h (d_c - d_K) b
        theta             ~ the new q

    The term in h^2 keeps P_c positive definite whatever G_c is. Hess log q is exact; Hess U is never asked for: by
    Stein's identity d_c Hess U has the mean of d_c P_c (theta - mu_c) grad U', made symmetric, under q. On a Gaussian,
    one component comes to the target itself. The draws are those of q: where exp(-U/T) is no such mixture, they have
    another law, and there is no stationary law to prove. h is a rate, the same on c U at c T.

    State: mu (C, K, D), P (C, K, D, D) and log pi (C, K). Costs D^3 K a step beside the one gradient.

    Source: W. Lin, M. E. Khan, M. Schmidt, "Fast and Simple Natural-Gradient Variational Inference with Mixture of
    Exponential-family Approximations", ICML 2019, section 4; the term in h^2 is that of W. Lin, M. Schmidt, M. E.
    Khan, "Handling the Positive-Definite Constraint in the Bayesian Learning Rule", ICML 2020. Verified against the
    authors' code (yorkerlin/VB-MixEF, mix_gauss_cvi.m), which has the same three updates in the same order, but 2 K
    draws a step, Hess U itself, a line search for P, and for pi a hundredth of the rate and a pull to equal shares.
    Start as in Kim et al. 2022, A.3.
    """

    step_unit: ClassVar[int] = 0
    zero_temperature: ClassVar[None] = None

    components: int = param(5, "[1, 100]", "K, components of q", source="Kim et al. 2022, A.3 (mixture)")
    spread: float = param(1.5, "(0, inf)", "variance of the first means about the start", source="Kim et al. 2022, A.3")
    scale: float = param(1.0, "(0, inf)", "first variance of each component", source="Kim et al. 2022, A.3")

    @classmethod
    def settings(cls, task: str) -> Mapping[str, object]:
        return {"schedule": "constant", "schedule.step_size": 0.005}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        import torch

        K, (C, D) = self.components, theta.shape
        means = noise.normal(theta[:, None].expand(C, K, D))
        P = torch.eye(D, dtype=theta.dtype, device=theta.device) / self.scale
        return {
            "mu": theta[:, None] + math.sqrt(self.spread) * means,
            "P": P.expand(C, K, D, D).clone(),
            "log_pi": theta.new_full((C, K), -math.log(K)),
        }

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        import torch

        mu, P, log_pi = state["mu"], state["P"], state["log_pi"]
        U, gradient = potential.value_and_grad(theta)
        rate, heat = (x.expand(len(theta), 1) for x in (h, T))
        log_q, d, push = _density(theta, mu, P, log_pi)
        r = d * log_pi.exp()
        score = -(r[..., None] * push).sum(1)  # grad log q
        hess_log_q = (r[..., None, None] * (_outer(push, push) - P)).sum(1) - _outer(score, score)
        slope = gradient / heat
        stein = _outer(push, slope[:, None].expand_as(push))
        G = d[..., None, None] * ((stein + stein.mT) / 2 + hess_log_q[:, None])
        G = rate[..., None, None] * G
        P = P + G + G @ _inverse(_root(P)) @ G / 2
        P = (P + P.mT) / 2
        root = _root(P)
        climb = rate[..., None] * d[..., None] * (-slope - score)[:, None]
        mu = mu + _solve(root, climb[..., None])[..., 0]
        b = -U / heat[:, 0] - log_q
        log_pi = torch.log_softmax(log_pi + rate * d * b[:, None], dim=1)

        below = log_pi.exp().cumsum(1)[:, :-1]
        chosen = (noise.uniform((len(theta), 1)) > below).sum(1)[:, None, None]
        center = mu.gather(1, chosen.expand(-1, 1, mu.shape[2]))[:, 0]
        factor = root.gather(1, chosen[..., None].expand(-1, 1, *root.shape[2:]))[:, 0]
        xi = noise.normal(theta)
        moved = center + torch.linalg.solve_triangular(factor.mT, xi[..., None], upper=True)[..., 0]
        return moved, {"mu": mu, "P": P, "log_pi": log_pi}

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if min(T) <= 0:
            raise UsageError("ngvi fits exp(-U/T): its schedule must keep the temperature above 0 at every step")

    def limit_bias(self) -> None:
        return None


def _density(theta: Tensor, mu: Tensor, P: Tensor, log_pi: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log q (C,), d = N(theta | c) / q (C, K), and P_c (theta - mu_c) (C, K, D)."""
    import torch

    apart = theta[:, None] - mu
    push = (P * apart[..., None, :]).sum(-1)
    log_det = 2 * _root(P).diagonal(dim1=-2, dim2=-1).log().sum(-1)
    log_n = (log_det - (apart * push).sum(-1) - theta.shape[1] * math.log(2 * math.pi)) / 2
    log_q = torch.logsumexp(log_pi + log_n, dim=1)
    return log_q, (log_n - log_q[:, None]).exp(), push


def _outer(a: Tensor, b: Tensor) -> Tensor:
    return a[..., :, None] * b[..., None, :]


def _root(P: Tensor) -> Tensor:
    """The Cholesky factor of each P (..., D, D); NaN where P is not positive definite, as it is in a lost chain."""
    import torch

    root, failed = torch.linalg.cholesky_ex(P)
    return root.mT.masked_fill(failed[..., None, None] > 0, math.nan).mT


def _solve(root: Tensor, b: Tensor) -> Tensor:
    """P^-1 b: the bits of `cholesky_solve`, which a GPU cannot record for several matrices."""
    import torch

    return torch.linalg.solve_triangular(root.mT, torch.linalg.solve_triangular(root, b, upper=False), upper=True)


def _inverse(root: Tensor) -> Tensor:
    """P^-1. A GPU cannot record `cholesky_inverse` for several matrices."""
    import torch

    if root.device.type == "cpu":
        return torch.cholesky_inverse(root)
    return _solve(root, torch.eye(root.shape[-1], dtype=root.dtype, device=root.device).expand_as(root))
