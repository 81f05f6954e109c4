"""The local posterior of deep linear networks, judged by the learning coefficient."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from harness import param
from harness.tasks import (
    DataProblem,
    DataTask,
    Metric,
    Observer,
    Outcome,
    Protocol,
    Streams,
    Truth,
    finite_or_none,
)
from tasks.deep_linear.learning_coefficient import learning_coefficient

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost

    Array = NDArray[np.float64]
    Batch = dict[str, Tensor]

BOX = 10.0
"""Inputs are uniform on [-BOX, BOX]."""
FULL = 0.8
"""Least share of theta that is weights."""
STRETCH = 1.25
"""Largest singular value of a true layer; the least of those that are not 0 is its inverse."""
APART = 1e-6
"""Sd of the starting points around the true weights."""
GROUP = 2_000_000
"""Numbers of draws whose losses are computed at once."""


class TrueNetwork(NamedTuple):
    """Widths H_0 ... H_L, the rank r of each layer and of their product, and the layers W_l (H_l, H_{l-1})."""

    widths: tuple[int, ...]
    rank: int
    weights: tuple[Array, ...]

    @property
    def coefficient(self) -> float:
        """The learning coefficient at these weights."""
        return learning_coefficient(self.widths, self.rank)


def drawn(source: Streams, task: DeepLinear) -> TrueNetwork:
    """Return the network of a seed: widths until they fit theta, then a rank of 1 to the least width, then layers.

    W_l = V_l diag(s_l) V_{l-1}',    V_l (H_l, r) random and orthonormal, log s uniform within +-log 1.25
    """
    generator = source.numpy("data", per_chain=False)
    while True:
        layers = generator.integers(*task.depths, endpoint=True) if task.layers is None else task.layers
        widths = tuple(generator.integers(*task.widths, layers + 1, endpoint=True).tolist())
        if FULL * task.size <= sum(a * b for a, b in itertools.pairwise(widths)) <= task.size:
            break
    rank = int(generator.integers(1, min(widths), endpoint=True))
    bases = [np.linalg.qr(generator.standard_normal((width, rank)))[0] for width in widths]
    scales = STRETCH ** generator.uniform(-1, 1, (len(widths) - 1, rank))
    pairs = zip(itertools.pairwise(bases), scales, strict=True)
    return TrueNetwork(widths, rank, tuple(above * scale @ below.T for (below, above), scale in pairs))


class Model:
    """The potential of chains of one run, with the network and the data of its seed.

    x      the inputs (n + 1, H_0), zeros in the last row
    gram   X'X, (H_0, H_0): on all the data sum_i |E x_i|^2 = tr(E X'X E')
    """

    def __init__(self, task: DeepLinear, source: Streams, device: str) -> None:
        import torch

        self.true = drawn(source, task)
        kind = {"dtype": getattr(torch, task.dtype), "device": device}
        rows = source.numpy("inputs", per_chain=False).random((task.terms() + 1, self.true.widths[0]), dtype=task.dtype)
        rows = BOX * (2 * rows - 1)
        rows[-1] = 0
        self.x = torch.from_numpy(rows).to(device)
        self.gram = self.x.T @ self.x
        self.beta = task.beta
        self.shapes = [weight.shape for weight in self.true.weights]
        self.sizes = [out * into for out, into in self.shapes]
        flat = np.concatenate([weight.ravel() for weight in self.true.weights])
        self.centre = torch.from_numpy(np.pad(flat, (0, task.size - len(flat)))).to(**kind)
        self.product = torch.from_numpy(np.linalg.multi_dot(self.true.weights[::-1])).to(**kind)

    def products(self, theta: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Return the layers W_l (C, H_l, H_{l-1}), as views, and the products W_l ... W_1."""
        import torch

        pieces = theta.split([*self.sizes, theta.shape[1] - sum(self.sizes)], 1)
        layers = [piece.reshape(len(theta), *shape) for piece, shape in zip(pieces, self.shapes, strict=False)]
        return layers, list(itertools.accumulate(layers, lambda below, layer: torch.bmm(layer, below)))

    def losses(self, theta: Tensor) -> Tensor:
        """Return n beta L_n (C,) on all the data."""
        off = self.products(theta)[1][-1] - self.product
        return self.beta * ((off @ self.gram) * off).sum((1, 2))

    def energy_and_gradient(self, theta: Tensor, index: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D) on the rows of `index` (C, n), or on all of them."""
        import torch

        layers, products = self.products(theta)
        off = products[-1] - self.product
        if index is None:
            slope = torch.bmm(off, self.gram.expand(len(off), -1, -1))
            energy = (slope * off).sum((1, 2))
        else:
            rows = self.x[index]
            errors = torch.bmm(rows, off.mT)
            energy, slope = errors.square().sum((1, 2)), torch.bmm(errors.mT, rows)
        factor = self.beta * scale
        away = theta - self.centre
        delta, slopes = 2 * factor * slope, []
        for number in range(len(layers) - 1, -1, -1):
            slopes.append(torch.bmm(delta, products[number - 1].mT) if number else delta)
            delta = torch.bmm(layers[number].mT, delta)
        flat = torch.cat([each.flatten(1) for each in slopes[::-1]], 1)
        gradient = torch.nn.functional.pad(flat, (0, theta.shape[1] - flat.shape[1])) + away
        return factor * energy + away.square().sum(1) / 2, gradient


class DeepLinearProblem(DataProblem):
    """The potential of chains whose network and data are those of their run's seed."""

    task: DeepLinear

    def read(self) -> dict[str, Tensor]:
        sources = [self.task.source(stream) for stream in self.streams]
        models = {source: Model(self.task, source, self.device) for source in dict.fromkeys(sources)}
        counts = [(source, len(list(same))) for source, same in itertools.groupby(sources)]
        ends = list(itertools.accumulate(count for _, count in counts))
        self.runs = [
            (models[source], slice(end - count, end)) for (source, count), end in zip(counts, ends, strict=True)
        ]
        return {}

    def initial(self) -> Tensor:
        import torch

        centres = [model.centre.expand(chains.stop - chains.start, -1) for model, chains in self.runs]
        return torch.cat(centres) + APART * super().initial()

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        import torch

        index = [batch["index"][chains] if batch else None for _, chains in self.runs]
        parts = [
            model.energy_and_gradient(theta[chains], rows, self.scale(batch))
            for (model, chains), rows in zip(self.runs, index, strict=True)
        ]
        energies, gradients = zip(*parts, strict=True)
        return torch.cat(energies), torch.cat(gradients)

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        return self.energy_and_gradient(theta, batch)[0]

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        return self.energy_and_gradient(theta, batch)[1]

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        model = next(model for model, chains in self.runs if chains.start <= rows.start < chains.stop)
        return CoefficientObserver(model, rows.stop - rows.start)


