"""The path of a GPU on a CPU: every network task and many samplers on a pretended GPU, plain and recorded alike."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from generated import SMALL, Exact, Generated
from planted import maker
from pretended_gpu import GPUError, PretendedGPU, Recorded
from recordable import RECORDED, REFUSED, REFUSED_BY_MAGMA, record
from support import make_loop, run_loop
from torch import nn
from torch.utils import _pytree as tree
from torchvision.models.resnet import Bottleneck

import harness.engine.stage
import harness.engine.stepping.graph
import harness.engine.stepping.update
from harness.contracts.registry import load, registry
from harness.engine.stage import LOOK
from harness.engine.stepping import execution_mode
from harness.engine.stepping.graph import WARM, Graph
from harness.results import environment
from harness.results.ledger.ledger import Ledger
from harness.results.spec import Execution
from harness.runs import local
from harness.runs.child import Stop
from harness.runs.job import device_held, set_up
from harness.runs.plan import RunRequest, plan
from harness.runs.worker import run as local_run
from harness.system.errors import DataError, PluginError, UsageError
from harness.system.locks import HeldError
from harness.tasks import Network, NetworkProblem, NetworkTask, Streams
from plugins.inspection import doctor
from plugins.running.moved import moved
from plugins.samplers.adam import Adam
from plugins.samplers.amagold import AMAGOLD
from plugins.samplers.ggmc import GGMC
from plugins.samplers.hmc import HMC
from plugins.samplers.msgld import MSGLD
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from plugins.schedules.cyclical import Cyclical
from tasks.gauss_newton import PROVIDED
from tasks.mlp import MLP
from tasks.regression.blr import Heart
from tasks.synthetic.mixture5 import Mixture5
from tasks.vision.cifar import Cifar100
from tasks.vision.imagenet import ImageNet
from tasks.vision.landsat import Landsat
from tasks.vision.mnist_sparse import MnistSparse
from tasks.vision.notmnist import NotMNIST

GPU = "cuda:0"
FEW = 60
PART = 2
"""Steps in a graph, so that a short run has several."""
STEP = Constant(step_size=1e-9)
CLOSE = {"rtol": 0, "atol": 1e-9}
"""In double precision, rounding is 1e-15 and grows in these steps; one noise of a step is sqrt(2 h T) = 4e-5."""


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    """The sampler's update as plain torch: its kernels for a GPU cannot be made here.

    What compiled code is made for must stay: a tensor that lies in memory in another way would have it made anew,
    within the recording too.
    """

    def compiled(update, _):
        made_for = []

        def call(theta, state, *now):
            layout = [(leaf.shape, leaf.stride(), leaf.dtype) for leaf in tree.tree_leaves((theta, state, now))]
            made_for.extend([] if made_for else layout)
            if layout != made_for:
                raise GPUError(f"the update is compiled anew: made for {made_for}, called with {layout}")
            update(theta, state, *now)

        return call

    monkeypatch.setattr(harness.engine.stepping.graph, "PART", PART)
    monkeypatch.setattr(harness.engine.stepping.update, "_compile", compiled)
    monkeypatch.setattr(harness.engine.stepping.update, "_trace", lambda step, _: step)
    monkeypatch.setattr(harness.engine.stepping.update, "Opaque", lambda potential: potential)


class Made:
    """A dense task on inputs that are made up."""

    def read(self, name):
        generator = np.random.default_rng(len(name))
        inputs = generator.integers(0, 256, (self.few or FEW, self.features), dtype=np.uint8)
        return inputs, generator.integers(0, self.classes, len(inputs))


def without_data(cls):
    methods = {"read": Made.read, "standard": lambda _: (128.0, 50.0)}
    named = {"few": FEW, "datasets": (), "dtype": "float64", **methods}
    return type(f"Made{cls.__name__}", (cls,), named)


@dataclass(frozen=True, kw_only=True)
class Exact100(Cifar100):
    datasets: ClassVar = ()
    dtype: ClassVar[str] = "float64"

    def images(self, name):
        return Exact(**EVEN).images(name)


class Photographs(ImageNet):
    """ResNet-50's kinds of layers, few of them: a recording keeps the result of each operation in memory."""

    def network(self):
        return Network(
            lambda: nn.Sequential(
                nn.AvgPool2d(7), nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                nn.MaxPool2d(3, stride=2, padding=1), Bottleneck(8, 2, downsample=None), nn.AdaptiveAvgPool2d(1),
                nn.Flatten(), nn.Linear(8, self.classes),
            )
        )  # fmt: skip


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    from PIL import Image

    folder = tmp_path_factory.mktemp("imagenet")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), dtype=np.uint8)
    for part in ("train", "val"):
        for name in ("n01", "n02"):
            (folder / part / name).mkdir(parents=True)
            for i in range(2):
                Image.fromarray(pixels[i]).save(folder / part / name / f"{i}.JPEG")
    return Photographs(folder=str(folder), batch=2, images=4, classes=2, test_images=2, threads=1)


