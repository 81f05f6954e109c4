"""Right samplers whose steps go by the blocks of a network: Kronecker factors and step sizes of layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from harness import Sampler, param


def power(M, p):
    """M^p of symmetric positive matrices (C, n, n), NaN for a chain that is lost: `eigh` would raise an error."""
    known = M.isfinite().all(2, keepdim=True).all(1, keepdim=True)
    values, vectors = torch.linalg.eigh(M.where(known, torch.eye(M.shape[1]).to(M)))
    root = (vectors * (p * values.log()).exp()[:, None]) @ vectors.mT  # not `pow`, whose bits depend on the chains
    return root.masked_fill(~known, torch.nan)


class Blocked(Sampler):
    """theta - h P g + sqrt(2 h T) P^1/2 xi, with P = R^2 and a root R for each block."""

    needs: ClassVar = frozenset({"layout"})
    exempt: ClassVar = {"coordinates": "each block has a preconditioner of its own"}
    zero_temperature = None
    step_unit: ClassVar = 0

    def root(self, state, name, x):
        """R x for the block of that name, a vector (C, n) or a matrix (C, m, n)."""

    def seen(self, state, name, G):
        """What the state has of a block after its gradient G."""
        return {}

    def step(self, theta, state, potential, h, T, noise):
        parts = potential.layout.split
        g, xi = parts(potential.grad(theta)), parts(noise.normal(theta).expand_as(theta))
        moves, new = [], dict(state)
        for name, G in g.items():
            push = (2 * h * T).sqrt() * self.root(state, name, xi[name]).flatten(1)
            moves.append(push - h * self.root(state, name, self.root(state, name, G)).flatten(1))
            new |= self.seen(state, name, G)
        return theta + torch.cat(moves, 1), new


@dataclass(frozen=True, kw_only=True)
class Shampoo(Blocked):
    """Shampoo's factors L of G G' and R of G' G, to the power -1/4, as the burn-in leaves them. Gupta et al. 2018."""

    adaptive: ClassVar = ("L.*", "R.*", "l.*", "r.*")

    eps: float = param(1e-4, "(0, inf)", "added to the factors", unit=2)

    def init(self, theta, potential, h, T, noise):
        g = potential.layout.split(potential.grad(theta))
        return self.adapt({key: of for name, G in g.items() for key, of in self.factors(name, G).items()}, h, T)

    def factors(self, name, G):
        return {f"L.{name}": G @ G.mT, f"R.{name}": G.mT @ G} if G.ndim > 2 else {f"L.{name}": G.square().diag_embed()}

    def seen(self, state, name, G):
        return {key: 0.99 * state[key] + 0.01 * of for key, of in self.factors(name, G).items()}

    def adapt(self, state, h, T):
        new = dict(state)
        for key, S in state.items():
            if key[0] in "LR":
                whole = -0.125 if f"R.{key[2:]}" in state else -0.25
                new[key[0].lower() + key[1:]] = power(S + self.eps * torch.eye(S.shape[1]).to(S), whole)
        return new

    def root(self, state, name, x):
        left, right = state[f"l.{name}"], state.get(f"r.{name}")
        return (left @ x[:, :, None])[:, :, 0] if right is None else left @ x @ right


@dataclass(frozen=True, kw_only=True)
class KFAC(Sampler):
    """The inverse of the Gauss-Newton matrix at the start as the preconditioner. Martens and Grosse 2015."""

    needs: ClassVar = frozenset({"gauss_newton"})
    full_gradients_at_start = 1
    adaptive: ClassVar = ("root",)
    zero_temperature = None
    step_unit: ClassVar = 0

    damping: float = param(1e-2, "(0, inf)", "added to the curvature", unit=1)

    def init(self, theta, potential, h, T, noise):
        factors, prior = potential.full.gauss_newton(theta, last_layer=False, full=True)
        ((G,),) = factors.values()
        return {"root": power(G + (prior + self.damping) * torch.eye(G.shape[1]).to(G), -0.5)}

    def step(self, theta, state, potential, h, T, noise):
        def times(x):
            return (state["root"] @ x[:, :, None])[:, :, 0]

        xi = noise.normal(theta).expand_as(theta)
        return theta - h * times(times(potential.grad(theta))) + (2 * h * T).sqrt() * times(xi), state


@dataclass(frozen=True, kw_only=True)
class Layers(Blocked):
    """A step size for each layer by the mean square of its gradient, as the burn-in leaves it."""

    adaptive: ClassVar = ("V.*", "M.*")

    lam: float = param(0.1, "(0, inf)", "added to the size of the gradient", unit=1)

    def init(self, theta, potential, h, T, noise):
        g = potential.layout.split(potential.grad(theta))
        return self.adapt({f"V.{name}": G.flatten(1).square().mean(1, keepdim=True) for name, G in g.items()}, h, T)

    def seen(self, state, name, G):
        return {f"V.{name}": 0.9 * state[f"V.{name}"] + 0.1 * G.flatten(1).square().mean(1, keepdim=True)}

    def adapt(self, state, h, T):
        V = {name[2:]: leaf for name, leaf in state.items() if name.startswith("V.")}
        return {**state, **{f"M.{name}": 1 / (self.lam + leaf.sqrt()) for name, leaf in V.items()}}

    def root(self, state, name, x):
        return state[f"M.{name}"].sqrt().view(-1, *[1] * (x.ndim - 1)) * x


KRONECKER = [Shampoo, KFAC, Layers]
