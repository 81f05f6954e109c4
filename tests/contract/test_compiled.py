"""Compiled blocks: what the plain ones do, but for rounding."""

from dataclasses import dataclass, replace

import pytest
import torch
from planted import maker
from support import SAMPLERS, both, make_loop, run_loop

from harness import Sampler
from harness.contracts.registry import load
from harness.engine.stepping import execution_mode
from harness.engine.stepping.execution_mode import Work
from harness.engine.stepping.making import UncompiledError
from harness.system import cpp
from harness.system.errors import UsageError
from plugins.checking.samplers import compiled as compiled_law
from plugins.checking.suite import check_sampler
from plugins.checking.task_laws import law_compiled_is_plain
from plugins.samplers import bench_samplers
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from plugins.schedules.cyclical import Cyclical
from tasks.regression.blr import Heart
from tasks.synthetic.mixture import MixtureProblem
from tasks.synthetic.mixture5 import Mixture5

compiled = pytest.mark.skipif(execution_mode.obstacle() is not None, reason=f"compiled: {execution_mode.obstacle()}")
planted = maker(globals())
STAGES = Cyclical(step_size=0.02, cycles=2, beta=0.5, explore_with_noise=False)
"""Blocks of all kinds: without noise and with it, in the burn-in and after it."""


class Awkward(SGLD):
    """A leaf that never changes, one shared with theta, twins, an integer; and entries in another order later."""

    def init(self, theta, potential, h, T, noise):
        same = torch.zeros_like(theta)
        return {"fixed": same, "last": same, "twin": same, "steps": torch.zeros(len(theta), dtype=torch.int64)}

    def step(self, theta, state, potential, h, T, noise):
        theta, _ = super().step(theta, {}, potential, h, T, noise)
        return theta, {"steps": state["steps"] + 1, "twin": theta, "last": theta, "fixed": state["fixed"]}

    def adapt(self, state, h, T):
        return {**state, "fixed": state["fixed"] + 1}

    def log_weight(self, state):
        return state["twin"].square().sum(1)


@compiled
@pytest.mark.parametrize("chains", [1, 3])
def test_any_state_and_any_stage(chains):
    (plain, fast), (slow, quick) = both(Mixture5(), Awkward(), STAGES, 42, chains=chains, burn_in=5)
    assert all(torch.allclose(a.double(), b.double(), rtol=1e-10) for a, b in zip(slow, quick, strict=True))
    assert torch.allclose(plain.theta, fast.theta, rtol=1e-10)
    for name, leaf in plain.state.items():
        assert leaf.dtype == fast.state[name].dtype
        assert torch.allclose(leaf, fast.state[name], rtol=1e-10)
    assert fast.state["fixed"].unique().tolist() == [5.0]


@compiled
@pytest.mark.data
@pytest.mark.parametrize("batch", [None, 20])
def test_logistic_regression(batch):
    task = Heart(batch=batch)
    (plain, fast), _ = both(task, SGLD(), Constant(step_size=0.5 / task.curvature()), 30, chains=3)
    assert torch.allclose(plain.theta, fast.theta, rtol=1e-9)


@compiled
def test_a_restored_run_goes_on_bit_for_bit_and_a_lone_last_step_is_done():
    def start():
        return make_loop(Mixture5(), SAMPLERS["sghmc"], Constant(step_size=0.05), 2_001, seeds=(0, 1), mode="compiled")

    whole, first, second = start(), start(), start()
    run_loop(whole)
    first.advance_block()
    second.restore([first.checkpoint(run) for run in first.runs])
    run_loop(second)
    assert torch.equal(whole.theta, second.theta)
    assert whole.position == 2_001
    for a, b in zip(whole.runs, second.runs, strict=True):
        assert a.observer.outcome().metrics == b.observer.outcome().metrics


# Its fourth chain is lost at step 1,234.
Bomb = planted("Bomb", SGLD, init="{'left': 1_234 + 10_000 * (torch.arange(len(theta)) != 3)}",
    step="left = state['left'] - 1; torch.where(left[:, None] == 0, torch.nan, step[0]), {'left': left}")  # fmt: skip