def advance(task, sampler, schedule, steps, mode, **how):
    """A loop on the pretended GPU, and the context that it ran in."""
    with PretendedGPU() as gpu:
        loop = make_loop(task, sampler, schedule, steps, device=GPU, mode=mode, **how)
        gpu.waits.clear()
        run_loop(loop)
        assert loop.theta.is_cuda
        loop.outcome = loop.runs[0].observer.outcome()
        loop.saved = [loop.checkpoint(run) for run in loop.runs]
    return loop, gpu


def same_compiled(task, sampler, schedule, steps, **how):
    """The compiled loop and its context, after a check that its steps end where plain ones do.

    In single precision the first bits that differ may grow within these steps, so there they need only be finite.
    """
    plain, _ = advance(task, sampler, schedule, steps, "plain", **how)
    recorded, gpu = advance(task, sampler, schedule, steps, "compiled", **how)
    assert recorded.theta.isfinite().all()
    if task.dtype == "float32":
        return recorded, gpu
    torch.testing.assert_close(recorded.theta, plain.theta, **CLOSE)
    for name, leaf in plain.state.items():
        torch.testing.assert_close(recorded.state[name], leaf, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(recorded.problem.state(), plain.problem.state(), **CLOSE)
    assert numbers(recorded.outcome) == pytest.approx(numbers(plain.outcome), rel=1e-6)
    return recorded, gpu


def same_recorded(task, sampler, schedule, steps, **how):
    """The same of steps that are recorded."""
    recorded, gpu = same_compiled(task, sampler, schedule, steps, **how)
    assert isinstance(recorded.stage.stepper, Graph)
    assert any(graph.replays for graph in gpu.graphs)
    return recorded, gpu


def numbers(outcome):
    """The metrics that exist."""
    return {name: value for name, value in outcome.metrics.items() if value is not None}


EVEN = {**SMALL, "batch": 8, "train_images": 16, "test_images": 10}
"""Two batches an epoch, none of them short."""

NETWORKS = {
    "cifar10": Exact(**EVEN, unseen="both", train_accuracy=True, by_cycle=True),
    "cifar10-group": Exact(**EVEN, normalisation="group"),
    "cifar10-filter-response": Exact(**EVEN, normalisation="filter-response"),
    "cifar10-as-it-is": Exact(**EVEN, augment=False),
    "cifar10-resnet20": Exact(**EVEN, augment=False, model="resnet20", normalisation="filter-response"),
    "cifar10-bfloat16": Generated(**EVEN, precision="bfloat16"),
    "cifar100": Exact100(**EVEN),
    **{
        f"{cls.__name__}-{protocol.name}": without_data(cls)(**{**protocol.task_settings(), "width": 4, "batch": 25})
        for cls in (NotMNIST, MnistSparse, Landsat) for protocol in cls.protocols
    },
    "MnistSparse-both-priors": without_data(MnistSparse)(width=4, batch=25, dense_steps=6),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_steps_of_every_network_are_recorded_and_end_where_plain_ones_do(name):
    schedule = Cyclical(step_size=1e-9, cycles=1, beta=0.5)
    _, gpu = same_recorded(NETWORKS[name], MSGLD(), schedule, 16, chains=1, burn_in=15)
    assert len(gpu.graphs) == 2  # a stage without noise and one with it


@dataclass(frozen=True, kw_only=True)
class Convolution(Exact):
    """A small network without statistics of its batches: on a CPU its blocks are of many steps."""

    def network(self):
        return Network(lambda: nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10)))


@dataclass(frozen=True, kw_only=True)
class Pairs(MSGLD):
    """Two minibatches a step."""

    gradients_per_step: ClassVar[int] = 2
    batches_per_step: ClassVar[int] = 2

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta - h * potential.grad(theta), state, potential, h, T, noise)


