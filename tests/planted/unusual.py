"""Right samplers that are unusual: no law of `bench check` may find anything wrong with them."""

# ruff: noqa: F821 - names are defined by `defined` and used in texts
# fmt: off

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from harness import Sampler, param
from planted import maker
from planted.plain import ByTheNorm, Counting, Heated, Plain

defined = maker(globals())

# sgld that counts its steps, in a float and in an integer.
defined("FloatCounter", Counting, init="{'k': theta.new_zeros((len(theta), 1))}")
defined("IntegerCounter", Counting)
# The mean of the noise of this step and the one before: Leimkuhler and Matthews 2013.
defined("LeimkuhlerMatthews", Plain, init="{'xi': noise.normal(theta)}",
     step="xi = noise.normal(theta).expand_as(theta); "
     "theta - h * potential.grad(theta) + (2 * h * T).sqrt() * (xi + state['xi']) / 2, {'xi': xi}")


class OBABO(Sampler):
    """The textbook's splitting, with the gradient kept at the end of a step for the first kick of the next."""

    gradient_at: ClassVar = "end"
    share = 0.9

    @staticmethod
    def zero_temperature(sampler, theta, memory, g, h):
        root = sampler.share**0.5
        last = root * (memory["v"] - memory["h"] / 2 * g) if memory else 0 * g  # the kick that ended the step before
        v = root * last - h / 2 * g
        return theta + v, {"v": v, "h": h}

    def init(self, theta, potential, h, T, noise):
        return {"v": (h * T).sqrt() * noise.normal(theta), "g": potential.grad(theta)}

    def step(self, theta, state, potential, h, T, noise):
        root, heat = self.share**0.5, ((1 - self.share) * h * T).sqrt()
        v = root * state["v"] + heat * noise.normal(theta)
        v = v - h / 2 * state["g"]
        theta = theta + v
        g = potential.grad(theta)
        v = v - h / 2 * g
        return theta, {"v": root * v + heat * noise.normal(theta), "g": g}


# Position Verlet with friction: the gradient is taken half way between two draws.
defined("ABOBA", Sampler, zero_temperature=None, exempt={"potential": "the gradient is taken at the half-way position"},
     init="{'v': (h * T).sqrt() * noise.normal(theta)}",
     step="x = theta + state['v'] / 2; kick = h / 2 * potential.grad(x); "
     "v = 0.9 * (state['v'] - kick) + (0.19 * h * T).sqrt() * noise.normal(theta) - kick; x + v / 2, {'v': v}")
# Unadjusted: a normal move whose sign goes by the gradient. Livingstone and Zanella 2022. `0 * g`: a gradient that is
# lost loses the chain.
defined("Barker", Heated, step="move = (2 * h * T).sqrt() * noise.normal(theta); g = potential.grad(theta); "
     "ahead = noise.uniform(theta.shape) < torch.sigmoid(-move * g / T); "
     "theta + move.where(ahead, -move) + 0 * g, state")


class EulerSGHMC(Sampler):
    """SGHMC in the order of posteriors: the position moves by the velocity that the step began with."""

    alpha = 0.3

    @staticmethod
    def zero_temperature(sampler, theta, memory, g, h):
        v = memory.get("v", 0 * g)
        return theta + v, {"v": (1 - sampler.alpha) * v - h * g}

    def init(self, theta, potential, h, T, noise):
        return {"v": (h * T).sqrt() * noise.normal(theta)}

    def step(self, theta, state, potential, h, T, noise):
        kick = (2 * self.alpha * h * T).sqrt() * noise.normal(theta)
        return theta + state["v"], {"v": (1 - self.alpha) * state["v"] - h * potential.grad(theta) + kick}

    def limit_bias(self):
        return 1.0


# EulerSGHMC with its velocity in units of sqrt(h T): the noise of the velocity has no T in it.
defined("VelocityWithoutT", Heated, alpha=0.3, init="{'v': noise.normal(theta)}",
     step="push = (2 * self.alpha) ** 0.5 * noise.normal(theta) - (h / T).sqrt() * potential.grad(theta); "
     "theta + (h * T).sqrt() * state['v'], {'v': (1 - self.alpha) * state['v'] + push}")