class CoefficientObserver(Observer):
    """The estimate n beta (mean L_n - L_n(w_0)) of the learning coefficient by the draws; L_n(w_0) is 0.

    Its curve `learning_coefficient` has the true value as x (1,) and the estimate of each chain as y (C, 1); its arrays
    are the `widths` (L + 1,) and the `rank` (1,) of the true network.
    """

    def __init__(self, model: Model, chains: int) -> None:
        import torch

        self.model = model
        self.tensors = {name: torch.zeros(chains, dtype=torch.float64) for name in ("loss", "weight")}

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        import torch

        flat = draws.flatten(0, 1)
        losses = [self.model.losses(part) for part in flat.split(max(1, GROUP // flat.shape[1]))]
        shares = weights.double().cpu()
        self.tensors["loss"] += (torch.cat(losses).view(draws.shape[:2]).double().cpu() * shares).sum(0)
        self.tensors["weight"] += shares.sum(0)

    def outcome(self) -> Outcome:
        loss, weight = (self.tensors[name].numpy() for name in ("loss", "weight"))
        if not weight.all():
            return Outcome({})
        true = self.model.true
        ratio = finite_or_none(float(loss.sum() / weight.sum() / true.coefficient))
        return Outcome(
            {
                "learning_coefficient_error": None if ratio is None else abs(ratio - 1),
                "learning_coefficient_ratio": ratio,
            },
            {"learning_coefficient": (np.array([true.coefficient]), (loss / weight)[:, None])},
            {"widths": np.array(true.widths), "rank": np.array([true.rank])},
        )

    def state(self) -> dict[str, Tensor]:
        return {name: leaf.clone() for name, leaf in self.tensors.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.tensors = {name: state[name].clone() for name in self.tensors}


@dataclass(frozen=True, kw_only=True)
class DeepLinear(DataTask):
    """U(w) = n beta L_n(w) + |w - w_0|^2 / 2, a posterior near the true weights of a deep linear network.

        L_n(w) = mean_i |W_L ... W_1 x_i - y_i|^2,    y_i = W_L0 ... W_10 x_i without noise,    beta = 1 / log n

    A network is a seed: depth, widths, rank and true weights w_0, and the inputs, are those of the run's seed, and runs
    start at w_0 (at N(w_0, 1e-12 I), so that no two chains are the same). As n grows, their estimate by the draws,
    n beta (mean L_n(w) - L_n(w_0)), tends to the learning coefficient of w_0, which is known. At this n two chains of
    long HMC are within 1 % of it on four networks of two layers (docs/deep-linear-networks.md). Every layer of w_0 has
    the rank of the product. At other weights with the same product the coefficient can be larger than the formula.

    theta has `size` numbers. Widths are drawn until the weights are 80 % of them or more, and the rest have no part in
    the network; their density is N(0, 1). Inputs are uniform on [-10, 10] as in Lau et al., whose setup the source
    follows; we could not compare it with the code of either. The layers of w_0 are ours.

    size     D
    depths   least and largest number of layers
    widths   least and largest width
    rows     n
    steepest the largest eigenvalue of the Hessian of U at w_0 among the networks of seeds 0 to 9

    Source: R. Hitchcock, J. Hoogland, "From Global to Local: A Scalable Benchmark for Local Posterior Sampling",
    arXiv 2507.21449; E. Lau et al., "The Local Learning Coefficient", arXiv 2308.12108.
    """

    opaque: ClassVar = True
    size: ClassVar[int]
    depths: ClassVar[tuple[int, int]]
    widths: ClassVar[tuple[int, int]]
    rows: ClassVar[int] = 100_000
    steepest: ClassVar[float]
    metrics: ClassVar = (
        Metric("learning_coefficient_error", "min", "1", "relative error of the estimate of all chains"),
        Metric("learning_coefficient_ratio", "target", "1", "estimate of all chains over the true value", target=1.0),
    )
    protocols: ClassVar[Sequence[Protocol]] = (
        Protocol(
            "local-posterior",
            "10,000 steps of batches of 500, the last tenth kept; 10 networks of the paper's 100",
            {"smoke": 40, "quick": 1_000, "paper": 10_000},
            seeds=tuple(range(10)),
            burn_in=0.9,
        ),
    )

    batch: int = param(500, "[1, inf)", "n, rows in a minibatch", source="arXiv 2507.21449")  # type: ignore[misc]
    layers: int | None = param(None, "[2, 20]", "number of layers; none: drawn", source="drawn, as in arXiv 2507.21449")

    def dim(self) -> int:
        return self.size

    def terms(self) -> int:
        return self.rows

    @property
    def beta(self) -> float:
        """The inverse temperature 1 / log n."""
        return 1 / math.log(self.rows)

    def source(self, streams: Streams) -> Streams:
        """The streams that the network and the data of a chain are drawn from."""
        return Streams(streams.seed, 0, streams.axes)

    def curvature(self) -> float:
        return self.steepest

    def truth(self) -> Truth | None:
        """None: what is known is the learning coefficient."""
        return None

    def for_laws(self) -> Self:
        sizes: dict[str, Any] = {"size": 60, "depths": (2, 3), "widths": (3, 6), "rows": 600, "dtype": "float64"}
        task: Self = type(f"Small{type(self).__name__}", (type(self),), sizes)()
        return task

    def build(self, streams: Sequence[Streams], device: str) -> DeepLinearProblem:
        return DeepLinearProblem(self, streams, device)


@dataclass(frozen=True, kw_only=True)
class DeepLinear1K(DeepLinear):
    """2 to 5 layers of 5 to 50 units, at most 1,000 weights; n = 100,000."""

    size: ClassVar = 1_000
    depths: ClassVar = (2, 5)
    widths: ClassVar = (5, 50)
    steepest: ClassVar = 6e6


@dataclass(frozen=True, kw_only=True)
class DeepLinear10K(DeepLinear):
    """2 to 10 layers of 5 to 100 units, at most 10,000 weights; n = 100,000."""

    size: ClassVar = 10_000
    depths: ClassVar = (2, 10)
    widths: ClassVar = (5, 100)
    steepest: ClassVar = 1.3e7


@dataclass(frozen=True, kw_only=True)
class DeepLinear100K(DeepLinear):
    """2 to 10 layers of 50 to 500 units, at most 100,000 weights; n = 1,000,000: 0.2 to 2 GB of inputs."""

    dtype: ClassVar = "float32"
    size: ClassVar = 100_000
    depths: ClassVar = (2, 10)
    widths: ClassVar = (50, 500)
    rows: ClassVar = 1_000_000
    steepest: ClassVar = 5e7
    protocols: ClassVar[Sequence[Protocol]] = (
        Protocol(
            "local-posterior",
            "a fifth of a data pass, the last tenth kept; the paper has 50,000 steps",
            {"smoke": 400},
            burn_in=0.9,
        ),
    )