@dataclass(frozen=True, kw_only=True)
class Normalised(Exact):
    """Batch normalisation: U depends on how the rows are stretched, predictions do not."""

    def network(self):
        return Network(
            lambda: nn.Sequential(
                nn.AvgPool2d(4), nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 10)
            )
        )


def test_predictions_go_through_a_gpu_in_longer_stretches_and_the_full_energy_does_not():
    task = Normalised(**{**SMALL, "train_images": 1200, "test_images": 2600, "augment": False})
    object.__setattr__(task, "batch", None)  # so that each gradient is of all rows
    seen = {}
    with PretendedGPU():
        for device in ("cpu", GPU):
            problem = task.build([Streams(0, 0, ("test",))], device)
            theta = problem.initial()
            predicted = list(problem.predict(theta, slice(0, 1), "test"))
            terms = [n for n, _ in problem.parts(0, {})]
            energy = problem.energy(theta, None).to("cpu")
            seen[device] = [part.shape[1] for part in predicted], terms, torch.cat(predicted, 1).to("cpu"), energy
    (short, terms, on_cpu, full), (long, same, on_gpu, again) = seen.values()
    assert (short, long) == ([500] * 5 + [100], [2500, 100])
    assert terms == same == [500, 500, 200]
    torch.testing.assert_close(on_gpu, on_cpu)
    torch.testing.assert_close(again, full)


SHORT = {**SMALL, "batch": 8, "train_images": 20, "test_images": 10}
"""Batches of 8, 8 and 4 rows."""


@pytest.mark.parametrize(("task", "cls"), [(Convolution(**SHORT), Pairs), (Exact(**SHORT), MSGLD)])
def test_short_batches_are_recorded_in_their_own_size(task, cls):
    recorded, gpu = same_recorded(task, cls(), STEP, 14, chains=1, burn_in=0)
    batches = [dict(batches) for _, batches, *_ in recorded.stage.stepper._graphs]
    assert len(batches) == len(gpu.graphs)
    assert {shape[-1] for batch in batches for name, shape in batch.items() if "index" in name} == {8, 4}


def test_photographs_are_recorded_though_they_are_read_while_they_are_used(photographs):
    loop, gpu = same_recorded(photographs, SGLD(), STEP, WARM + 3, chains=1, burn_in=WARM + 2)
    assert gpu.graphs[0].replays == 2  # the last step is no burn-in, which is another kind
    assert {name for name, _ in next(iter(loop.stage.stepper._graphs))[1]} == {"index", "pixels"}


def of_rows(rows, network, batch=25):
    """A task of this many rows of noise, in minibatches or (None) without."""

    def arrays(_, part):
        generator = np.random.default_rng(len(part))
        return {"x": generator.normal(size=(rows, 6)), "label": generator.integers(0, 3, rows)}

    members = {
        "dtype": "float64", "prior_precision": 1.0, "protocols": Landsat.protocols, "batch": batch,
        "network": lambda _: network, "arrays": arrays,
        "provides": PROVIDED if network is DENSE else NetworkTask.provides,
    }  # fmt: skip
    return type("OfRows", (NetworkTask,), members)()


def heart_of_rows(rows):
    return type("HeartOfRows", (Heart,), {"shape": (rows, 14), "design": lambda self: Heart.design(self)[:rows]})(
        batch=25
    )


MODULE, DENSE = Network(lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))), MLP((6, 4, 3))


@pytest.mark.parametrize(
    ("task", "sampler"),
    [
        (Convolution(**SHORT), HMC(leapfrog=2)), (of_rows(60, MODULE), GGMC()),
        (of_rows(60, MODULE), AMAGOLD(turns=3)), (of_rows(60, MODULE, None), MSGLD()),
        (of_rows(60, DENSE, None), MSGLD()),
    ],
    ids=["hmc", "ggmc", "amagold", "without-batches", "mlp-without-batches"],
)  # fmt: skip
def test_steps_that_go_through_all_the_data_are_compiled_and_not_recorded(task, sampler):
    loop, gpu = same_compiled(task, sampler, STEP, 4, chains=2, burn_in=2)
    assert loop.executed == "compiled"
    assert gpu.graphs == []


def samplers():
    """The samplers of the registry, each with two tasks of 50 and of 100 rows that provide what it needs."""
    for offer in registry().offers("samplers"):
        cls = load(offer.info.target)
        on_network = set(cls().needs) <= PROVIDED
        tasks = [of_rows(rows, DENSE) if on_network else heart_of_rows(rows) for rows in (50, 100)]
        yield pytest.param(cls(), tasks, id=offer.name)