# Leapfrog steps without a test, the velocity drawn anew with probability 0.2: randomised Hamiltonian dynamics. A fresh
# velocity gets half a kick. With a whole one the variance would tend to 1 - 0.2 / 2.
defined("Resampling", Heated, init="{'v': (h * T).sqrt() * noise.normal(theta)}",
     step="g, fresh = potential.grad(theta), (h * T).sqrt() * noise.normal(theta); "
     "v = (fresh - h / 2 * g).where(noise.uniform((len(theta), 1)) < 0.2, state['v'] - h * g); "
     "theta + v, {'v': v}")
# sgld with the constant matrix 1 + e e' / D in front of the gradient, and its root under the noise.
defined("Preconditioned", Sampler, zero_temperature=staticmethod(
        lambda _, theta, memory, g, h: (theta - h * (g + g.mean(1, keepdim=True)), memory)),
     step="g, xi = potential.grad(theta), noise.normal(theta).expand_as(theta); "
     "push = xi + (2**0.5 - 1) * xi.mean(1, keepdim=True); "
     "theta - h * (g + g.mean(1, keepdim=True)) + (2 * h * T).sqrt() * push, state")


class Diagonal(Sampler):
    """sgld with a step size of its own for every coordinate."""

    exempt: ClassVar = {"coordinates": "each coordinate has a step size of its own"}

    @staticmethod
    def zero_temperature(sampler, theta, memory, g, h):
        return theta - h * sampler.sizes(theta) * g, memory

    def sizes(self, theta):
        return 1 / (1 + torch.arange(theta.shape[1]).to(theta) % 3)

    def step(self, theta, state, potential, h, T, noise):
        M = self.sizes(theta)
        return theta - h * M * potential.grad(theta) + (2 * h * T * M).sqrt() * noise.normal(theta), state


# sgld that makes its normal numbers of uniform ones.
defined("BoxMuller", (Heated, Plain), xi="radius = (-2 * (1 - noise.uniform(theta.shape)).log()).sqrt(); "
     "(radius * (2 * torch.pi * noise.uniform(theta.shape)).cos()).to(theta.dtype)")
# sgld with a second replica in its state that is driven by the same noise with the other sign.
defined("Antithetic", Sampler, gradients_per_step=2, init="{'other': theta}",
     step="xi, other = (2 * h * T).sqrt() * noise.normal(theta), state['other']; "
     "theta - h * potential.grad(theta) + xi, {'other': other - h * potential.grad(other) - xi}")


@dataclass(frozen=True, kw_only=True)
class Mala(Heated):
    """Metropolis-adjusted Langevin on the full potential."""

    gradients_per_step: ClassVar = 0
    full_gradients_per_step: ClassVar = 1

    scale: float = param(1.0, "(0, inf)", "factor on the step size")

    def init(self, theta, potential, h, T, noise):
        U, g = potential.full.value_and_grad(theta)
        return {"U": U, "g": g}

    def log_q(self, there, back, h):
        return ((there.square() - back.square()) / (4 * h)).sum(1, keepdim=True)

    def step(self, theta, state, potential, h, T, noise):
        h = self.scale * h
        U, g = state["U"], state["g"]
        x = theta - h * g + (2 * h * T).sqrt() * noise.normal(theta)
        U_x, g_x = potential.full.value_and_grad(x)
        log_q = self.log_q(x - theta + h * g, theta - x + h * g_x, h)
        accept = noise.uniform((len(theta), 1)).log() < ((U - U_x)[:, None] + log_q) / T
        accept = accept | ~theta.isfinite().all(1, keepdim=True)
        return x.where(accept, theta), {"U": U_x.where(accept[:, 0], U), "g": g_x.where(accept, g)}


# sgld that moves each coordinate with probability one half.
defined("RandomScan", Heated, step="move = -h * potential.grad(theta) + (2 * h * T).sqrt() * noise.normal(theta); "
     "torch.where(noise.uniform(theta.shape) < 0.5, theta + move, theta + 0 * move), state")
