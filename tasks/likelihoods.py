"""Likelihoods of networks: what a `NetworkTask` states as its `likelihood`."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import PluginError
from harness.tasks import (
    DENSITY_METRICS,
    SINGLE_NLL,
    Classification,
    Likelihood,
    Metric,
    Network,
    Outcome,
    PredictiveObserver,
    finite_or_none,
)

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    Array = NDArray[np.float64]

__all__ = ["Classification", "Custom", "Heteroscedastic", "Likelihood", "Poisson", "Regression", "Token"]

NOT_SCORED = -100
"""The label of a position that has no likelihood, such as padding: torch's `ignore_index`."""

SAMPLES = 256
"""Least number of values of y that are drawn for each test row, over all draws and chains."""

MOST_ROWS = 8192
"""Most test rows for which values are drawn, at equal distances."""

RMSE = Metric("rmse", "min", "1", "root mean square error of the posterior mean on the test rows, in the unit of y")
SINGLE_RMSE = Metric("single_rmse", "min", "1", "root mean square error of a single draw's mean, mean over the draws")

NUMBER_METRICS = (
    *DENSITY_METRICS,
    RMSE,
    Metric("crps", "min", "1", "continuous ranked probability score of values drawn from the mixture of all draws"),
    Metric("coverage50", "target", "1", "share of test rows in the mixture's central 50 % interval", target=0.5),
    Metric("coverage90", "target", "1", "share of test rows in the mixture's central 90 % interval", target=0.9),
    SINGLE_NLL,
    SINGLE_RMSE,
)
"""What every likelihood of numbers reports."""