@pytest.mark.parametrize(("sampler", "tasks"), list(samplers()))
def test_steps_of_every_sampler_are_recorded_and_no_graph_grows_with_the_data(sampler, tasks, monkeypatch):
    monkeypatch.setattr(NetworkProblem, "stretch", 20)
    few, many = tasks
    if sampler.full_gradients_per_step:
        assert same_compiled(few, sampler, STEP, 3, chains=2, burn_in=2)[1].graphs == []
        return
    steps, how = WARM + 4, {"chains": 2, "burn_in": WARM + 3}
    contexts = same_recorded(few, sampler, STEP, steps, **how), advance(many, sampler, STEP, steps, "compiled", **how)
    small, large = ([len(graph.operations) for graph in gpu.graphs] for _, gpu in contexts)
    assert small == large


ROTATED, PERMUTED = (moved(Mixture5(), [sampler]) for sampler in (MSGLD(), Adam()))


@pytest.mark.parametrize("cls", [MSGLD, GGMC, HMC])
@pytest.mark.parametrize(
    "task", [Mixture5(), Heart(batch=50), ROTATED, PERMUTED], ids=["mixture5", "blr-heart", "rotated", "permuted"]
)
def test_steps_of_densities_are_recorded_with_their_gradients(task, cls):
    plain, _ = advance(task, cls(), Constant(step_size=1e-4), 6, "plain")
    recorded, gpu = advance(task, cls(), Constant(step_size=1e-4), 6, "compiled")
    assert gpu.graphs[0].replays >= 1
    torch.testing.assert_close(recorded.theta, plain.theta, **CLOSE)


CODE = (
    "build", "energy", "grad", "value_and_grad", "log_density", "log_likelihood", "row_log_density", "log_prior",
    "prior_gradient", "predicted", "network",
)  # fmt: skip
"""The methods of tasks that steps execute."""


def code_of(cls):
    return tuple(getattr(getattr(cls, name, None), "__qualname__", "") for name in CODE)


def tasks_of_other_code():
    """One task of the registry for each code, but for those of `NETWORKS` and the one that reads photographs."""
    known = set(map(code_of, (Cifar100, ImageNet, Landsat, MnistSparse)))
    for offer in registry().offers("tasks"):
        cls = load(offer.info.target)
        if code_of(cls) not in known:
            known.add(code_of(cls))
            yield pytest.param(cls, id=offer.name)


@pytest.mark.parametrize("cls", list(tasks_of_other_code()))
def test_steps_of_every_task_are_recorded(cls):
    try:
        task = cls().for_laws()
        loops = [advance(task, SGLD(), STEP, WARM + 2, mode, chains=2)[0] for mode in ("plain", "compiled")]
    except DataError as error:
        pytest.skip(str(error))
    plain, recorded = loops
    torch.testing.assert_close(recorded.theta, plain.theta, **CLOSE)
    assert recorded.executed == "compiled"


@pytest.mark.slow
def test_a_run_on_a_gpu_goes_on_from_its_checkpoint():
    task = NETWORKS["cifar10"]
    whole, _ = advance(task, MSGLD(), STEP, 12, "compiled", burn_in=6)
    with PretendedGPU():
        first = make_loop(task, MSGLD(), STEP, 12, device=GPU, mode="compiled", burn_in=6)
        while first.position < 8:
            first.advance_block()
        saved = [first.checkpoint(run) for run in first.runs]
        assert not any(leaf.is_cuda for leaf in saved[0].values())
        second = make_loop(task, MSGLD(), STEP, 12, device=GPU, mode="compiled", burn_in=6)
        second.restore(saved)
        run_loop(second)
        torch.testing.assert_close(second.theta, whole.theta, **CLOSE)
        assert numbers(second.runs[0].observer.outcome()) == pytest.approx(numbers(whole.outcome), rel=1e-6)


def test_a_step_waits_for_nothing_but_the_look_at_lost_chains():
    """From one look to the next the loop asks the GPU nothing, and sends it whole epochs only."""
    with PretendedGPU() as gpu:
        loop = make_loop(NETWORKS["cifar10"], MSGLD(), STEP, 2 * LOOK, chains=1, device=GPU, mode="compiled", thin=LOOK)
        while loop.position < WARM + 2:
            loop.advance_block()
        gpu.waits.clear()
        while loop.position < LOOK - 1:
            loop.advance_block()
    epochs = 1 + (LOOK - WARM) // 2
    assert gpu.waits.count("a copy from the CPU") == len(gpu.waits) <= 2 * epochs  # indices and changes of rows