# sgld that asks for all that a potential offers beside gradients, and makes nothing of the scores and the metric.
defined("Curious", Plain, needs=frozenset({"terms", "scores", "metric", "layout"}), gradients_per_step=2,
     zero_temperature=staticmethod(lambda _, theta, memory, g, h: (theta - h * g, memory)),
     exempt={"zero-temperature": "the rule is told the gradient in the metric"},
     step="mass = potential.layout.fill(lambda block: 0.0 * block.fan_in, theta) + 0 * potential.terms; "
     "nothing = 0 * (potential.scores(theta).sum(1) + potential.metric(theta)[1]); "
     "theta, state = super().step(theta, state, potential, h, T, noise); theta + mass + nothing, state")
# sgld with the mean of two gradient calls at one place.
defined("TwoGradients", Plain, gradients_per_step=2, gradient="(gradient + potential.grad(theta)) / 2")
# Two steps of half the size in one, each with a gradient of its own.
defined("TwoHalfSteps", Plain, gradients_per_step=2,
     exempt={"zero-temperature": "the second of its gradients is taken where no rule is told of it"},
     step="theta, _ = super().step(theta, state, potential, h / 2, T, noise); "
     "super().step(theta, state, potential, h / 2, T, noise)")

# sgld whose noise is antithetic from step to step: what a step adds, the next one takes back in part. In the long run
# the factor 1 / (1 - 0.3) makes it the noise of sgld.
defined("AntitheticSteps", Plain, init="{'xi': noise.normal(theta)}",
     step="xi = noise.normal(theta).expand_as(theta); mixed = (xi - 0.3 * state['xi']) / (1 - 0.3); "
     "theta - h * potential.grad(theta) + (2 * h * T).sqrt() * mixed, {'xi': xi}")


def turned(x):
    """S x for the antisymmetric S with 1 above the diagonal and -1 below it."""
    zero = torch.zeros_like(x[:, :1])
    return torch.cat([x[:, 1:], zero], 1) - torch.cat([zero, x[:, :-1]], 1)


# A drift that is not reversible: it also moves along the level sets of U. Hwang, Hwang-Ma and Sheu 1993.
defined("Skew", Sampler, exempt={"coordinates": "neighbouring coordinates drive each other"},
     zero_temperature=staticmethod(lambda _, theta, memory, g, h: (theta - h * (g + turned(g) / 2), memory)),
     step="g = potential.grad(theta); g = g + turned(g) / 2; "
     "theta - h * g + (2 * h * T).sqrt() * noise.normal(theta), state")


class MatrixFriction(Sampler):
    """sghmc with the friction matrix 0.2 (1 + e e' / D), and noise that goes with it."""

    @staticmethod
    def zero_temperature(_, theta, memory, g, h):
        v = memory.get("v", 0 * g)
        v = v - 0.2 * (v + v.mean(1, keepdim=True)) - h * g
        return theta + v, {"v": v}

    def init(self, theta, potential, h, T, noise):
        return {"v": (h * T).sqrt() * noise.normal(theta)}

    def step(self, theta, state, potential, h, T, noise):
        xi, v = noise.normal(theta).expand_as(theta), state["v"]
        kick = (0.4 * h * T).sqrt() * (xi + (2**0.5 - 1) * xi.mean(1, keepdim=True))
        v = v - 0.2 * (v + v.mean(1, keepdim=True)) - h * potential.grad(theta) + kick
        return theta + v, {"v": v}


class ColouredFriction(Sampler):
    """Generalised Langevin dynamics: friction and noise of the velocity pass through a second variable."""

    @staticmethod
    def zero_temperature(_, theta, memory, g, h):
        v = memory.get("v", 0 * g) - h * g + 0.5 * memory.get("z", 0 * g)
        return theta + v, {"v": v, "z": 0.7 * memory.get("z", 0 * g) - 0.5 * v}

    def init(self, theta, potential, h, T, noise):
        return {"v": (h * T).sqrt() * noise.normal(theta), "z": (h * T).sqrt() * noise.normal(theta)}

    def step(self, theta, state, potential, h, T, noise):
        v = state["v"] - h * potential.grad(theta) + 0.5 * state["z"]
        return theta + v, {"v": v, "z": 0.7 * state["z"] - 0.5 * v + (0.6 * h * T).sqrt() * noise.normal(theta)}