class Numbers(Likelihood):
    """A distribution of numbers y (n,) or (n, k), independent given the outputs.

    Outputs are flattened to (n, m). A subclass states their density, their mean and variance, and how values are drawn.
    The entropy of a prediction is that of the normal distribution with the mixture's mean and variance.
    """

    metrics = NUMBER_METRICS
    error = "rmse"
    uncertainties: ClassVar = {"": "the predictive entropy"}

    def mean_and_variance(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and the variance of y given the outputs, (n, k) each."""
        raise NotImplementedError

    def sample(self, outputs: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Return values of y given the outputs, (count, n, k)."""
        raise NotImplementedError

    def columns(self, part: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return a part of the outputs and y as (n, k), in the outputs' type; `PluginError` if they do not fit."""
        part, target = part.flatten(1), y.reshape(len(y), -1).to(part.dtype)
        if part.shape != target.shape:
            raise PluginError(
                f"{type(self).__name__}: the outputs stand for {part.shape[1]} numbers for each of {len(part)} rows, "
                f"the labels have {target.shape[1]} for each of {len(target)}"
            )
        return part, target

    def moments(self, predicted: Tensor) -> Tensor:
        """Return mean and mean square of y, (n, k, 2)."""
        import torch

        mean, variance = self.mean_and_variance(predicted)
        return torch.stack([mean, mean.square() + variance], -1)

    def scored(self, moments: Any, y: Any) -> tuple[Any, Any]:
        """Return the mean of y, in the shape of y, and y."""
        return moments[..., 0].reshape(y.shape), y

    def error_of(self, mean: Tensor, y: Tensor) -> Tensor:
        """Return the root mean square error."""
        return (mean - y).double().square().mean().sqrt()

    def scores(self, mean: Array, y: NDArray[Any]) -> dict[str, float]:
        """Return the root mean square error; `SamplingObserver` adds the scores of drawn values."""
        return {"rmse": float(np.sqrt(np.mean((mean - y) ** 2)))}

    def uncertainty(self, moments: Array) -> dict[str, Array]:
        """Return the entropy of the normal distribution with the mixture's variance, (n,)."""
        variance = (moments[..., 1] - moments[..., 0] ** 2).clip(min=np.finfo(float).tiny)
        return {"": np.log(2 * np.pi * np.e * variance).sum(1) / 2}

    def observer(self, *problem_and_run: Any, **options: Any) -> SamplingObserver:
        """Return `SamplingObserver`."""
        return SamplingObserver(*problem_and_run, likelihood=self, **options)


class Normal(Numbers):
    """y ~ N(mean, sigma^2), where `location` says what the outputs are."""

    def location(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean (n, k) and log sigma, (n, k) or (n, 1)."""
        raise NotImplementedError

    def log_likelihood(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the log density of each row's normal distribution, (n,)."""
        mean, log_sigma = self.location(outputs)
        mean, y = self.columns(mean, y)
        z = (y - mean) * (-log_sigma).exp()
        return -(z.square() / 2 + log_sigma + math.log(2 * math.pi) / 2).sum(1)

    def mean_and_variance(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and sigma^2."""
        mean, log_sigma = self.location(outputs)
        return mean, (2 * log_sigma).exp().expand_as(mean)

    def sample(self, outputs: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Return mean + sigma xi."""
        import torch

        mean, log_sigma = self.location(outputs)
        return mean + log_sigma.exp() * torch.randn((count, *mean.shape), generator=generator, dtype=mean.dtype)


@dataclass(frozen=True)
class Regression(Normal):
    """y ~ N(f(x), sigma^2) for outputs f(x) of y's shape; y is (n,) or (n, k), as (n, 1) is (n,).

    sigma  the sd of the noise in the unit of y; None: one number for all rows that is sampled with the weights. Its
           logarithm is the last coordinate of theta, starts at 0, and has the prior of the weights
    """

    sigma: float | None = None

    def __post_init__(self) -> None:
        if self.sigma is not None and not 0 < self.sigma < math.inf:
            raise PluginError(f"Regression(sigma={self.sigma!r:.40}): the sd of the noise is a positive number")

    def extended(self, network: Any) -> Any:
        """Return the network whose outputs end with log sigma if that is sampled."""
        return network if self.sigma is not None else Network(lambda: with_log_sigma(network.make()))

    def location(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return f(x), (n, k), and log sigma."""
        flat = outputs.flatten(1)
        if self.sigma is not None:
            return flat, flat.new_full((1, 1), math.log(self.sigma))
        return flat[:, :-1], flat[:, -1:]


def with_log_sigma(module: torch.nn.Module) -> torch.nn.Module:
    """Return a module whose outputs are those of `module` (n, k) and, in one more column, a parameter `log_sigma`."""
    import torch

    class Noise(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.log_sigma = torch.nn.Parameter(torch.zeros(1))

        def forward(self, outputs: Tensor) -> Tensor:
            flat = outputs.flatten(1)
            return torch.cat([flat, self.log_sigma.to(flat.dtype).expand(len(flat), 1)], 1)

    return torch.nn.Sequential(OrderedDict(network=module, noise=Noise()))


@dataclass(frozen=True)
class Heteroscedastic(Normal):
    """y ~ N(f(x), exp(2 s(x))): the first half of the outputs (n, 2 k) is f, the second log sigma, s."""

    def location(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return f(x) and s(x)."""
        flat = outputs.flatten(1)
        if flat.shape[1] % 2:
            raise PluginError(f"Heteroscedastic: outputs are the means and then log sigma; {flat.shape[1]} is odd")
        mean, log_sigma = flat.chunk(2, 1)
        return mean, log_sigma


@dataclass(frozen=True)
class Poisson(Numbers):
    """Counts y ~ Poisson(exp(f(x))) for outputs f(x) of y's shape."""

    def log_likelihood(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the log-probability of each row's counts, (n,)."""
        log_rate, counts = self.columns(outputs, y)
        return (counts * log_rate - log_rate.exp() - (counts + 1).lgamma()).sum(1)

    def mean_and_variance(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rate, twice."""
        rate = outputs.flatten(1).exp()
        return rate, rate

    def sample(self, outputs: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Return counts."""
        import torch

        rate = outputs.flatten(1).exp()
        return torch.poisson(rate.expand(count, *rate.shape), generator=generator)


@dataclass(frozen=True)
class Token(Classification):
    """A class at each position: outputs (n, positions, K) are log-odds, y (n, positions) classes, 0 ... K - 1.

    The log-likelihood of a row is the sum over its positions; positions whose label is -100 do not count. Metrics are
    of single tokens, each under the mean over the draws of its own probabilities.
    """

    metrics = tuple(
        replace(metric, summary=metric.summary.replace("row", "token")) for metric in Classification.metrics
    )

    def log_likelihood(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the sum of the log-probabilities of each row's classes, (n,)."""
        from torch.nn.functional import cross_entropy

        if outputs.shape[:-1] != y.shape:
            raise PluginError(
                f"Token: outputs are (n, positions, K) for labels (n, positions), not {tuple(outputs.shape)} for "
                f"{tuple(y.shape)}"
            )
        each = -cross_entropy(outputs.flatten(0, -2), y.flatten(), ignore_index=NOT_SCORED, reduction="none")
        return each.view(len(y), -1).sum(1)

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the mean over the rows of -log_likelihood."""
        return -self.log_likelihood(outputs, y).mean()

    def log_density(self, predicted: Tensor, y: Tensor) -> Tensor:
        """Return the log-probability of each token that counts, (m,)."""
        return Classification.log_density(self, *self.scored(predicted, y))

    def scored(self, moments: Any, y: Any) -> tuple[Any, Any]:
        """Return the probabilities (m, K) of the tokens that count, and their classes (m,)."""
        return moments[y != NOT_SCORED], y[y != NOT_SCORED]


class Custom(Likelihood):
    """A likelihood f: outputs, y -> log p(y | outputs) of each row (n,), with all constants.

    mean  outputs -> the mean of y, in y's shape; with it, the root mean square error is reported too
    """

    def __init__(self, f: Callable[[Tensor, Tensor], Tensor], mean: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__(f)
        self.mean_of = mean
        if mean is not None:
            self.metrics = (*DENSITY_METRICS, RMSE, SINGLE_NLL, SINGLE_RMSE)
            self.error = RMSE.name

    def moments(self, predicted: Tensor) -> Tensor:
        """Return the mean of y, or the outputs if it is not known."""
        return predicted if self.mean_of is None else self.mean_of(predicted)

    def scored(self, moments: Any, y: Any) -> tuple[Any, Any]:
        """Return the mean of y, in the shape of y, or the outputs, and y."""
        return (moments if self.mean_of is None else moments.reshape(y.shape)), y

    def error_of(self, mean: Tensor, y: Tensor) -> Tensor:
        """Return the root mean square error, or NaN."""
        return super().error_of(mean, y) if self.mean_of is None else (mean - y).double().square().mean().sqrt()

    def scores(self, mean: Array, y: NDArray[Any]) -> dict[str, float]:
        """Return the root mean square error if the mean is known."""
        return {} if self.mean_of is None else {"rmse": float(np.sqrt(np.mean((mean - y) ** 2)))}


class SamplingObserver(PredictiveObserver):
    """`PredictiveObserver` of numbers, which also scores values of y drawn from the mixture of all draws.

    At most `SAMPLES` draws of all chains, evenly spaced, give the same number of values for each of at most `MOST_ROWS`
    test rows: at least `SAMPLES` in all. They come from a stream of the chain for each draw, so samplers are compared
    on the same random numbers.
    """

    likelihood: Numbers

    def __init__(self, *problem_and_run: Any, **options: Any) -> None:
        import torch

        super().__init__(*problem_and_run, **options)
        trajectory = problem_and_run[2]
        averaged = max(1, int(np.count_nonzero(trajectory.keep)) - self.first_averaged)
        self.gap = -(-averaged * self.chains // SAMPLES)
        points = -(-averaged // self.gap)
        self.values = -(-SAMPLES // (points * self.chains))
        rows = min(len(self.labels), MOST_ROWS)
        self.chosen = torch.from_numpy(np.linspace(0, len(self.labels), rows, endpoint=False).astype(np.int64))
        self.y = self.labels.cpu()[self.chosen].reshape(rows, -1).double()
        self.tensors |= {
            "samples": torch.zeros((points, self.chains, self.values, *self.y.shape)),
            "sample_weights": torch.zeros((points, self.chains), dtype=torch.float64),
        }

    def observe_draw(self, theta: Tensor, weight: Tensor) -> tuple[int, Tensor, Tensor]:
        """Add a draw of every chain, and draw values of y from some."""
        seen, predicted, error = super().observe_draw(theta, weight)
        point, left = divmod(seen - self.first_averaged, self.gap)
        if point >= 0 and not left:
            self.tensors["sample_weights"][point] = weight
            for c, stream in enumerate(self.problem.streams[self.rows]):
                outputs = predicted[c].cpu()[self.chosen]
                drawn = self.likelihood.sample(outputs, self.values, stream.torch(f"values {seen}"))
                self.tensors["samples"][point, c] = drawn
        return seen, predicted, error

    def outcome(self) -> Outcome:
        """Return the outcome with the scores of the drawn values."""
        whole = super().outcome()
        if not whole.metrics:
            return whole
        weights = self.tensors["sample_weights"].cpu().numpy()
        shares = np.repeat(weights.ravel() / weights.sum(), self.values)
        values = self.tensors["samples"].cpu().numpy().astype(np.float64).reshape(len(shares), -1)
        scores = sample_scores(values, shares, self.y.numpy().ravel())
        return replace(whole, metrics={**whole.metrics, **{n: finite_or_none(v) for n, v in scores.items()}})


def sample_scores(values: Array, shares: Array, y: Array) -> dict[str, float]:
    """Return CRPS and the coverage of central intervals for values (S, m) with shares (S,) of y (m,).

        CRPS = E|X - y| - E|X - X'| / 2,    X, X' independent with the distribution of the values

    y is within the central p interval if the share of the values below it, ties counted by half, is within p/2 of
    1/2. Source: T. Gneiting, A. E. Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", 2007.
    """
    order = values.argsort(axis=0)
    x, w = np.take_along_axis(values, order, axis=0), shares[order]
    spread = (w * x * (2 * w.cumsum(axis=0) - w - 1)).sum(axis=0)
    below = shares @ (values < y) + shares @ (values == y) / 2
    return {
        "crps": float((shares @ np.abs(values - y) - spread).mean()),
        **{f"coverage{p}": float((np.abs(below - 0.5) <= p / 200).mean()) for p in (50, 90)},
    }