def recorded_samplers():
    """The samplers whose steps on a module or on an MLP are recorded, each with these tasks."""
    for part in samplers():
        for network, kind in ((MODULE, "module"), (DENSE, "mlp")):
            sampler, task = part.values[0], of_rows(50, network)
            if set(sampler.needs) <= task.provides and not sampler.full_gradients_per_step:
                yield pytest.param(sampler, task, id=f"{part.id}-{kind}")


@pytest.mark.parametrize(("sampler", "task"), list(recorded_samplers()))
def test_steps_of_every_sampler_wait_for_nothing_but_the_look_at_lost_chains(sampler, task, monkeypatch):
    """Among them are those that warm up and the one that is recorded."""
    look, several = WARM + 6, task.network() is DENSE
    monkeypatch.setattr(harness.engine.stage, "LOOK", look)
    with PretendedGPU() as gpu:
        loop = make_loop(task, sampler, STEP, 2 * look, device=GPU, mode="compiled", thin=2 * look)
        stage = loop.stage
        block = stage._block(0, look) if several else None
        gpu.waits.clear()
        if several:
            with torch.no_grad():
                stage.stepper.advance(stage.theta, stage.state, block)
        while loop.position < look - 1 and not several:
            loop.advance_block()
    assert gpu.graphs
    epochs = 0 if several else look // 2
    assert gpu.waits.count("a copy from the CPU") == len(gpu.waits) <= epochs


mutant = maker(globals())
Reads = mutant("Reads", SGLD, before="float(theta.sum()) > 1e9")
Constants = mutant("Constants", SGLD, before="theta = theta * torch.tensor([1.0], device=theta.device)")
Masks = mutant("Masks", SGLD, after="theta = theta + theta[theta.abs() > 1e9].sum()")
Draws = mutant("Draws", SGLD, before="theta = theta + 0 * torch.randn_like(theta)")
Scalars = mutant("Scalars", SGLD, before="theta = theta * torch.ones(())")  # on the CPU: a graph would keep it
Explodes = mutant("Explodes", SGLD, after="theta = theta / (h < 1).to(theta.dtype)")
Sides = mutant("Sides", SGLD, before="theta = theta + torch.zeros(theta.shape, dtype=theta.dtype)")


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (Reads, "__float__"), (Constants, "a constant from the CPU"), (Masks, "by a mask"), (Draws, "random numbers"),
        (Scalars, "a scalar of the CPU"),
    ],
)  # fmt: skip
def test_what_no_graph_can_hold_is_refused_with_what_to_do(cls, reason):
    with pytest.raises(PluginError, match=rf"{cls.__name__} was not recorded as a CUDA graph.*compile=plain.*{reason}"):
        advance(Convolution(**EVEN), cls(), STEP, 8, "compiled", chains=1)
    if cls is not Scalars:
        return
    advance(Convolution(**EVEN), cls(), STEP, 8, "plain", chains=1)


class Keeps(SGLD):
    """SGLD that keeps a constant while its first kind of step is recorded."""

    kept: ClassVar[list] = []

    def step(self, theta, state, potential, h, T, noise):
        if torch.cuda.is_current_stream_capturing():
            self.kept.append(torch.ones_like(theta))
        moved, state = super().step(theta, state, potential, h, T, noise)
        return (self.kept[0] * moved if self.kept else moved), state


def test_what_was_made_while_a_graph_was_recorded_is_not_used_elsewhere():
    kept = {}

    def constant():
        return kept.setdefault("constant", torch.ones(3, device=GPU))

    with PretendedGPU():
        x, graph = torch.zeros(3, device=GPU), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x.add_(constant() + constant())
            result = 2 * x
        with pytest.raises(GPUError, match="clone: a tensor that was made while"):
            result.clone()
        graph.replay()
        assert (2 * result.clone()).tolist() == [8, 8, 8]
        assert x.tolist() == [2, 2, 2]
        with pytest.raises(GPUError, match="add: a tensor that was made while a graph was recorded"):
            x + constant()
        with pytest.raises(GPUError, match="made while"), torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.add_(constant())
        kept.clear()  # a constant from before is every graph's
        x.add_(constant())
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.add_(constant())


