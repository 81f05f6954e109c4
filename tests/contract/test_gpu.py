"""The same loop on a CUDA device: right law, a run's numbers free of its neighbours, checkpoints that go on."""

import pytest
import torch
from generated import SMALL, Generated
from recordable import RECORDED, REFUSED, record
from support import SAMPLERS, make_loop, run_loop

from harness.contracts.randomness import Streams
from harness.engine.stepping.graph import Graph
from harness.results.spec import Execution
from harness.runs.job import set_up
from plugins.inspection import doctor
from plugins.running.moved import moved
from plugins.samplers.adam import Adam
from plugins.schedules.constant import Constant
from plugins.schedules.cyclical import Cyclical
from tasks.synthetic.mixture5 import Mixture5

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:.*does not have a deterministic implementation"),
]


@pytest.fixture(autouse=True)
def as_in_a_worker():
    """Torch's flags as those of a run: deterministic algorithms, and no TF32."""
    set_up(Execution(device="cuda", dtype="float32"), "cuda:0")
    yield
    torch.set_deterministic_debug_mode("default")


SCHEDULE = Constant(step_size=0.02)


def compiled_by_torch():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def on_gpu(name, steps, seeds, **more):
    return make_loop(Mixture5(), SAMPLERS[name], SCHEDULE, steps, seeds=seeds, device="cuda:0", **more)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_step_does_not_depend_on_the_neighbours_beyond_rounding(name):
    alone = run_loop(on_gpu(name, 1, (3,)))
    together = run_loop(on_gpu(name, 1, (0, 1, 2, 3, 4)))
    assert alone.theta.is_cuda
    torch.testing.assert_close(together.theta[6:8], alone.theta, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_restored_run_goes_on(name):
    whole = run_loop(on_gpu(name, 2_500, (0, 1)))
    first = on_gpu(name, 2_500, (0, 1))
    first.advance_block()
    second = on_gpu(name, 2_500, (0, 1))
    second.restore([first.checkpoint(run) for run in first.runs])
    run_loop(second)
    torch.testing.assert_close(second.theta, whole.theta, rtol=1e-9, atol=1e-9)


def test_the_law_is_that_of_the_cpu():
    loop = run_loop(on_gpu("sgld", 20_000, range(16), chains=8, burn_in=2_000))
    metrics = [run.observer.outcome().metrics for run in loop.runs]
    errors = torch.tensor([m["mean_error"] for m in metrics])
    assert float(errors.mean()) < 0.15


@pytest.mark.parametrize("name", ["msgld", "sghmc"])
def test_recorded_steps_do_what_plain_ones_do(name):
    schedule, before = Cyclical(step_size=0.02, cycles=2, beta=0.5), compiled_by_torch()
    plain, recorded = (
        run_loop(make_loop(Mixture5(), SAMPLERS[name], schedule, 60, seeds=(0, 1), device="cuda:0", mode=mode))
        for mode in ("plain", "compiled")
    )
    assert isinstance(recorded.stage.stepper, Graph)
    assert plain.stage.stepper.code_counts() == (0, 0)
    compiled, graphs = recorded.stage.stepper.code_counts()
    assert (compiled, compiled_by_torch() - before) == (2, 2)  # without noise and with it
    assert graphs >= 2
    torch.testing.assert_close(recorded.theta, plain.theta, rtol=1e-9, atol=1e-9)


def test_steps_of_a_moved_run_are_recorded_and_its_draws_are_turned_back():
    for sampler in (SAMPLERS["sghmc"], Adam()):  # a rotation, and a permutation with signs
        plain, recorded = (
            run_loop(make_loop(moved(Mixture5(), [sampler]), sampler, SCHEDULE, 60, device="cuda:0", mode=mode))
            for mode in ("plain", "compiled")
        )
        torch.testing.assert_close(recorded.theta, plain.theta, rtol=1e-9, atol=1e-9)
        assert recorded.problem.original(recorded.theta).abs().max() < 8


def test_a_network_learns_alike_recorded_and_plain():
    """Recorded kernels may differ from plain ones in the last bits, and single precision forgets soon: few steps."""
    positions, before = [], compiled_by_torch()
    for mode in ("plain", "compiled"):
        loop = make_loop(Generated(**SMALL), SAMPLERS["msgld"], Constant(step_size=1e-6), 8, device="cuda:0", mode=mode)
        positions.append(run_loop(loop).theta)
    compiled, graphs = loop.stage.stepper.code_counts()
    assert compiled == compiled_by_torch() - before >= 1
    assert graphs >= 1
    torch.testing.assert_close(positions[1], positions[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_gradient_does_not_depend_on_the_row_of_the_chain(precision):
    """Rows of an odd number of weights start where not all kernels can read, and other kernels have other bits."""
    task = Generated(**{**SMALL, "width": 1}, precision=precision)
    problem = task.build([Streams(0, 0)] * 3, "cuda:0")
    batch = {name: leaf[0] for name, leaf in problem.draw_batches(1).items()}
    gradient = problem.gradient(problem.initial(), batch)
    assert task.dim() % 4
    assert torch.equal(gradient, gradient[:1].expand(3, -1))


def test_doctor_records_a_step():
    state, text, _ = doctor._recorded("cuda:0")
    assert state == "ok", text


@pytest.mark.parametrize("expression", RECORDED)
def test_a_gpu_records_what_the_pretended_one_records(expression):
    record(expression)


@pytest.mark.parametrize("expression", REFUSED)
def test_a_gpu_refuses_what_the_pretended_one_refuses(expression):
    with pytest.raises((RuntimeError, torch.AcceleratorError)):
        record(expression)
    torch.cuda.synchronize()