@compiled
def test_a_divergence_is_found_at_its_step():
    loop = make_loop(Mixture5(), Bomb(), Constant(step_size=0.05), 3_000, seeds=(0, 1, 2), mode="compiled")
    run_loop(loop)
    assert [run.divergence is not None for run in loop.runs] == [False, True, False]
    assert (loop.runs[1].divergence.step, loop.runs[1].divergence.chain) == (1_234, 1)
    assert loop.runs[1].kept == 1_000


@dataclass(frozen=True, kw_only=True)
class Branching(Sampler):
    """Breaks the contract: Python looks at a tensor's value."""

    def step(self, theta, state, potential, h, T, noise):
        if float(theta.sum()) > 1e9:
            return theta, state
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * noise.normal(theta), state


class Unknown(SGLD):
    """An operation that no code is written for."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(torch.fft.ifft(torch.fft.fft(theta)).real, state, potential, h, T, noise)


@compiled
@pytest.mark.parametrize(("sampler", "reason"), [(Branching(), "a number is taken out"), (Unknown(), "fft")])
def test_what_cannot_be_compiled_is_not_begun(sampler, reason):
    with pytest.raises(UncompiledError, match=reason) as error:
        make_loop(Mixture5(), sampler, Constant(step_size=0.05), 10, mode="compiled")
    assert error.value.scope == "step"


class UnknownLater(SGLD):
    """A step whose code can be written in the burn-in, but not after it, where it adapts no more; or only at T = 0."""

    def step(self, theta, state, potential, h, T, noise):
        shift = noise.normal(theta)
        if shift.ndim:
            shift = torch.fft.ifft(torch.fft.fft(shift)).real
        return theta - h * potential.grad(theta) + shift, state


@compiled
def test_every_stage_of_a_run_is_compiled_before_its_first_step():
    explored = make_loop(Mixture5(), UnknownLater(), Cyclical(**vars(STAGES)), 42, mode="plain")
    assert not explored.trajectory.temperature[0] > 0  # the first blocks have no noise
    with pytest.raises(UncompiledError, match="fft"):
        make_loop(Mixture5(), UnknownLater(), STAGES, 42, mode="compiled")


@compiled
@pytest.mark.parametrize("mode", ["plain", "compiled"])
def test_making_code_draws_nothing_of_a_run(mode):
    """The noise and the minibatches of the first step are those of a loop that made no code."""
    loop = make_loop(Heart(batch=20), SGLD(), STAGES, 42, mode=mode)
    fresh = make_loop(Heart(batch=20), SGLD(), STAGES, 42, mode="plain")
    assert torch.equal(loop.stage.noise.state(), fresh.stage.noise.state())
    for name, leaf in fresh.problem.state().items():
        assert torch.equal(loop.problem.state()[name], leaf)


class Hungry(SGLD):
    """Its code takes more memory than there is."""

    def step(self, theta, state, potential, h, T, noise):
        if torch.compiler.is_compiling():
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return super().step(theta, state, potential, h, T, noise)


@compiled
def test_a_lack_of_memory_does_not_mean_that_it_cannot_be_compiled():
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        run_loop(make_loop(Mixture5(), Hungry(), Constant(step_size=0.05), 10, mode="compiled"))


# Keeps its step count in Python: compiled, it is written into the code once.
Forgetful = planted("Forgetful", SGLD,
    before="count = self.__dict__['count'] = self.__dict__.get('count', 0) + 1; h = h / count")  # fmt: skip


@compiled
@pytest.mark.parametrize(("sampler", "reason"), [(Branching(), "was not compiled"), (Forgetful(), "Python keeps")])
def test_the_law_sees_samplers_that_do_what_no_step_may_do(sampler, reason):
    (result,) = check_sampler(sampler, ["compiled"])
    assert result.outcome == "failed"
    assert reason in result.message


@compiled
def test_the_law_says_nothing_of_samplers_whose_code_cannot_be_written():
    (result,) = check_sampler(Unknown(), ["compiled"])
    assert result.outcome == "skipped"
    assert "fft" in result.message


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("sampler", [info.target for info in bench_samplers()])
def test_every_built_in_sampler_compiles_to_what_it_is_plain(sampler):
    compiled_law.check(load(sampler)())


DoubledProblem = planted("DoubledProblem", MixtureProblem,
    _pulled="_pulled * (2 if torch.compiler.is_compiling() else 1)")  # fmt: skip


class Doubled(Mixture5):
    def build(self, streams, device):
        return DoubledProblem(self, streams, device)


@compiled
def test_the_law_sees_tasks_that_compute_something_else():
    with pytest.raises(AssertionError, match="compiled, 5 steps end"):
        law_compiled_is_plain(Doubled())


def test_the_mode_follows_from_the_number_of_steps(monkeypatch):
    monkeypatch.setattr(execution_mode, "obstacle", lambda *_: None)
    assert execution_mode.choose(None, execution_mode.COMPILED_FROM - 1) == "plain"
    assert execution_mode.choose(None, execution_mode.COMPILED_FROM) == "compiled"
    assert execution_mode.choose("plain", 10**7) == "plain"
    assert execution_mode.choose("compiled", 10) == "compiled"


def test_small_networks_are_plain_and_large_ones_compiled_if_their_length_pays_for_it(monkeypatch):
    monkeypatch.setattr(execution_mode, "obstacle", lambda *_: None)
    small, large = (
        Work(dim=execution_mode.NETWORK - 1, chains=100, opaque=True),
        Work(dim=execution_mode.NETWORK, opaque=True),
    )
    assert execution_mode.choose(None, 10**7, small) == "plain"
    assert execution_mode.choose("compiled", 10, small) == "compiled"
    assert [execution_mode.choose(None, steps, large) for steps in (10**4, 10**5)] == ["plain", "compiled"]
    assert execution_mode.choose(None, 10**4, replace(large, chains=10)) == "compiled"


def test_on_a_gpu_the_steps_of_networks_are_recorded_unless_a_setting_says_otherwise(monkeypatch):
    monkeypatch.setattr(execution_mode, "obstacle", lambda *_: None)
    assert execution_mode.choose(None, 1, Work(device="cuda", dim=5_000, opaque=True)) == "compiled"
    assert execution_mode.choose(None, 1, Work(device="cuda", dim=execution_mode.LARGE)) == "compiled"
    assert execution_mode.choose(None, 10**7, Work(device="cuda", dim=2)) == "plain"
    assert execution_mode.choose("plain", 1, Work(device="cuda", dim=5_000, opaque=True)) == "plain"
    monkeypatch.setattr(execution_mode, "obstacle", lambda *device: "no triton" if device == ("cuda",) else None)
    assert execution_mode.choose(None, 1, Work(device="cuda", dim=5_000, opaque=True)) == "plain"
    with pytest.raises(UsageError, match="no triton"):
        execution_mode.choose("compiled", 1, Work(device="cuda"))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_is_missing_is_named_only_where_a_run_would_gain_by_it(monkeypatch, device):
    monkeypatch.setattr(execution_mode, "obstacle", lambda device: f"nothing for {device}")
    network = Work(device=device, dim=execution_mode.LARGE, opaque=True)
    assert execution_mode.slowed(None, 10**7, network) == f"nothing for {device}"
    assert execution_mode.slowed("plain", 10**7, network) is None
    assert execution_mode.slowed(None, 10**7, replace(network, never="it is exempt")) is None
    if device == "cpu":
        assert execution_mode.slowed(None, execution_mode.COMPILED_FROM, network) is None  # too short for its size


def test_without_the_means_nothing_is_compiled_and_asking_for_it_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(cpp.shutil, "which", lambda _: None)
    assert execution_mode.choose(None, 10**7) == "plain"
    with pytest.raises(UsageError, match=r"run\.compile = compiled: compiled steps need a C\+\+ compiler"):
        execution_mode.choose("compiled", 10)
