"""Samplers that try to get gradients that nobody counts, data, or noise: each is stopped, in each mode of execution."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
import torch
from support import make_loop, run_loop
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from harness import Sampler
from harness.engine.linear import QuadraticPotential
from harness.engine.stepping import execution_mode
from harness.engine.stepping.making import UncompiledError
from harness.system.errors import PluginError
from plugins.schedules.constant import Constant
from tasks.synthetic.mixture5 import Mixture5

compiled = pytest.mark.skipif(execution_mode.obstacle() is not None, reason=f"compiled: {execution_mode.obstacle()}")
MODES = ["plain", pytest.param("scan", marks=compiled), pytest.param("update", marks=compiled)]
KEPT = {}
"""What the samplers here smuggle from one call to the next."""


@dataclass(frozen=True, kw_only=True)
class Honest(Sampler):
    """SGLD; `ask` is where others cheat."""

    def step(self, theta, state, potential, h, T, noise):
        return theta - h * self.ask(potential, theta) + (2 * h * T).sqrt() * noise.normal(theta), state

    def ask(self, potential, theta):
        return potential.grad(theta)


def loop_of(sampler, steps=4, mode="plain", monkeypatch=None, **more):
    if mode == "update":
        monkeypatch.setattr(execution_mode, "LARGE", 1)
    executed = "plain" if mode == "plain" else "compiled"
    return make_loop(Mixture5(), sampler, Constant(step_size=0.01), steps, mode=executed, **more)


def cheating(ask):
    """An SGLD whose gradient comes from a call of `ask(potential, theta)`."""
    return type("Cheating", (Honest,), {"ask": staticmethod(ask)})()


class Wide(torch.Tensor):
    """A tensor that claims to be smaller than it is."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def shape(self):
        return torch.Size((1, 2))


def differentiated(potential, theta):
    with torch.enable_grad():
        x = theta.clone().requires_grad_()
        return torch.autograd.grad(potential.grad(x).sum(), x)[0]


def dual(potential, theta):
    with forward_ad.dual_level():
        return potential.grad(forward_ad.make_dual(theta, torch.ones_like(theta)))


def forward(potential, theta):
    return torch.func.jvp(potential.grad, (theta,), (torch.ones_like(theta),))[1]


def many(theta):
    return theta.expand(64, *theta.shape)


MORE_THAN_ONE = {
    "64 rows a chain": lambda p, theta: p.grad(theta.repeat(64, 1))[: len(theta)],
    "rows, with the energy": lambda p, theta: p.value_and_grad(theta.repeat(64, 1))[1][: len(theta)],
    "another axis": lambda p, theta: p.grad(theta.expand(64, *theta.shape)).mean(0),
    "vmap": lambda p, theta: torch.func.vmap(p.grad)(many(theta)).mean(0),
    "autograd": differentiated,
    "torch.func.vjp": lambda p, theta: torch.func.vjp(p.grad, theta)[1](theta)[0],
    "torch.func.jvp": forward,
    "forward mode": dual,
    "a tensor that lies": lambda p, theta: p.grad(theta.repeat(64, 1).as_subclass(Wide)).as_subclass(torch.Tensor)[:1],
    "recorded by make_fx": lambda p, theta: make_fx(p.grad)(theta)(theta),
    "recorded by jit": lambda p, theta: torch.jit.trace(p.grad, theta, check_trace=False)(theta),
}


@pytest.mark.parametrize("ask", MORE_THAN_ONE.values(), ids=MORE_THAN_ONE)
@pytest.mark.filterwarnings("ignore")
def test_a_call_gives_one_gradient_a_chain(ask):
    with pytest.raises(PluginError, match=r"Cheating asks for a gradient.*test_unpaid_gradients\.py:\d+\)"):
        run_loop(loop_of(cheating(ask), chains=1))


def test_full_gradients_are_counted_however_they_are_reached():
    class Fuller(Honest):
        gradients_per_step, full_gradients_per_step = 0, 1

        def ask(self, potential, theta):
            potential.full.full.grad(theta)
            return potential.full.grad(theta)

    with pytest.raises(PluginError, match=r"its step makes \(0, 2\) calls"):
        loop_of(Fuller())


@pytest.mark.parametrize("where", ["init", "refresh"])
def test_rows_are_refused_in_every_call(where):
    class Elsewhere(Honest):
        refresh_every = 2

        def init(self, theta, potential, h, T, noise):
            if where == "init":
                potential.full.grad(theta.repeat(64, 1))
            return {}

        def refresh(self, theta, state, potential):
            potential.full.grad(theta.repeat(64, 1))
            return state

    with pytest.raises(PluginError, match="Elsewhere asks for a gradient at a tensor of shape"):
        run_loop(loop_of(Elsewhere(), chains=1))


