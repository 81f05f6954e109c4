"""cifar10@hmc: the network, the images and the settings of the paper's code, and the published predictions."""

import dataclasses

import numpy as np
import pytest
import torch
from generated import EVEN_SIDES, Generated
from support import make_loop, run_loop
from torch.nn.functional import avg_pool2d, conv2d, pad

from harness.contracts.predictions import REFERENCE_METRICS, averaged_scores
from harness.contracts.randomness import Streams
from harness.contracts.registry import load, registry
from harness.runs.plan import RunRequest, expand
from harness.system.errors import DataError
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from tasks.datasets.cifar import CIFAR10, HMC_PREDICTIONS, cifar10, hmc_predictions, tfds_order
from tasks.networks.resnet20 import ResNet20
from tasks.vision import cifar
from tasks.vision.cifar import Cifar10

(HMC,) = (protocol for protocol in Cifar10.protocols if protocol.name == "hmc")


def same(x, kernel, bias, stride):
    """A convolution with "SAME" padding as XLA defines it: the larger half of what is missing is on the right."""
    side, size = kernel.shape[-1], x.shape[-1]
    missing = max((-(-size // stride) - 1) * stride + side - size, 0)
    low, high = missing // 2, missing - missing // 2
    return conv2d(pad(x, (low, high, low, high)), kernel, bias, stride)


def by_hand(parameters, x):
    """The network as its source writes it, from the parameters in their order."""
    left = iter(parameters)

    def layer(x, stride=1, *, activation):
        x = same(x, next(left), next(left), stride)
        gamma, beta, tau = (next(left)[:, None, None] for _ in range(3))
        y = torch.maximum(gamma * x * torch.rsqrt((x**2).mean((2, 3), keepdim=True) + 1e-6) + beta, tau)
        return y * torch.sigmoid(y) if activation else y

    x = layer(x, activation=True)
    for stack in range(3):
        for block in range(3):
            stride = 2 if stack > 0 and block == 0 else 1
            y = layer(layer(x, stride, activation=True), activation=False)
            x = layer(x, stride, activation=False) if stride == 2 else x
            x = (x + y) * torch.sigmoid(x + y)
    return avg_pool2d(x, x.shape[-1]).flatten(1) @ next(left).T + next(left)


@pytest.mark.parametrize("side", [32, 16])
def test_the_network_is_that_of_the_papers_code(side):
    generator = torch.Generator().manual_seed(0)
    module = ResNet20(10, 3).double()
    with torch.no_grad():
        for leaf in module.parameters():
            leaf.copy_(torch.randn(leaf.shape, generator=generator, dtype=torch.float64))
    x = torch.randn((4, 3, side, side), generator=generator, dtype=torch.float64)
    torch.testing.assert_close(module(x), by_hand(module.parameters(), x))


def test_the_network_has_the_parameters_of_the_paper_and_starts_as_its_code_does():
    torch.manual_seed(0)
    module = ResNet20(10)
    assert sum(leaf.numel() for leaf in module.parameters()) == 274_042
    assert not list(module.buffers())
    for name, leaf in module.state_dict().items():
        if leaf.ndim > 1:
            sd = (2 / leaf[0].numel()) ** 0.5
            assert float(leaf.std() / sd) == pytest.approx(1, abs=5 / leaf.numel() ** 0.5), name
            assert float(leaf.abs().max()) <= 2 * sd / 0.8796
        else:
            assert set(leaf.tolist()) <= ({0, 1} if name.endswith("weight") else {0}), name


def test_each_normalisation_makes_a_network_of_twenty_layers():
    for kind in ("batch", "filter-response", "group"):
        task = Cifar10(model="resnet20", width=2, normalisation=kind)
        assert (
            sum("conv" in name or len(shape) > 1 for name, shape in task.network().shapes.items()) == 22
        )  # 2 shortcuts


def test_images_come_in_the_order_of_tensorflow_datasets(monkeypatch):
    assert tfds_order("test", 10_000)[:5].tolist() == [9933, 5669, 163, 6686, 4747]
    train = tfds_order("train", 50_000)
    assert sorted(train) == list(range(50_000))
    numbered = np.arange(50_000).reshape(-1, 1, 1, 1) % 251 * np.ones((1, 2, 2, 3)), np.arange(50_000)
    monkeypatch.setitem(cifar.READERS, "cifar10", lambda _: numbered)
    images, labels = Cifar10(**HMC.task_settings()).images("train")
    assert labels.tolist() == train[:40_960].tolist()
    assert (images[:, 1, 1, 2] == labels % 251).all()
    assert Cifar10(**HMC.task_settings(), test_images=7).images("test")[1].tolist() == list(range(7))
    assert Cifar10(train_images=70).images("train")[1].tolist() == list(range(70))


def test_images_are_scaled_as_in_the_papers_code():
    task = Cifar10(**HMC.task_settings())
    x = task.inputs(torch.full((1, 1, 1, 3), 255, dtype=torch.uint8)).flatten()
    assert x.tolist() == pytest.approx([0.51 / 0.2, 0.52 / 0.2, 0.56 / 0.2])


def test_the_reference_brings_its_file_and_metrics():
    names = {metric.name for metric in REFERENCE_METRICS}
    assert names == {"agreement", "total_variation"}
    with_reference = Cifar10(**HMC.task_settings())
    assert with_reference.datasets == (*CIFAR10, HMC_PREDICTIONS)
    assert names <= {metric.name for metric in with_reference.metrics}
    assert with_reference.metrics[0].name == "test_error"
    assert Cifar10().datasets == CIFAR10
    assert not names & {metric.name for metric in Cifar10().metrics}


def test_without_the_file_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    hmc_predictions.cache_clear()
    with pytest.raises(DataError, match=r"data set cifar10-hmc: .* is missing; `bench data fetch cifar10-hmc`"):
        hmc_predictions()
    (tmp_path / "cifar10-hmc").mkdir()
    (tmp_path / "cifar10-hmc" / "probs.csv").write_bytes(b"0" * HMC_PREDICTIONS.size)
    with pytest.raises(DataError, match="is altered"):
        hmc_predictions()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compared(Generated):
    """Images that are made up, with a reference that is made up too."""

    def arrays(self, part):
        arrays = super().arrays(part)
        rows = np.random.default_rng(0).dirichlet(np.ones(10), size=len(arrays["label"]))
        return {**arrays, "reference": rows} if part == "test" else arrays


def test_a_run_is_compared_with_the_reference():
    task = Compared(**EVEN_SIDES, model="resnet20", normalisation="filter-response")
    reference = task.arrays("test")["reference"]
    outcome = run_loop(make_loop(task, SGLD(), Constant(step_size=1e-6), 6, chains=1)).runs[0].observer.outcome()
    mean, metrics = outcome.arrays["probabilities"], outcome.metrics
    assert metrics["agreement"] == (mean.argmax(1) == reference.argmax(1)).mean()
    assert metrics["total_variation"] == pytest.approx(np.abs(mean - reference).sum(1).mean() / 2, rel=1e-5)
    tuning = task.build([Streams(10**9, 0)], "cpu")
    assert tuning.reference is None  # its test rows are training images


def spec(method, budget="paper", **given):
    ((_, (run,)),) = expand(registry(), RunRequest([method], ["cifar10@hmc"], seeds=[0], budget=budget, given=given))
    return run


def kept(run, epoch=512):
    schedule = load(registry().find("schedules", run.schedule.name).info.target)(**run.schedule.params)
    return schedule.trajectory(run.steps, epoch).with_burn_in(run.burn_in, run.thin)


@pytest.mark.parametrize(
    ("method", "lr", "momentum", "every"),
    [
        ("sgld", 1e-6, None, 10),
        ("sghmc", 3e-7, 0.9, 10),
        ("csghmc", 3e-7, 0.95, 50),
        ("csghmc-prec", 3e-5, 0.95, 50),
    ],
)
def test_the_papers_settings_keep_its_draws_at_temperature_1(method, lr, momentum, every):
    run = spec(method)
    assert run.steps == 10_000 * 512
    assert (run.task.params["prior_precision"], run.task.params["augment"]) == (5.0, False)
    if momentum is not None:
        assert run.sampler.params["friction"] == pytest.approx(1 - momentum)
    path = kept(run)
    assert (np.flatnonzero(path.keep) + 1).tolist() == [512 * e for e in range(1000 + every, 10_001, every)]
    assert path.step_size.max() == lr
    assert set(path.temperature.tolist()) == {1.0}
    for budget in ("smoke", "quick"):
        assert 4 <= kept(spec(method, budget)).keep.sum() <= 102


@pytest.mark.data
def test_the_published_predictions_score_as_published():
    labels = cifar10("test")[1]
    probabilities = hmc_predictions()
    scores = averaged_scores(probabilities, labels, probabilities)
    assert (scores["agreement"], scores["total_variation"]) == (1, 0)
    assert scores["test_error"] == pytest.approx(100 - 91.44)
    assert scores["nll"] == pytest.approx(0.27731, abs=5e-6)
    assert scores["brier"] == pytest.approx(0.13393, abs=5e-6)
    assert scores["ece"] == pytest.approx(0.0522, abs=5e-5)
    published = probabilities[tfds_order("test", len(probabilities))]
    assert averaged_scores(published, labels)["test_error"] == pytest.approx(100 - 9.92)