def test_a_sampler_that_keeps_what_it_made_while_it_was_recorded_is_refused_at_its_next_kind_of_step():
    task = of_rows(50, MODULE)
    advance(task, Keeps(), STEP, WARM + 4, "compiled")
    Keeps.kept.clear()
    with pytest.raises(GPUError, match="mul: a tensor that was made while a graph was recorded"):
        advance(task, Keeps(), STEP, WARM + 4, "compiled", burn_in=WARM + 2)


@pytest.mark.parametrize("expression", RECORDED)
def test_the_pretended_gpu_records_what_a_gpu_records(expression):
    with PretendedGPU():
        record(expression)


@pytest.mark.parametrize("expression", REFUSED + REFUSED_BY_MAGMA)
def test_the_pretended_gpu_records_nothing_that_a_gpu_refuses(expression):
    with PretendedGPU(), pytest.raises(GPUError):
        record(expression)


def test_the_pretended_gpu_refuses_what_a_gpu_refuses():
    with pytest.raises(GPUError, match="same device"):
        advance(Mixture5(), Sides(), Constant(step_size=0.01), 2, "plain")
    with PretendedGPU():
        x = torch.ones(3, device=GPU)
        with pytest.raises(TypeError, match="to numpy"):
            x.numpy()
        with pytest.raises(GPUError, match="generator of cpu"):
            torch.randn(3, device=GPU, generator=torch.Generator())
        with pytest.raises(GPUError, match="generator of cuda"):
            torch.ones(3).normal_(generator=torch.Generator(GPU))
        assert not x.cpu().is_cuda
        assert (x.grad_fn, x.to("cpu").numpy().sum()) == (None, 3)


def test_a_replay_does_the_operations_again_and_recording_changes_nothing():
    with PretendedGPU():
        x, y = torch.ones(3, device=GPU), torch.zeros(3, device=GPU)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y.add_(2 * x)
        assert y.tolist() == [0, 0, 0]
        x.fill_(5)
        graph.replay()
        graph.replay()
        assert y.tolist() == [20, 20, 20]


