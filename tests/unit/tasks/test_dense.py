"""Tasks of fully connected networks, on inputs made up here; the real files where they are there."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.stats import norm
from support import make_loop, run_loop

from harness.contracts.data import problem
from harness.contracts.randomness import Streams
from harness.engine.loop import Loop
from plugins.checking.law import trajectory
from plugins.checking.task_laws import TASK_LAWS
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from tasks.vision.landsat import Landsat
from tasks.vision.mnist_sparse import MnistSparse
from tasks.vision.notmnist import NotMNIST

LAWS = dict(TASK_LAWS)
TRAIN = 60


def clusters(task, name):
    """Inputs with which the classes have something to do."""
    generator = np.random.default_rng({"train": 0, "test": 1}.get(name, 2))
    centres = np.random.default_rng(9).integers(0, 200, size=(task.classes, task.features))
    classes = generator.integers(task.classes, size=TRAIN if name == "train" else 40)
    inputs = centres[classes] + generator.integers(0, 50, size=(len(classes), task.features))
    return inputs.astype(np.uint8), classes


@dataclass(frozen=True, kw_only=True)
class MadeNotMNIST(NotMNIST):
    features = 20
    size = TRAIN

    def read(self, name):
        return clusters(self, name)


@dataclass(frozen=True, kw_only=True)
class MadeLandsat(Landsat):
    size = TRAIN

    def read(self, name):
        return clusters(self, name)


@dataclass(frozen=True, kw_only=True)
class MadeSparse(MnistSparse):
    features = 20
    size = TRAIN

    def read(self, name):
        return clusters(self, name)


TASKS = [MadeNotMNIST(batch=13), MadeLandsat(batch=13), MadeSparse(batch=13, width=6)]
QUICK = [
    "mean of batches", "gradient is that of the energy", "prior counted once", "batch sizes agree",
    "state restores the batches", "chains do not interact", "chains have their own streams",
]  # fmt: skip


@pytest.mark.parametrize("law", QUICK)
@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_the_laws_that_take_no_time(task, law):
    LAWS[law](task.for_laws())


@pytest.mark.parametrize("law", ["blocks do not matter", "weights count"])
def test_the_laws_of_the_observer_that_counts_weights(law):
    LAWS[law](MadeSparse(batch=13).for_laws())


@pytest.mark.parametrize(("task", "dim"), [(NotMNIST(), 239_410), (Landsat(), 2226), (MnistSparse(), 1_276_810)])
def test_the_numbers_of_weights_are_the_papers(task, dim):
    assert task.dim() == dim


def test_without_noise_sgld_is_torchs_sgd_on_the_same_batches():
    task, h, epochs = replace(MadeNotMNIST(batch=13, depth=2).for_laws(), prior_precision=3.0), 1e-3, 2
    streams = [Streams(4, 0, ("test",))]
    steps = epochs * task.steps_per_epoch()
    loop = Loop(task, SGLD(), trajectory(np.full(steps, h), 0.0), streams, 1)
    start = loop.theta[0].clone()
    run_loop(loop)

    network = torch.nn.Sequential(
        torch.nn.Linear(20, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 10)
    ).double()
    torch.nn.utils.vector_to_parameters(start.clone(), network.parameters())
    optimiser = torch.optim.SGD(network.parameters(), lr=h, weight_decay=3.0)
    inputs, classes = (torch.from_numpy(part) for part in task.read("train"))
    mean, sd = task.standard()
    order = streams[0].numpy("order")
    for _ in range(epochs):
        for index in torch.from_numpy(order.permutation(TRAIN)).split(13):
            optimiser.zero_grad()
            logits = network((inputs[index].double() - mean) / sd)
            (5 * torch.nn.functional.cross_entropy(logits, classes[index], reduction="sum")).backward()
            optimiser.step()
    weights = torch.nn.utils.parameters_to_vector(network.parameters()).detach()
    assert (loop.theta[0] - weights).abs().max() < 1e-10
    assert (weights - start).abs().max() > 1e-3


def sparse(chains=1, **settings):
    task = MadeSparse(batch=20, width=6, **settings)
    return task, task.build([Streams(0, c, ("test",)) for c in range(chains)], "cpu")


def test_the_threshold_is_the_papers_and_where_both_widths_are_as_likely():
    task = MnistSparse()
    assert round(task.threshold, 7) == 0.0199642
    w = task.threshold
    slab, spike = (norm.pdf(w, scale=v**0.5) for v in (task.slab, task.spike))
    assert task.inclusion * slab == pytest.approx((1 - task.inclusion) * spike)


def test_the_prior_of_two_widths_and_its_gradient():
    task, made_up = sparse()
    theta = torch.linspace(-0.1, 0.1, made_up.dim, dtype=torch.float64)[None].requires_grad_()
    w = theta.detach().numpy()[0]
    both = task.inclusion * norm.pdf(w, scale=task.slab**0.5) + (1 - task.inclusion) * norm.pdf(
        w, scale=task.spike**0.5
    )
    connections = task.connections("cpu").numpy()
    assert connections.sum() == 20 * 6 + 6 * 6 + 6 * 10
    expected = np.where(connections, -np.log(both), w**2 / 2).sum()
    energy = made_up.prior(theta, None)
    assert float(energy.detach()) == pytest.approx(expected)
    (slope,) = torch.autograd.grad(energy.sum(), theta)
    assert torch.allclose(made_up.prior_gradient(theta.detach(), None), slope, rtol=1e-9, atol=1e-12)
    assert float(task.kept(theta.detach())) == pytest.approx((np.abs(w) >= task.threshold)[connections].mean())


def test_the_prior_changes_after_the_dense_steps_and_a_restored_problem_knows_where_it_is():
    _, made_up = sparse(chains=2, dense_steps=3)
    theta = made_up.initial()
    wide, narrow = theta, made_up.prior_gradient(theta, None)
    batches = []
    for step in range(1, 6):
        batches.append({name: leaf[0] for name, leaf in made_up.draw_batches(1).items()})
        assert torch.equal(made_up.prior_gradient(theta, batches[-1]), wide if step <= 3 else narrow), step
        assert torch.equal(made_up.prior_gradient(theta, batches[0]), wide), "a gradient is a function of its batch"
        _, other = sparse(chains=2, dense_steps=3)
        other.load({name: leaf.clone() for name, leaf in made_up.state().items()})
        made_up = other


@pytest.mark.parametrize("task", [*TASKS, replace(TASKS[2], dense_steps=9)], ids=lambda task: type(task).__name__)
def test_a_gradient_without_its_energy_has_the_same_bits(task):
    made_up = task.build([Streams(0, c, ("test",)) for c in range(2)], "cpu")
    theta = made_up.initial()
    batch = {name: leaf[0] for name, leaf in made_up.draw_batches(1).items()}
    for drawn in (batch, None):
        assert torch.equal(made_up.gradient(theta, drawn), made_up.energy_and_gradient(theta, drawn)[1])


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_a_gradient_computes_no_energy(task, monkeypatch):
    made_up = task.build([Streams(0, 0, ("test",))], "cpu")
    monkeypatch.setattr(type(made_up), "prior", lambda *_: pytest.fail("the prior's energy is not asked for"))
    made_up.gradient(made_up.initial(), None)


@pytest.mark.data
def test_the_real_landsat_has_six_classes_and_is_standardised_where_that_is_asked_for():
    task = Landsat(preprocessing="standardised")
    wrong = [problem(file) for file in task.datasets if problem(file)]
    if wrong:
        pytest.skip(f"Landsat is {wrong[0]} under BENCH_DATA")
    inputs, classes = task.read("train")
    mean, sd = task.standard()
    assert np.bincount(classes).tolist() == [1072, 479, 961, 415, 470, 1038]
    assert np.abs(((inputs - mean) / sd).mean(axis=0)).max() < 1e-6
    assert np.bincount(task.read("test")[1]).tolist() == [461, 224, 397, 211, 237, 470]


def test_the_errors_along_a_run_are_means_of_the_curves_of_single_draws():
    """Of all draws that are kept, where the other metrics average the last 200."""
    task, schedule = MadeLandsat(batch=13, width=4), Constant(step_size=1e-3)
    outcome = run_loop(make_loop(task, SGLD(), schedule, 240)).runs[0].observer.outcome()
    for rows in ("test", "train"):
        curve = outcome.curves[f"single_{rows}_error"][1]
        assert curve.shape == (2, 240)
        assert curve[:, -200:].mean() != pytest.approx(curve.mean())
        assert outcome.metrics[f"run_{rows}_error"] == pytest.approx(curve.mean())
