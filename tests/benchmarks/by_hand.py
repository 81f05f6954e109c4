"""A training step of small networks by SGHMC: ours, written by hand in torch, and posteriors'.

One process on one core. Ours is `Loop` as a worker drives it; *by hand* is a module with `loss.backward()` and in-place
operations on its parameters, on images that were standardised beforehand (cropped and flipped in each step where the
task does so); posteriors updates its state in place, too. Steps are measured in turn. The images are noise, which
costs the same.

python tests/benchmarks/by_hand.py '{"rounds": 5, "steps": 10, "task": "notmnist", "mode": "plain"}'
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import networks
from networks import answer, limit, seconds

Calls = tuple[Callable[[], object], Callable[[], object] | None]
"""A step, and the gradient of one batch alone where it can be called by itself."""
IMAGES = 6_000
RESNET = "cifar10, width 16"
FRICTION, H = 0.1, 1e-7
WARM = 5


def images() -> Any:
    import torch

    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (IMAGES, 784), dtype=torch.uint8, generator=generator)
    return pixels, torch.randint(0, 10, (IMAGES,), generator=generator)


def task_of(name: str) -> Any:
    """The task on these images; mnist-sparse in its second stage."""
    from tasks.vision.cnn import MnistCNN
    from tasks.vision.mnist_sparse import MnistSparse
    from tasks.vision.notmnist import NotMNIST

    if name == RESNET:
        return networks.noise_task({"width": 16, "batch": 64, "precision": "float32"}, IMAGES // 64 * 64)
    if name == "mnist-cnn":
        squares = {"images": lambda _self, _name: (images()[0].view(-1, 28, 28).numpy(), images()[1].numpy())}
        return type("Noise", (MnistCNN,), squares | {"size": IMAGES})()
    base: Any = {"notmnist": NotMNIST, "mnist-sparse": MnistSparse}[name]
    read = {"read": lambda _self, _part: tuple(leaf.numpy() for leaf in images()), "size": IMAGES}
    return type("Noise", (base,), read)()


def looped(name: str, mode: str) -> Calls:
    """A step of the harness's loop, and the gradient alone."""
    from harness.contracts.randomness import Streams
    from harness.engine.loop import Loop
    from plugins.samplers.sghmc import SGHMC
    from plugins.schedules.constant import Constant

    task, steps = task_of(name), 100_000
    path = Constant(step_size=H, temperature=1.0).trajectory(steps, task.steps_per_epoch()).with_burn_in(steps - 1)
    loop = Loop(task, SGHMC(friction=FRICTION), path, [Streams(0, 0)], 1, mode=mode)
    batch = {name: leaf[0] for name, leaf in loop.problem.draw_batches(1).items()}
    return loop.advance_block, lambda: loop.problem.gradient(loop.theta, batch)