@pytest.fixture
def checked(monkeypatch):
    """The row of `bench doctor` about recorded steps, as a function."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(execution_mode, "obstacle", lambda _: None)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "3.6.0")
    monkeypatch.setenv("CC", "gcc")

    def row():
        with PretendedGPU():
            rows = {check: row for check, *row in doctor._gpu()}
        assert rows.pop("GPU cuda:0") == ["ok", "a pretended GPU", ""]
        return rows["recorded steps"]

    return row


def test_doctor_records_a_step(checked):
    state, text, remedy = checked()
    assert (state, remedy) == ("ok", "")
    assert re.fullmatch(r"a step of .* by Triton 3.6.0 with gcc and .*Python\.h", text)


def test_doctor_says_why_a_step_is_not_recorded_and_what_it_needs(checked, monkeypatch):
    plain = MSGLD.step
    monkeypatch.setattr(MSGLD, "step", lambda self, theta, *more: plain(self, theta + 0 * float(theta.sum()), *more))
    state, reason, remedy = checked()
    assert state == "problem"
    assert all(words in reason for words in ("not recorded as a CUDA graph", "__float__() in a recorded step"))
    assert all(word in remedy for word in ("gcc", "Python.h", "run.compile=plain"))


def test_doctor_says_that_recorded_steps_differ_from_plain_ones(checked, monkeypatch):
    monkeypatch.setattr(Recorded, "replay", lambda graph: setattr(graph, "replays", graph.replays + 1))
    state, reason, _ = checked()
    assert (state, "from plain ones" in reason) == ("problem", True)


def test_doctor_tries_no_step_without_a_compiler_or_a_gpu(checked, monkeypatch):
    monkeypatch.setattr(execution_mode, "obstacle", lambda _: "there is no triton")
    state, reason, remedy = checked()
    assert (state, reason, "install it" in remedy) == ("warning", "there is no triton", True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [row[:3] for row in doctor._gpu()] == [("GPU", "ok", "none that torch can use")]


def test_settings_of_a_gpu_are_made_in_the_worker_and_read_for_the_record():
    flags = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark
    filled = torch.utils.deterministic.fill_uninitialized_memory
    try:
        with PretendedGPU():
            for tf32 in (True, False):
                set_up(Execution(dtype="float32", deterministic=False, tf32=tf32, cudnn_benchmark=tf32), GPU)
                assert torch.backends.cudnn.allow_tf32 is torch.backends.cuda.matmul.allow_tf32 is tf32
                recorded = environment.collect(GPU, [])
                assert recorded["matmul_precision"] == ("high" if tf32 else "highest")
                assert recorded["cudnn_benchmark"] is tf32
                assert recorded["gpu"] == "a pretended GPU"
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = flags
        torch.utils.deterministic.fill_uninitialized_memory = filled


def test_two_workers_cannot_have_one_gpu_whatever_their_results_folders(monkeypatch):
    monkeypatch.setattr("harness.runs.job.LOCK_TIMEOUT_SECONDS", 0.2)
    with PretendedGPU():
        with device_held(GPU), pytest.raises(HeldError, match=rf"cuda:0 is held by process {os.getpid()} of user"):
            device_held(GPU).__enter__()
        with device_held(GPU):
            pass
        with pytest.raises(UsageError, match="torch sees 1 GPUs"), device_held("cuda:1"):
            pass


def test_the_record_of_a_run_says_which_gpu_it_was_on(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.engine.stepping.execution_mode.obstacle", lambda *_: None)
    how = {"device": "cuda", "given": {"run.compile": "compiled", "run.burn_in": 0.5}}
    request = RunRequest(["sgld"], ["mixture5"], seeds=[0], chains=2, budget="steps=20", **how)
    ledger = Ledger(tmp_path)
    planned = plan(registry(), request, ledger)
    ledger.prepare()
    (job,) = local.jobs(planned, tmp_path, (), ())
    (where,) = local.slots([GPU], None)
    told = []
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)  # given back after the test
    with PretendedGPU():
        local_run(replace(job, **where._asdict()), lambda kind, payload: told.append((kind, payload)), Stop())
    assert ledger.standing(planned[0].spec.key).status == "done", told
    (attempt,) = ledger.attempts(planned[0].spec.key)
    recorded = json.loads((attempt.path / "environment.json").read_text())
    assert recorded["device"] == GPU
    assert environment.is_whole(recorded)
    result = attempt.result()
    assert (result["executed"], result["compiled"], result["graphs"]) == ("compiled", 2, 2)  # in the burn-in and after


def test_a_run_keeps_its_numbers_with_neighbours_on_a_gpu():
    task = replace(NETWORKS["Landsat-" + Landsat.protocols[0].name])
    alone, _ = advance(task, SGLD(), STEP, 8, "compiled", seeds=(1,), burn_in=7)
    together, _ = advance(task, SGLD(), STEP, 8, "compiled", seeds=(0, 1, 2), burn_in=7)
    torch.testing.assert_close(together.theta[2:4], alone.theta, **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_kernels_get_aligned_weights_and_statistics_in_every_row(precision):
    """The weights of these layers are odd parts of odd rows, of 4 bytes each."""
    task = Generated(**{**SHORT, "width": 1}, precision=precision)
    assert task.dim() % 4
    recorded, _ = same_recorded(task, SGLD(), STEP, WARM + 6, chains=3)
    on_cpu = run_loop(make_loop(task, SGLD(), STEP, WARM + 6, chains=3)).problem.buffers
    torch.testing.assert_close(recorded.problem.buffers, on_cpu, rtol=0.05, atol=0.05)
    assert not torch.allclose(on_cpu, task.build([Streams(0, 0)], "cpu").buffers, rtol=0.1, atol=0.1)


def test_draws_and_lost_chains_of_parts_are_those_of_the_whole_block():
    """Kept draws lie anywhere in the parts, and a chain is lost in the middle of one."""
    kept = []
    for mode in ("plain", "compiled"):
        with PretendedGPU():
            loop = make_loop(Mixture5(), SGLD(), Constant(step_size=0.01), 23, chains=3, thin=3, device=GPU, mode=mode)
            loop.runs[0].observer.observe = lambda draws, _, at: kept.append((draws.cpu(), at))
            run_loop(loop)
    (plain, steps), *rest = kept
    assert len(plain) == len(steps) > 5
    torch.testing.assert_close(torch.cat([draws for draws, _ in rest]), plain, **CLOSE)
    with PretendedGPU():
        loop = make_loop(Mixture5(), Explodes(), Constant(step_size=0.01), 23, chains=3, device=GPU, mode="compiled")
        loop.stage.h[13] = 2
        run_loop(loop)
    assert loop.runs[0].divergence.step == 14
