"""Compiled updates of many parameters: what plain steps do, but for rounding, with theta and state written in place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from planted import maker
from support import SAMPLERS, both, make_loop, run_loop
from torch._inductor.exc import CppCompileError

from harness.contracts.registry import load, registry
from harness.engine.stepping import execution_mode
from harness.engine.stepping.making import UncompiledError
from harness.engine.stepping.update import Update
from plugins.checking.law import Broken
from plugins.checking.task_laws import law_compiled_is_plain
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sghmc_svrg import SGHMCSVRG
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from plugins.schedules.cyclical import Cyclical
from tasks.regression.blr import Heart
from tasks.synthetic.mixture5 import Mixture5

pytestmark = pytest.mark.skipif(execution_mode.obstacle() is not None, reason=f"compiled: {execution_mode.obstacle()}")
STAGES = Cyclical(step_size=0.02, cycles=2, beta=0.5)


# A state that holds theta itself, before the step and after it.
SharesTheta = maker(globals())("SharesTheta", SGHMC, init="{**init, 'before': theta, 'now': theta}",
    step="moved, new = super().step(theta, {'v': state['v']}, potential, h, T, noise); "
    "moved, {**new, 'before': theta, 'now': moved}")  # fmt: skip


@pytest.fixture(autouse=True)
def always_large(monkeypatch):
    monkeypatch.setattr(execution_mode, "LARGE", 1)


@pytest.mark.parametrize("name", ["hmc", "msgld"])
def test_what_plain_steps_do_in_every_stage(name):
    schedule = Constant(step_size=0.01) if name == "hmc" else STAGES
    loops, (plain, update) = both(Heart(batch=None if name == "hmc" else 50), SAMPLERS[name], schedule, 12, chains=2)
    for expected, updated in zip(plain, update, strict=True):
        torch.testing.assert_close(updated, expected, rtol=1e-9, atol=1e-12)
    assert loops[0].cost == loops[1].cost


STEPS_OF_BOTH_MODES = """
import sys
sys.path[:0] = sys.argv[1:]
import harness.engine.stepping, torch
from support import both
from plugins.samplers.hmc import HMC
from plugins.schedules.constant import Constant
from tasks.regression.blr import Heart
harness.engine.stepping.execution_mode.LARGE = 1
_, (plain, update) = both(Heart(batch=None), HMC(leapfrog=1), Constant(step_size=0.01), 12, chains=2)
for expected, found in zip(plain, update, strict=True):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
"""


@pytest.mark.slow
@pytest.mark.numbers
def test_code_for_other_instructions_is_not_taken_from_the_cache_of_torch(tmp_path):
    """Each process passes alone; the second would find the code of the first, and compile it for its instructions."""
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    inherited = {name: value for name, value in os.environ.items() if name != "ATEN_CPU_CAPABILITY"}
    for capability in ("avx2", "") if wide else ("", "default"):
        environment = inherited | {"ATEN_CPU_CAPABILITY": capability, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
        environment = {name: value for name, value in environment.items() if value}
        words = [sys.executable, "-c", STEPS_OF_BOTH_MODES, str(Path(__file__).parents[1])]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr


@pytest.fixture
def compiler_that_fails(monkeypatch, request):
    error = getattr(
        request, "param", CppCompileError(["g++", "-W"], "in file x:\n x.cpp:7: error: no such instruction")
    )

    def fail(_graph, _inputs):
        raise error

    def compiled(update, _):
        return torch.compile(update, fullgraph=True, dynamic=False, backend=fail)

    monkeypatch.setattr("harness.engine.stepping.update._compile", compiled)


@pytest.mark.usefixtures("compiler_that_fails")
def test_the_law_does_not_pass_where_an_update_is_not_compiled():
    with pytest.raises(Broken, match="no such instruction"):
        law_compiled_is_plain(Heart(batch=50))


@pytest.mark.usefixtures("compiler_that_fails")
def test_steps_whose_compiler_fails_are_not_begun():
    with pytest.raises(UncompiledError, match=r"compiler failed: x\.cpp:7: error: no such instr") as error:
        make_loop(Heart(batch=50), SAMPLERS["sghmc"], STAGES, 12, mode="compiled")
    assert error.value.scope == "compiler"


@pytest.mark.parametrize("variable", ["TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_SUPPRESS_ERRORS"])
def test_no_variable_makes_a_compiled_step_a_plain_one(monkeypatch, variable):
    """torch reads the second and the third when it is imported, so they are set as it would set them."""
    monkeypatch.setenv(variable, "1")
    flags = {"disable": variable == "TORCH_COMPILE_DISABLE", "suppress_errors": variable.endswith("ERRORS")}
    with torch._dynamo.config.patch(flags):
        before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        make_loop(Mixture5(), SGLD(), Constant(step_size=0.01), 5, mode="traced")
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before + 1
        assert not torch._dynamo.config.suppress_errors


LACK = [
    RuntimeError("DefaultCPUAllocator: can't allocate memory"), torch.OutOfMemoryError("can't allocate memory"),
    torch.AcceleratorError("CUDA error: out of memory"), torch.AcceleratorError("CUDA error: hardware stack error"),
]  # fmt: skip


@pytest.mark.usefixtures("compiler_that_fails")
@pytest.mark.parametrize("compiler_that_fails", [*LACK, MemoryError("can't allocate memory")], indirect=True)
def test_a_compiler_that_lacks_memory_or_its_device_ends_the_run():
    with pytest.raises((RuntimeError, MemoryError), match=r"can't allocate memory|out of memory|stack error"):
        run_loop(make_loop(Heart(batch=50), SAMPLERS["sghmc"], STAGES, 12, mode="compiled"))


def test_a_state_may_hold_theta_and_draws_stay_what_they_were():
    loops, (plain, update) = both(Mixture5(), SharesTheta(), STAGES, 40, chains=3)
    torch.testing.assert_close(update[0], plain[0], rtol=1e-9, atol=1e-12)
    for name, leaf in loops[0].state.items():
        torch.testing.assert_close(loops[1].state[name], leaf, rtol=1e-9, atol=1e-12)
    storages = {leaf.data_ptr() for leaf in (loops[1].theta, *loops[1].state.values())}
    assert len(storages) == 4


def test_a_refreshed_state_stays_where_it_is_and_none_of_it_becomes_theta():
    sampler = SGHMCSVRG(period=5)
    loops, (plain, update) = both(Heart(batch=50), sampler, Constant(step_size=0.001), 14, chains=2)
    torch.testing.assert_close(update[0], plain[0], rtol=1e-9, atol=1e-12)
    for name, leaf in loops[0].state.items():
        torch.testing.assert_close(loops[1].state[name], leaf, rtol=1e-9, atol=1e-12)
    loop = make_loop(Heart(batch=50), sampler, Constant(step_size=0.001), 14, mode="compiled")
    places = {name: leaf.data_ptr() for name, leaf in loop.state.items()}
    run_loop(loop)
    assert {name: leaf.data_ptr() for name, leaf in loop.state.items()} == places
    assert loop.theta.data_ptr() not in places.values()


def test_a_restored_run_goes_on_bit_for_bit(monkeypatch):
    monkeypatch.setattr("harness.contracts.randomness.NOISE_BLOCK", 5)
    whole, first, second = (make_loop(Heart(batch=50), SGHMC(), STAGES, 20, mode="compiled") for _ in range(3))
    run_loop(whole)
    while first.position < 10:
        first.advance_block()
    second.restore([first.checkpoint(run) for run in first.runs])
    run_loop(second)
    assert torch.equal(second.theta, whole.theta)
    assert torch.equal(second.state["v"], whole.state["v"])


def test_a_lost_chain_is_seen_at_its_step():
    divergences = []
    for mode in ("plain", "compiled"):
        loop = make_loop(Heart(), SGLD(), Constant(step_size=1e30), 300, mode=mode)
        divergences.append(run_loop(loop).runs[0].divergence)
    assert 1 < divergences[0].step < divergences[0].seen_at
    assert (divergences[1].step, divergences[1].chain) == (divergences[0].step, divergences[0].chain)


class Traced(Update):
    """Updates with the gradient in them, as a GPU has them for densities, run as torch traced them."""

    counts = False

    def __init__(self, sampler, potential):
        super().__init__(sampler, potential, "eager", opaque=False)


@pytest.mark.parametrize("name", ["contour-sgld", "ggmc", "hmc", "msgld", "santa", "sqnlmc", "swag"])
def test_the_operations_of_a_whole_step_do_what_the_step_does(name, monkeypatch):
    cls = load(registry().find("samplers", name).info.target)
    task = Heart(batch=None if name == "hmc" else 50)
    plain = run_loop(make_loop(task, cls(), Constant(step_size=1e-3), 5))
    monkeypatch.setattr("harness.engine.stage.stepper", lambda _, *given, **__: Traced(*given[:2]))
    traced = run_loop(make_loop(task, cls(), Constant(step_size=1e-3), 5))
    torch.testing.assert_close(traced.theta, plain.theta, rtol=1e-9, atol=1e-12)
    for entry, leaf in plain.state.items():
        torch.testing.assert_close(traced.state[entry], leaf, rtol=1e-9, atol=1e-12)