# Noise of two values, 1 and -1: a weak scheme of first order. Milstein and Tretyakov 2004.
defined("Rademacher", Plain, xi="torch.where(noise.uniform(theta.shape) < 0.5, -1.0, 1.0).to(theta.dtype)")
# Noise that is uniform, of variance 1.
defined("UniformNoise", Plain, xi="3**0.5 * (2 * noise.uniform(theta.shape) - 1).to(theta.dtype)")
# The posterior is tempered by the loss, U / T at temperature 1: h has no unit.
defined("TemperedLoss", Heated, step_unit=0,
     step="theta - h * potential.grad(theta) / T + (2 * h).sqrt() * noise.normal(theta), state")
# sgld that moves every other coordinate in a step, and the others in the next one.
defined("SystematicScan", Sampler, zero_temperature=None,
     exempt={"coordinates": "those with an even number are moved first"},
     init="{'on': (torch.arange(theta.shape[1]) % 2).to(theta).expand_as(theta).clone()}",
     step="on = state['on']; move = (2 * h * T).sqrt() * noise.normal(theta) - h * potential.grad(theta); "
     "theta + on * move, {'on': 1 - on}")
# sgld whose step size is drawn anew for each chain and step.
defined("RandomStepSize", Heated, step="h = 2 * h * noise.uniform((len(theta), 1)).to(theta.dtype); "
     "theta - h * potential.grad(theta) + (2 * h * T).sqrt() * noise.normal(theta), state")
# sgld that stays where it is with probability one half.
defined("Lazy", Heated, step="move = (2 * h * T).sqrt() * noise.normal(theta) - h * potential.grad(theta); "
     "theta + torch.where(noise.uniform((len(theta), 1)) < 0.5, move, 0 * move), state")
# Heun's scheme: the drift is the mean of those at both ends of an Euler step.
defined("Heun", Sampler, gradients_per_step=2, zero_temperature=None,
     step="g, kick = potential.grad(theta), (2 * h * T).sqrt() * noise.normal(theta); "
     "theta - h / 2 * (g + potential.grad(theta - h * g + kick)) + kick, state")


@dataclass(frozen=True, kw_only=True)
class Frozen(Sampler):
    """sgld preconditioned by the mean square of each coordinate's gradient as the burn-in leaves it."""

    adaptive: ClassVar = ("V", "M")
    step_unit: ClassVar = 0
    zero_temperature = None

    lam: float = param(0.1, "(0, inf)", "added to the size of the gradient", unit=1)

    def init(self, theta, potential, h, T, noise):
        return self.adapt({"V": potential.grad(theta).square()}, h, T)

    def step(self, theta, state, potential, h, T, noise):
        g, M = potential.grad(theta), state["M"]
        V = 0.99 * state["V"] + 0.01 * g.square()
        return theta - h * M * g + (2 * h * T * M).sqrt() * noise.normal(theta), {"V": V, "M": M}

    def adapt(self, state, h, T):
        return {**state, "M": 1 / (self.lam + state["V"].sqrt())}


class Controlled(Sampler):
    """sgld with the gradient that was full at a centre, which follows every fifth step: SVRG."""

    adaptive: ClassVar = ("centre", "mean")
    gradients_per_step = 2
    full_gradients_at_start = 1
    refresh_every = 5
    exempt: ClassVar = {"potential": "on a Gaussian the controlled gradient has no noise"}

    def init(self, theta, potential, h, T, noise):
        return {"centre": theta, "mean": potential.full.grad(theta)}

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta) - potential.grad(state["centre"]) + state["mean"]
        return theta - h * g + (2 * h * T).sqrt() * noise.normal(theta), state

    def refresh(self, theta, state, potential):
        return {"centre": theta, "mean": potential.full.grad(theta)}


class TwoTemperatures(Heated):
    """Two replicas, at T and 2 T, that swap; theta is the cold one."""

    gradients_per_step = 2
    gap = 2

    def init(self, theta, potential, h, T, noise):
        return {"hot": theta}

    def step(self, theta, state, potential, h, T, noise):
        hot = state["hot"]
        (U, g), (V, f) = potential.value_and_grad(theta), potential.value_and_grad(hot)
        swap = noise.uniform((len(theta), 1)) < ((U - V)[:, None] / (self.gap * T)).clamp(max=0).exp()
        x, y, g, f = hot.where(swap, theta), theta.where(swap, hot), f.where(swap, g), g.where(swap, f)
        x = x - h * g + (2 * h * T).sqrt() * noise.normal(theta)
        return x, {"hot": y - h * f + (4 * h * T).sqrt() * noise.normal(theta)}