class Batches:
    """Successive batches of standardised images, in the order of a permutation drawn anew in each epoch."""

    def __init__(self, task: Any) -> None:
        import torch

        arrays = {name: torch.from_numpy(leaf) for name, leaf in task.arrays("train").items()}
        self.task, self.labels, self.order = task, arrays["label"], []  # type: ignore[var-annotated]
        self.augmented = getattr(task, "augment", False)
        self.x = arrays["x"] if self.augmented else task.inputs(arrays["x"])

    def next(self) -> tuple[Any, Any]:
        import torch

        if not self.order:
            self.order = list(torch.randperm(len(self.x) // self.task.batch * self.task.batch).split(self.task.batch))
        index = self.order.pop()
        x = self.x[index]
        if self.augmented:
            from tasks.vision.augment import crop_and_flip

            shift, flip = torch.randint(0, 9, (len(index), 2)), torch.rand(len(index)) < 0.5
            x = self.task.inputs(crop_and_flip(x, shift, flip, 4))
        return x, self.labels[index]


def module(task: Any) -> Any:
    import torch
    from torch.nn import Linear, ReLU, Sequential

    from harness.contracts.module import Network

    network = task.network()
    if isinstance(network, Network):
        return network.make().to(memory_format=torch.channels_last)
    sizes = [task.features, *[task.width] * task.depth, task.classes]
    layers = [part for i, o in itertools.pairwise(sizes) for part in (Linear(i, o), ReLU())]
    return Sequential(*layers[:-1])


def by_hand(name: str) -> Calls:
    """A step as everyone writes it who minds speed, and the gradient alone."""
    import torch
    from torch.nn.functional import cross_entropy

    task = task_of(name)
    network, batches = module(task), Batches(task)
    parameters = list(network.parameters())
    velocities = [torch.zeros_like(p) for p in parameters]
    noise = [torch.empty_like(p) for p in parameters]
    scale = math.sqrt(2 * FRICTION * H)

    @torch.no_grad()
    def move() -> None:
        for p, v, xi in zip(parameters, velocities, noise, strict=True):
            v.mul_(1 - FRICTION).add_(p.grad, alpha=-H * task.terms())
            if name == "mnist-sparse" and p.ndim == 2:
                narrow, wide = 1 / task.spike, 1 / task.slab
                odds = p.square().mul_((narrow - wide) / 2).sub_(task.log_odds).sigmoid_()
                v.addcmul_(odds.mul_(wide - narrow).add_(narrow), p, value=-H)
            else:
                v.add_(p, alpha=-H * task.prior_precision)
            v.add_(xi.normal_(), alpha=scale)
            p.add_(v)

    def differentiate(x: Any, labels: Any) -> None:
        network.zero_grad()
        cross_entropy(network(x), labels).backward()

    def step() -> None:
        differentiate(*batches.next())
        move()

    batch = batches.next()
    return step, lambda: differentiate(*batch)


def posteriors(name: str) -> Calls:
    """A step of posteriors, in place, with the energy written as its documentation does."""
    import posteriors as library
    import torch
    from torch.nn.functional import cross_entropy

    task = task_of(name)
    network, batches = module(task), Batches(task)
    nothing = torch.tensor([])

    def log_prior(p: Any) -> Any:
        if name != "mnist-sparse" or p.ndim == 1:
            return -task.prior_precision / 2 * p.square().sum()
        square = p.square() / 2
        slab = math.log(task.inclusion / math.sqrt(task.slab)) - square / task.slab
        spike = math.log((1 - task.inclusion) / math.sqrt(task.spike)) - square / task.spike
        return torch.logaddexp(spike, slab).sum()

    def log_posterior(parameters: Any, batch: Any) -> Any:
        outputs = torch.func.functional_call(network, parameters, batch[0])
        return sum(map(log_prior, parameters.values())) - task.terms() * cross_entropy(outputs, batch[1]), nothing

    epsilon = math.sqrt(H)
    transform = library.sgmcmc.sghmc.build(log_posterior, lr=epsilon, alpha=FRICTION / epsilon)
    start = {key: leaf.detach().clone() for key, leaf in network.named_parameters()}
    carry = {"state": transform.init(start)}

    def step() -> None:
        carry["state"], _ = transform.update(carry["state"], batches.next(), inplace=True)

    return step, None


def measure(asked: Mapping[str, Any]) -> dict[str, Any]:
    name, mode = asked["task"], asked["mode"]
    makers: dict[str, Callable[[], Calls]] = {
        "bench": lambda: looped(name, mode),
        "by hand": lambda: by_hand(name),
        "posteriors": lambda: posteriors(name),
    }
    if name == RESNET:  # posteriors differentiates a function, which must not change running statistics
        makers.pop("posteriors")
    calls = {label: make() for label, make in makers.items() if label in asked.get("only", makers)}
    for step, _ in calls.values():
        seconds(step, WARM, "cpu")
    times: dict[str, list[float]] = {label: [] for label in calls}
    gradients: dict[str, list[float]] = {label: [] for label, (_, gradient) in calls.items() if gradient}
    for _ in range(asked["rounds"]):
        for label, (step, gradient) in calls.items():
            times[label].append(seconds(step, asked["steps"], "cpu"))
            if gradient:
                gradients[label].append(seconds(gradient, asked["steps"], "cpu"))
    peak = {"limit": limit(calls["by hand"][0], "cpu")} if "by hand" in calls else {}
    return {"task": name, "mode": mode, "times": times, "gradients": gradients, **peak}


if __name__ == "__main__":
    answer(measure)
