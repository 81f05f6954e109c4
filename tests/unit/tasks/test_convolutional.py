import dataclasses

import numpy as np
import pytest
import torch
from generated import SMALL, Exact, Generated
from support import make_loop, run_loop

from harness.contracts.randomness import NOISE_BLOCK_NUMBERS, Streams
from plugins.checking.task_laws import TASK_LAWS
from plugins.samplers.msgld import MSGLD
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from tasks.networks.resnet import ResNet18

pytestmark = pytest.mark.usefixtures("one_thread")

N, STEPS = SMALL["train_images"], 5
LOOPS = {"blocks do not matter", "weights count", "compiled is plain"}
"""Laws that take long: thousands of predictions, a compilation. `bench check cifar10` tries them."""


def task(cls=Exact, **settings):
    return cls(**{**SMALL, "normalisation": "filter-response", "prior_precision": 3.0, **settings})


def plain_module(cifar, streams):
    """The network as everyone writes it, where a chain starts."""
    network = cifar.network()
    weights = network.start(streams.torch("init"))
    module = ResNet18(10, cifar.width, cifar.normalisation)
    module.load_state_dict(network.weights(weights), strict=False)
    return module.to(torch.float64).train()


def batches(cifar, streams, reach):
    """The batches of an epoch by hand: images, classes, and the number of batches."""
    images, labels = cifar.images("train")
    order = streams.numpy("order").permutation(N)
    count = -(-N // cifar.batch)
    changes = streams.numpy("data")
    shift = changes.integers(0, 2 * reach + 1, (count, cifar.batch, 2), dtype=np.uint8)
    flip = changes.integers(0, 2, (count, cifar.batch, 1), dtype=np.uint8)
    side = cifar.side
    for k in range(count):
        rows = order[k * cifar.batch : (k + 1) * cifar.batch]
        cut = []
        for i, row in enumerate(rows):
            image = np.pad(images[row], ((reach, reach), (reach, reach), (0, 0)))
            down, across = shift[k, i]
            image = image[down : down + side, across : across + side]
            cut.append(image[:, ::-1] if flip[k, i] else image)
        x = torch.tensor(np.array(cut) / 255 - np.array(cifar.mean)) / torch.tensor(cifar.sd, dtype=torch.float64)
        yield x.permute(0, 3, 1, 2), torch.from_numpy(labels[rows]), count


def loss_on(module, x, y, count):
    return count * torch.nn.functional.cross_entropy(module(x), y, reduction="sum")


def flattened(cifar, tensors):
    names = cifar.network().shapes
    return torch.cat([(t.permute(0, 2, 3, 1) if t.ndim == 4 else t).reshape(-1) for t in (tensors[n] for n in names)])


def test_an_epoch_of_sgld_equals_a_loop_written_by_hand():
    cifar, streams, h, T = task(), Streams(0, 0, ("test",)), 1e-5, 0.3
    loop = run_loop(make_loop(cifar, SGLD(), Constant(step_size=h, temperature=T), STEPS, chains=1))
    module = plain_module(cifar, streams)
    generator = streams.numpy("noise")
    dim = cifar.dim()
    assert NOISE_BLOCK_NUMBERS // dim >= STEPS  # the noise of the epoch is one draw
    noise = generator.standard_normal((STEPS, dim))
    for k, (x, y, count) in enumerate(batches(cifar, streams, 4)):
        module.zero_grad()
        loss_on(module, x, y, count).backward()
        start = 0
        with torch.no_grad():
            for p in module.parameters():
                xi = torch.from_numpy(noise[k, start : start + p.numel()])
                start += p.numel()
                if p.ndim == 4:
                    o, i, height, width = p.shape
                    xi = xi.view(o, height, width, i).permute(0, 3, 1, 2)
                p.sub_(h * (p.grad + cifar.prior_precision * p) - (2 * h * T) ** 0.5 * xi.reshape(p.shape))
    expected = flattened(cifar, dict(module.named_parameters()))
    assert float((loop.theta[0] - expected).abs().max().detach()) < 1e-10


def test_running_statistics_are_those_of_a_plain_module_and_belong_to_the_draw():
    cifar, streams, lr = task(normalisation="batch"), Streams(0, 0, ("test",)), 0.01
    loop = make_loop(cifar, SGLD(), Constant(step_size=lr / N, temperature=0.0), STEPS, chains=1)
    assert loop.problem.block_limit == 1
    run_loop(loop)
    module = plain_module(cifar, streams)
    optimiser = torch.optim.SGD(module.parameters(), lr=lr, weight_decay=cifar.prior_precision / N)
    for x, y, count in batches(cifar, streams, 4):
        optimiser.zero_grad()
        (loss_on(module, x, y, count) / N).backward()
        optimiser.step()
    running = dict(module.named_buffers())
    statistics = loop.problem.network.statistics(loop.problem.buffers[0])
    for name, leaf in statistics.items():
        torch.testing.assert_close(leaf, running[name], rtol=1e-10, atol=1e-12)
    assert len(statistics) == 40
    observed = loop.runs[0].observer.outcome().arrays["buffers"]
    assert len(np.unique(observed, axis=0)) == STEPS
    torch.testing.assert_close(torch.from_numpy(observed[-1]), loop.problem.buffers[0], check_dtype=False)


def test_energies_and_full_gradients_leave_the_running_statistics_alone():
    problem = task(normalisation="batch").build([Streams(0, 0)], "cpu")
    theta = problem.initial()
    drawn = {name: leaf[0] for name, leaf in problem.draw_batches(1).items()}
    before = problem.buffers.clone()
    problem.energy(theta, drawn)
    problem.energy(theta, None)
    problem.gradient(theta, None)
    assert torch.equal(problem.buffers, before)
    problem.gradient(theta, drawn)
    assert not torch.equal(problem.buffers, before)


def test_a_loop_restored_from_a_checkpoint_goes_on_bit_for_bit():
    cifar = task(Generated, normalisation="batch")
    schedule = Constant(step_size=1e-4)
    straight, first, second = (make_loop(cifar, MSGLD(), schedule, 9, chains=1) for _ in range(3))
    run_loop(straight)
    while first.position < 4:
        first.advance_block()
    second.restore([first.checkpoint(first.runs[0])])
    run_loop(second)
    assert torch.equal(second.theta, straight.theta)
    assert torch.equal(second.problem.buffers, straight.problem.buffers)
    assert second.runs[0].observer.outcome().metrics == straight.runs[0].observer.outcome().metrics


def test_bfloat16_runs_and_is_near_the_whole_precision():
    drawn, gradients = None, {}
    for precision in ("float32", "bfloat16"):
        problem = task(Generated, precision=precision, normalisation="group").build([Streams(0, 0)], "cpu")
        theta = problem.initial()
        drawn = drawn or {name: leaf[0] for name, leaf in problem.draw_batches(1).items()}
        gradients[precision] = problem.gradient(theta, drawn)
        assert gradients[precision].dtype == torch.float32
        assert all(p.dtype == torch.float32 for p in problem.predict(theta, slice(0, 1), "test"))
    cosine = torch.nn.functional.cosine_similarity(*gradients.values())
    assert 0.98 < float(cosine) < 1 - 1e-7


@pytest.mark.slow
def test_compiled_updates_take_the_modules_own_gradient():
    cifar = task(Generated, normalisation="batch")
    ends = [
        run_loop(make_loop(cifar, MSGLD(), Constant(step_size=1e-5), 3, chains=1, mode=mode)).theta
        for mode in ("plain", "compiled")
    ]
    torch.testing.assert_close(*ends, rtol=1e-4, atol=1e-6)


def test_it_learns_what_shows_in_the_images():
    """Below the 90 % of chance by five standard errors; which error it reaches depends on the processor's rounding."""
    images, steps = 300, 200
    cifar = dataclasses.replace(task(normalisation="batch", augment=False), width=4, test_images=images)
    schedule = Constant(step_size=0.05 / N, temperature=1e-5)
    loop = make_loop(cifar, MSGLD(), schedule, steps, chains=1, burn_in=steps - 3)
    values = run_loop(loop).runs[0].observer.outcome().metrics
    assert values["test_error"] < 90 - 5 * 100 * (0.9 * 0.1 / images) ** 0.5
    assert {"nll", "ece", "brier", "single_test_error", "disagreement"} <= values.keys()


def test_every_chain_of_a_block_has_a_gradient_of_its_own():
    cifar = task(normalisation="batch")
    streams = [Streams(0, c, ("test",)) for c in range(2)]
    together = cifar.build(streams, "cpu")
    theta = together.initial()
    drawn = {name: leaf[0] for name, leaf in together.draw_batches(1).items()}
    energy, gradient = together.energy_and_gradient(theta, drawn)
    for c, chain_streams in enumerate(streams):
        alone = cifar.build([chain_streams], "cpu")
        batch = {name: leaf[0] for name, leaf in alone.draw_batches(1).items()}
        value, slope = alone.energy_and_gradient(theta[c : c + 1], batch)
        assert torch.equal(value[0], energy[c])
        assert torch.equal(slope[0], gradient[c])
        assert torch.equal(alone.buffers[0], together.buffers[c])


@pytest.mark.parametrize(
    ("law", "check", "model"),
    [
        pytest.param(law, check, model, id=f"{law}-{model}", marks=[pytest.mark.slow] * (law == "mean of batches"))
        for law, check in TASK_LAWS
        for model in ("resnet18", "resnet20")
    ],
)
def test_the_laws_hold_on_made_up_images(law, check, model):
    if law in LOOPS or law == "truth by another route":
        pytest.skip("takes long, or there is no truth")
    check(Generated(model=model).for_laws())