class Tested(Heated):
    """A Metropolis kernel on the full potential, whose state has the energy and the gradient."""

    gradients_per_step: ClassVar = 0
    full_gradients_per_step: ClassVar = 1

    def init(self, theta, potential, h, T, noise):
        U, g = potential.full.value_and_grad(theta)
        return {"U": U, "g": g}

    def chosen(self, theta, state, x, new, log_ratio, noise):
        """The proposal x with its energy and gradient, or what was there."""
        yes = noise.uniform((len(theta), 1)).log() < log_ratio
        yes = yes | ~(theta + state["g"]).isfinite().all(1, keepdim=True)
        return x.where(yes, theta), {"U": new[0].where(yes[:, 0], state["U"]), "g": new[1].where(yes, state["g"])}


class LaplaceMomentum(Tested):
    """Hamiltonian dynamics with the kinetic energy |p|_1: every coordinate moves at the speed 1."""

    full_gradients_per_step: ClassVar = 5

    def momentum(self, u, T):
        return -T * (1 - u).log()

    def step(self, theta, state, potential, h, T, noise):
        U, g, x, u = state["U"], state["g"], theta, noise.uniform(theta.shape).to(theta.dtype)
        epsilon = (h * T).sqrt() * (0.5 + noise.uniform((len(theta), 1)).to(theta.dtype))
        sign = torch.where(noise.uniform(theta.shape) < 0.5, -1.0, 1.0).to(theta.dtype)
        first = p = sign * self.momentum(u, T)
        for _ in range(self.full_gradients_per_step):
            p = p - epsilon / 2 * g
            x = x + epsilon * p.sign()
            new, g = potential.full.value_and_grad(x)
            p = p - epsilon / 2 * g
        gap = new - U + (p.abs() - first.abs()).sum(1)
        return self.chosen(theta, state, x, (new, g), -gap[:, None] / T, noise)


class RandomLength(Tested):
    """Hamiltonian dynamics over 1 to 5 leapfrog steps."""

    full_gradients_per_step: ClassVar = 5

    def step(self, theta, state, potential, h, T, noise):
        length, epsilon, x, U, g = 5 * noise.uniform((len(theta), 1)), h.sqrt(), theta, state["U"], state["g"]
        first = p = T.sqrt() * noise.normal(theta)
        for k in range(self.full_gradients_per_step):
            half = p - epsilon / 2 * g
            ahead = x + epsilon * half
            energy, gradient = potential.full.value_and_grad(ahead)
            on = k <= length
            x, p = ahead.where(on, x), (half - epsilon / 2 * gradient).where(on, p)
            U, g = energy.where(on[:, 0], U), gradient.where(on, g)
        gap = U - state["U"] + (p.square() - first.square()).sum(1) / 2
        return self.chosen(theta, state, x, (U, g), -gap[:, None] / T, noise)


class Persistent(Tested):
    """Generalised Hamiltonian dynamics: one leapfrog step, a momentum that is renewed in part and turns at refusals."""

    turn = -1

    def init(self, theta, potential, h, T, noise):
        return {**super().init(theta, potential, h, T, noise), "p": T.sqrt() * noise.normal(theta)}

    def step(self, theta, state, potential, h, T, noise):
        epsilon, first = h.sqrt(), 0.8 * state["p"] + 0.6 * T.sqrt() * noise.normal(theta)
        half = first - epsilon / 2 * state["g"]
        x = theta + epsilon * half
        U, g = potential.full.value_and_grad(x)
        p = half - epsilon / 2 * g
        gap = U - state["U"] + (p.square() - first.square()).sum(1) / 2
        theta, kept = self.chosen(theta, state, x, (U, g), -gap[:, None] / T, noise)
        return theta, {**kept, "p": p.where((theta == x).all(1, keepdim=True), self.turn * first)}


class RandomWalk(Tested):
    """Metropolis's own proposal, by energies alone."""

    def step(self, theta, state, potential, h, T, noise):
        x = theta + (h * T).sqrt() * noise.normal(theta)
        U, g = potential.full.value_and_grad(x)
        return self.chosen(theta, state, x, (U, g), (state["U"] - U)[:, None] / T, noise)


