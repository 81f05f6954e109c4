"""What a step returns is checked in each block of a run, not only at its first step, in each mode of execution."""

import pytest
import torch
from support import make_loop, run_loop

from harness.engine.stepping import execution_mode
from harness.engine.stepping.making import UncompiledError
from harness.system.errors import PluginError
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from tasks.synthetic.mixture5 import Mixture5

compiled = pytest.mark.skipif(execution_mode.obstacle() is not None, reason=f"compiled: {execution_mode.obstacle()}")
CALLS = []


class Late(SGLD):
    """SGLD with a state entry, whose steps from some count on return what `spoil` makes of position and state."""

    first, last = 15, 10**9

    def init(self, theta, potential, h, T, noise):
        CALLS.clear()
        return {"v": torch.zeros_like(theta), "w": theta.new_zeros(len(theta))}

    def step(self, theta, state, potential, h, T, noise):
        CALLS.append(None)
        moved, _ = super().step(theta, {}, potential, h, T, noise)
        state = {name: leaf + 1 for name, leaf in state.items()}
        return self.spoil(moved, state) if self.late() else (moved, state)

    def late(self):
        return self.first <= len(CALLS) <= self.last

    def log_weight(self, state):
        return self.weight(state["v"][:, 0]) if self.late() else state["v"][:, 0]

    def weight(self, right):
        return right

    def spoil(self, theta, state):
        return theta, state


def late(spoil, **more):
    return type("Late", (Late,), {"spoil": staticmethod(spoil), **more})()


def weighing(weight):
    return type("Late", (Late,), {"weight": staticmethod(weight)})()


SPOILED = {
    "theta in single precision": lambda theta, state: (theta.float(), state),
    "theta as integers": lambda theta, state: (theta.long(), state),
    "theta of fewer coordinates": lambda theta, state: (theta[:, :1], state),
    "theta of one chain": lambda theta, state: (theta[:1], state),
    "state in single precision": lambda theta, state: (theta, state | {"v": state["v"].float()}),
    "state of another shape": lambda theta, state: (theta, state | {"v": state["v"][:1]}),
    "a number in the state": lambda theta, state: (theta, state | {"w": 1.0}),
    "an entry lost": lambda theta, state: (theta, {"v": state["v"]}),
    "an entry more": lambda theta, state: (theta, state | {"u": theta}),
}
WEIGHTS = {
    "weights of another shape": lambda right: right[:1],
    "a weight for all": lambda right: right.sum(),
    "integer weights": lambda right: right.long(),
    "weights that end": lambda _: None,
}


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr("harness.contracts.randomness.NOISE_BLOCK", 10)


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_from_a_later_step_on(spoil):
    with pytest.raises(PluginError, match=r"^Late|the same noise"):
        run_loop(make_loop(Mixture5(), late(spoil), Constant(step_size=0.01), 40))


@pytest.mark.parametrize("kind", ["theta in single precision", "theta of fewer coordinates", "theta of one chain"])
def test_within_a_block(kind):
    with pytest.raises(PluginError, match=r"^Late|the same noise"):
        run_loop(make_loop(Mixture5(), late(SPOILED[kind], last=17), Constant(step_size=0.01), 40))


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_weights(weight):
    with pytest.raises(PluginError, match=r"^Late.*(log_weight|log weights)"):
        run_loop(make_loop(Mixture5(), weighing(weight), Constant(step_size=0.01), 40))


class Searching(SGLD):
    def init(self, theta, potential, h, T, noise):
        for _ in range(1000):
            potential.full.grad(theta)
        return {}


class SearchingByFullSteps(Searching):
    full_gradients_per_step = 1000

    def step(self, theta, state, potential, h, T, noise):
        for _ in range(1000):
            gradient = potential.full.grad(theta)
        return theta - h * gradient, state


class Informed(SGLD):
    def step(self, theta, state, potential, h, T, noise):
        return theta - h * potential.metric(theta)[1], state


class InPlace(SGLD):
    def step(self, theta, state, potential, h, T, noise):
        return theta.sub_(h * potential.grad(theta)), state


@pytest.mark.parametrize(
    ("sampler", "told"),
    [
        (Searching(), r"init: it makes \(0, 1000\) calls .*more than \(1, 0\)"),
        (SearchingByFullSteps(), r"init: it makes \(0, 1000\) calls .*more than \(1, 1\)"),
        (Informed(), "Informed asks for the metric of a potential"),
        (InPlace(), "step changes theta in place"),
    ],
)
def test_an_exploit_is_refused(sampler, told):
    with pytest.raises(PluginError, match=told):
        run_loop(make_loop(Mixture5(), sampler, Constant(step_size=0.01), 40))


@compiled
@pytest.mark.parametrize("mode", ["scan", "update"])
@pytest.mark.parametrize("kind", ["theta in single precision", "theta of one chain", "an entry more"])
def test_in_compiled_code(mode, kind, monkeypatch):
    """Code that is traced may differ from what Python does: `copy_` would cast and broadcast, and drop entries.

    Within torch's compiler such an error is a reason why the step cannot be compiled.
    """
    if mode == "update":
        monkeypatch.setattr(execution_mode, "LARGE", 1)
    sampler = late(SPOILED[kind], late=staticmethod(torch.compiler.is_compiling), step=spoiled_step)
    with pytest.raises((PluginError, UncompiledError), match=r"^Late.*(theta|state)"):
        run_loop(make_loop(Mixture5(), sampler, Constant(step_size=0.01), 40, mode="compiled"))


def spoiled_step(self, theta, state, potential, h, T, noise):
    moved, _ = SGLD.step(self, theta, {}, potential, h, T, noise)
    return self.spoil(moved, state) if self.late() else (moved, state)