def test_what_a_sampler_is_handed_offers_the_contract_and_nothing_else():
    class Curious(Honest):
        def init(self, theta, potential, h, T, noise):
            return self.look(potential, h, T, noise)

        def step(self, theta, state, potential, h, T, noise):
            self.look(potential, h, T, noise)
            return super().step(theta, state, potential, h, T, noise)

        def refresh(self, theta, state, potential):
            potential.full.grad(theta)
            return self.look(potential)

        refresh_every = 2

        def look(self, potential, *others):
            *numbers, noise = others or (None,)
            for handed, offered in (
                (potential, {"grad", "value_and_grad", "full", *QuadraticPotential.provides}),
                (potential.full, {"grad", "value_and_grad", "full", *QuadraticPotential.provides}),
                (noise, {"normal", "uniform"}),
            ):
                if handed is None:
                    continue
                names = {name for name in dir(handed) if name not in dir(type("", (), {"__slots__": ()}))}
                assert names - {"__slots__", "_layout"} == offered
                for name in (names - {"__slots__", "layout"}) - {"terms", "full"}:
                    method = getattr(handed, name)
                    assert not hasattr(method, "__self__")
                    assert not hasattr(method, "__func__")
                    assert not vars(method)
            for number in numbers:
                assert number._base is None or len(number._base) <= 4  # the block, not the trajectory
            return {}

    run_loop(loop_of(Curious(), steps=20, burn_in=4))


def test_noise_of_later_steps_is_out_of_reach():
    class Clairvoyant(Honest):
        def step(self, theta, state, potential, h, T, noise):
            xi = noise.normal(theta)
            assert xi._base is None
            assert xi.untyped_storage().nbytes() <= theta.untyped_storage().nbytes()
            return theta - h * potential.grad(theta), state

    run_loop(loop_of(Clairvoyant(), steps=20))


class Smuggler(Honest):
    """Keeps what one call was handed, and uses it in another. The step itself pays for its gradient."""

    refresh_every = 3

    def init(self, theta, potential, h, T, noise):
        self.keep("init", potential, theta)
        return {}

    def step(self, theta, state, potential, h, T, noise):
        self.keep("step", potential, theta)
        self.use("step")
        return super().step(theta, state, potential, h, T, noise)

    def adapt(self, state, h, T):
        self.use("adapt")
        return state

    def log_weight(self, state):
        self.use("log_weight")

    def refresh(self, theta, state, potential):
        self.keep("refresh", potential, theta)
        potential.full.grad(theta)
        self.use("refresh")
        return state

    def keep(self, here, potential, theta):
        if here == KEPT["from"]:
            KEPT["potential"], KEPT["theta"] = potential, theta

    def use(self, here):
        if here == KEPT["to"] and "potential" in KEPT:
            KEPT["potential"].grad(KEPT["theta"])


@pytest.mark.parametrize("start", ["init", "step", "refresh"])
@pytest.mark.parametrize("end", ["step", "adapt", "log_weight", "refresh"])
def test_a_potential_that_is_kept_gives_nothing_free(start, end):
    KEPT.clear()
    KEPT.update({"from": start, "to": end})
    with pytest.raises(PluginError, match=r"after its call has ended|makes \([12], [01]\) calls"):
        run_loop(loop_of(Smuggler(), steps=8, burn_in=4))


def test_noise_of_init_is_not_there_in_steps():
    class Keeps(Honest):
        def init(self, theta, potential, h, T, noise):
            KEPT["noise"] = noise
            return {}

        def step(self, theta, state, potential, h, T, noise):
            return super().step(theta, state, potential, h, T, KEPT["noise"])

    with pytest.raises(PluginError, match="uses a noise source after its call"):
        loop_of(Keeps())


def test_calls_of_a_thread_between_two_steps_are_seen():
    class Aside(Honest):
        def step(self, theta, state, potential, h, T, noise):
            if KEPT["steps"] == 5:  # the probe's step is the first
                thread = threading.Thread(target=lambda: potential.grad(theta))
                thread.start()
                thread.join()
            KEPT["steps"] += 1
            return super().step(theta, state, potential, h, T, noise)

    KEPT["steps"] = 0
    with pytest.raises(PluginError, match=r"its step makes \(2, 0\) calls"):
        run_loop(loop_of(Aside(), steps=8))


class Doubles(Honest):
    """A second call, in compiled code alone."""

    def ask(self, potential, theta):
        if torch.compiler.is_compiling():
            return potential.grad(theta) + 0 * self.other(potential, theta)
        return potential.grad(theta)

    def other(self, potential, theta):
        return potential.grad(theta + 1)


class DoublesByRows(Doubles):
    def other(self, potential, theta):
        return potential.grad(torch.cat([theta, theta]))[: len(theta)]


class DoublesByVmap(Doubles):
    def other(self, potential, theta):
        return torch.func.vmap(potential.grad)(many(theta)).mean(0)


class DoublesLater(Honest):
    """A second call from the third on, by a count that Python keeps."""

    def ask(self, potential, theta):
        count = self.__dict__["count"] = self.__dict__.get("count", 0) + 1
        return potential.grad(theta) if count < 3 else potential.grad(theta) + 0 * potential.grad(theta + 1)


CALLS = [DoublesLater, Doubles, DoublesByRows, DoublesByVmap]


@compiled
@pytest.mark.parametrize(
    ("sampler", "mode"),
    [
        pytest.param(
            cls,
            mode,
            id=f"{cls.__name__}-{mode}",
            marks=pytest.mark.slow if mode == "update" and cls in (Doubles, DoublesLater) else (),
        )
        for cls in CALLS
        for mode in ("scan", "update")
    ],
)
def test_code_that_is_compiled_makes_the_calls_that_are_declared(mode, sampler, monkeypatch):
    wrong = r"was not compiled|makes \((2|65), 0\) calls|asks for a gradient"
    with pytest.raises((PluginError, UncompiledError), match=wrong):
        run_loop(loop_of(sampler(), mode=mode, monkeypatch=monkeypatch, steps=20))