class WithinBlocks(Tested):
    """Metropolis within Gibbs: first the coordinates with an even number are proposed and tested, then the others."""

    full_gradients_per_step: ClassVar = 2
    exempt: ClassVar = {"coordinates": "those with an even number are moved first"}

    def step(self, theta, state, potential, h, T, noise):
        kick = (2 * h * T).sqrt() * noise.normal(theta)
        for rest in range(2):
            x = theta + kick * (torch.arange(theta.shape[1]) % 2 == rest)
            U, g = potential.full.value_and_grad(x)
            theta, state = self.chosen(theta, state, x, (U, g), (state["U"] - U)[:, None] / T, noise)
        return theta, state


class Slice(Tested):
    """A slice along a random direction, with eight draws from an interval that shrinks. Neal 2003; if all eight are
    outside the slice the chain stays.
    """

    full_gradients_per_step: ClassVar = 8

    def offset(self, u):
        return u

    def step(self, theta, state, potential, h, T, noise):
        n = self.full_gradients_per_step
        u = noise.uniform((len(theta), n + 2)).to(theta.dtype)
        level = state["U"][:, None] - T * (1 - u[:, :1]).log()
        along = 4 * (h * T).sqrt() * noise.normal(theta)
        low = -self.offset(u[:, 1:2])
        high, done, x, U, g = 1 + low, low > 0, theta, state["U"], state["g"]
        for k in range(n):
            at = low + (high - low) * u[:, k + 2 : k + 3]
            tried = theta + at * along
            energy, gradient = potential.full.value_and_grad(tried)
            take = ~done & ~(energy[:, None] > level)
            x, U, g, done = tried.where(take, x), energy.where(take[:, 0], U), gradient.where(take, g), done | take
            low, high = at.where(at < 0, low), at.where(at > 0, high)
        return x, {"U": U, "g": g}


@dataclass(frozen=True, kw_only=True)
class Interacting(Heated):
    """Affine-invariant interacting Langevin: P particles share their covariance as the preconditioner.

    Garbuno-Inigo, Nuesken and Reich 2020, with 1 added to the covariance, so that few particles reach all directions.
    """

    particles: int = param(4, "[2, 100]", "P")

    @property
    def gradients_per_step(self):
        return self.particles

    def divergence(self, D):
        return (D + 1) / self.particles

    def ensemble(self, theta, state):
        return torch.cat([theta[:, None], state["others"]], 1)

    def init(self, theta, potential, h, T, noise):
        kick = noise.normal(theta[:, None].expand(-1, self.particles - 1, -1))
        return {"others": theta[:, None] + 0.1 * kick}

    def step(self, theta, state, potential, h, T, noise):
        x = self.ensemble(theta, state)
        P, D = x.shape[1:]
        g = torch.stack([potential.grad(one) for one in x.unbind(1)], 1)
        off = x - x.mean(1, keepdim=True)
        h, T = h[..., None], T[..., None]
        drift = g + ((g[:, :, None] * off[:, None]).sum(-1, keepdim=True) * off[:, None]).sum(2) / P
        shared = noise.normal(x[:, :, :1].expand(-1, -1, P))
        kick = noise.normal(x) + (shared[..., None] * off[:, None]).sum(2) / P**0.5
        x = x - h * (drift - T * self.divergence(D) * off) + (2 * h * T).sqrt() * kick
        return x[:, 0], {"others": x[:, 1:]}


UNUSUAL = [
    Plain, FloatCounter, IntegerCounter, LeimkuhlerMatthews, OBABO, ABOBA, Barker, EulerSGHMC, VelocityWithoutT,
    Resampling, Preconditioned, Diagonal, BoxMuller, Antithetic, Mala, Curious, RandomScan, TwoGradients, TwoHalfSteps,
    ByTheNorm, AntitheticSteps, Skew, MatrixFriction, ColouredFriction, Rademacher, UniformNoise, TemperedLoss,
    SystematicScan, RandomStepSize, Lazy, Heun, Frozen, Controlled, TwoTemperatures, LaplaceMomentum, RandomLength,
    Persistent, RandomWalk, WithinBlocks, Slice, Interacting,
]
