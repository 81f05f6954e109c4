"""Likelihoods of predictions, and the observer that scores the predictions averaged over draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness.analysis.diagnostics import agreement, calibration, ood, total_variation
from harness.contracts.observers import finite_or_none
from harness.contracts.task import Metric, Observer, Outcome
from harness.system.errors import PluginError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.contracts.schedule import Trajectory
    from harness.contracts.task import Cost

    Array = NDArray[np.float64]

AVERAGED: Mapping[Metric, Callable[[Array, NDArray[np.int64]], float]] = {
    Metric("test_error", "min", "%", "test error of the posterior mean of the predicted probabilities"): (
        lambda mean, labels: 100 * calibration.error_rate(mean, labels)
    ),
    Metric("nll", "min", "nats", "negative log-likelihood of a test row under the posterior mean"): calibration.nll,
    Metric(
        "ece", "min", "1", "expected calibration error of the posterior mean, 15 bins of equal width", version=2
    ): calibration.ece,
    Metric("brier", "min", "1", "Brier score of the posterior mean, summed over the classes"): calibration.brier,
    Metric(
        "lppd", "max", "nats", "log-likelihood of a test row under the posterior mean (LPPD): minus nll"
    ): calibration.lppd,
    Metric("aurc", "min", "1", "area under the risk-coverage curve of the posterior mean"): calibration.aurc,
    Metric(
        "selective_accuracy",
        "max",
        "%",
        f"accuracy of the posterior mean on the {calibration.COVERAGE} % of the rows "
        "where its largest probability is largest",
    ): lambda mean, labels: 100 * calibration.selective_accuracy(mean, labels),
}
"""Metrics, each with the function of the posterior mean of the probabilities (M, K) and the true classes (M,)."""

SINGLE_NLL = Metric("single_nll", "min", "nats", "negative log-likelihood of a test row, mean over the draws")
"""The metric of single draws that every likelihood has."""
PREDICTIVE_METRICS = (
    *AVERAGED,
    Metric("single_test_error", "min", "%", "test error of a single draw, mean over the draws"),
    SINGLE_NLL,
)
"""The metrics of `Classification`; a `DataTask` with `logits` lists them among its metrics."""

DENSITY_METRICS = (
    Metric("nll", "min", "nats", "minus the log density of a test row under the mixture of all draws, mean"),
    Metric("lppd", "max", "nats", "log pointwise predictive density of a test row (LPPD): minus nll"),
)
"""The metrics that every other likelihood has."""

AGAINST_REFERENCE: Mapping[Metric, Callable[[Array, Array], float]] = {
    Metric("agreement", "max", "1", "share of test rows that posterior mean and reference put in the same class"): (
        agreement
    ),
    Metric("total_variation", "min", "1", "total variation distance of the posterior mean from the reference"): (
        total_variation
    ),
}
"""Metrics, each with the function of the posterior mean of the probabilities (M, K) and those of a reference."""

REFERENCE_METRICS = tuple(AGAINST_REFERENCE)
"""The metrics that `PredictiveObserver` adds if the test rows have a "reference"; such a task lists them too."""


def averaged_scores(mean: Array, labels: NDArray[np.int64], reference: Array | None = None) -> dict[str, float]:
    """Return the metrics `AVERAGED` by name and, if there is a reference, `AGAINST_REFERENCE`."""
    scores = {metric.name: float(score(mean, labels)) for metric, score in AVERAGED.items()}
    return scores if reference is None else scores | reference_scores(mean, reference)


def reference_scores(mean: Array, reference: Array) -> dict[str, float]:
    """Return the metrics `AGAINST_REFERENCE` by name."""
    return {metric.name: score(mean, reference) for metric, score in AGAINST_REFERENCE.items()}


class Likelihood:
    """The distribution of y given a network's outputs: how predictions are trained, averaged over draws, and scored.

    Rows come first in every tensor, without a chain axis; labels y (n, ...) and outputs (n, ...) have any shape. The
    predictive density of a row is the weighted mean over the draws of its density; nll and lppd are its logarithm.

    f        outputs, y -> log p(y | outputs) of each row (n,), unless a subclass defines `log_likelihood`
    metrics  what is reported, the primary one first
    error    the name of the metric that `error_of` computes, which is reported for single draws too; "" without one
    uncertainties  suffix of a metric -> what `uncertainty` returns by this name; without any, no `unseen` sets
    certain  the entropy in nats below which a prediction counts as certain, if there is one
    stored   names under which the mean prediction and the labels are stored, unless they are very large
    """

    metrics: Sequence[Metric] = (*DENSITY_METRICS, SINGLE_NLL)
    error: str = ""
    uncertainties: ClassVar[Mapping[str, str]] = {}
    certain: float | None = None
    stored: tuple[str, str] = ("prediction", "target")
    f: Callable[[Tensor, Tensor], Tensor] | None = None

    def __init__(self, f: Callable[[Tensor, Tensor], Tensor] | None = None) -> None:
        self.f = f

    def log_likelihood(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return log p(y | outputs) of each row, (n,), with all constants."""
        if self.f is None:
            raise PluginError(f"{type(self).__name__} has no log_likelihood")
        try:
            each = self.f(outputs, y)
        except ValueError:  # torch.distributions refuses what is not finite; a chain that is lost is no error
            if outputs.isfinite().all():
                raise
            return outputs.flatten(1).sum(1) * float("nan")
        if each.shape != y.shape[:1]:
            raise PluginError(
                f"a log-likelihood has one number for each row, ({len(y)},), not {tuple(each.shape)}; outputs are "
                f"{tuple(outputs.shape)} and labels {tuple(y.shape)}"
            )
        return each

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the mean over the rows of -log_likelihood, which is differentiated."""
        return -self.log_likelihood(outputs, y).mean()

    def extended(self, network: Any) -> Any:
        """Return a task's network with the likelihood's own parameters, if it has any."""
        return network

    def predicted(self, outputs: Tensor) -> Tensor:
        """Return outputs (..., n, ...) in the form that the methods below get."""
        return outputs

    def log_density(self, predicted: Tensor, y: Tensor) -> Tensor:
        """Return the log densities (m,) that are averaged over the draws as densities: of rows, or of their parts."""
        return self.log_likelihood(predicted, y)

    def moments(self, predicted: Tensor) -> Tensor:
        """Return the functions of the prediction (n, ...) whose means over the draws are kept."""
        return predicted

    def scored(self, moments: Any, y: Any) -> tuple[Any, Any]:
        """Return the mean prediction, and the labels it is compared with, from `moments` of rows with labels y."""
        return moments, y

    def error_of(self, mean: Tensor, y: Tensor) -> Tensor:
        """Return the error of a mean prediction, NaN if it is not finite; float64, of no dimension."""
        return mean.new_full((), float("nan"))

    def scores(self, mean: Array, y: NDArray[Any]) -> dict[str, float]:
        """Return metrics of the mean prediction by name; those of densities and of single draws are added."""
        return {}

    def uncertainty(self, moments: Array) -> dict[str, Array]:
        """Return the scores (n,) that `uncertainties` names, larger for predictions that are less certain.

        The one named "" is the entropy of the predictive distribution in nats.
        """
        return {}

    def observer(self, *problem_and_run: Any, **options: Any) -> PredictiveObserver:
        """Return `PredictiveObserver` with these arguments, or one that scores more."""
        return PredictiveObserver(*problem_and_run, likelihood=self, **options)


class Classification(Likelihood):
    """Classes y (n,), 0 ... K - 1, whose log-odds up to a constant per row are the outputs (n, K)."""

    metrics = PREDICTIVE_METRICS
    error = "test_error"
    uncertainties: ClassVar = {"": "the predictive entropy", "_maxprob": "minus the largest probability"}
    certain = 0.5
    stored = ("probabilities", "classes")

    def log_likelihood(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the log-probability of each row's class, (n,)."""
        return self.log_density(self.predicted(outputs), y)

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the mean cross-entropy."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(outputs, y)

    def predicted(self, outputs: Tensor) -> Tensor:
        """Return the log-probabilities (..., K)."""
        return outputs.log_softmax(-1)

    def log_density(self, predicted: Tensor, y: Tensor) -> Tensor:
        """Return the log-probability of each row's class, (n,)."""
        return predicted.gather(-1, y[..., None])[..., 0]

    def moments(self, predicted: Tensor) -> Tensor:
        """Return the probabilities (n, K)."""
        return predicted.exp()

    def error_of(self, mean: Tensor, y: Tensor) -> Tensor:
        """Return the percentage of rows whose most probable class is not the true one."""
        wrong = (mean.argmax(-1) != y).double()
        return 100 * wrong.masked_fill(mean.isnan().any(-1), float("nan")).mean()

    def scores(self, mean: Array, y: NDArray[Any]) -> dict[str, float]:
        """Return the metrics `AVERAGED`."""
        return averaged_scores(mean, y)

    def uncertainty(self, moments: Array) -> dict[str, Array]:
        """Return the entropy, and minus the largest probability; means over the positions of a row."""
        scores = {"": ood.entropy(moments), "_maxprob": -moments.max(-1)}
        return {name: each.reshape(len(each), -1).mean(1) for name, each in scores.items()}


def unseen_metrics(likelihood: Likelihood, names: Iterable[str]) -> tuple[Metric, ...]:
    """Return how the mean prediction tells each `unseen` set from the test rows; `PluginError` if it cannot."""
    metrics = []
    for name in names:
        if not likelihood.uncertainties:
            raise PluginError(f"unseen: {type(likelihood).__name__} has no uncertainty, so {name!r} is not told apart")
        metrics += [Metric(f"entropy_{name}", "max", "nats", f"predictive entropy on {name}, mean")]
        if likelihood.certain is not None:
            below = f"share of {name} with an entropy below {likelihood.certain} nats"
            metrics += [Metric(f"low_entropy_mass_{name}", "min", "1", below)]
        for suffix, score in likelihood.uncertainties.items():
            metrics += [
                Metric(f"auroc{suffix}_{name}", "max", "1", f"{name} against the test rows by {score}: area under ROC"),
                Metric(f"aupr{suffix}_{name}", "max", "1", f"the same: average precision in finding {name}"),
                Metric(f"fpr95{suffix}_{name}", "min", "1", f"share of {name} accepted with 95 % of the test rows"),
            ]
    return tuple(metrics)


RECORDED = 600
"""Largest number of draws of a chain for which curves have points, evenly spaced; means use all draws."""


def reference_of(problem: Any) -> Array | None:
    """Return the predictions (M, K) with which those of a problem are compared, or None if there are none."""
    probabilities = getattr(problem, "reference", None)
    return None if probabilities is None else probabilities.cpu().numpy().astype(np.float64)


LARGEST = 2**22
"""Largest number of predicted numbers that are kept, 16 MiB as float32; ImageNet has 50 million."""


class PredictiveObserver(Observer):
    """Scores of the predictions for test rows, averaged over draws and chains on the device; no draw is kept.

    `problem` has `labels`, `predict` and optionally `reference`, like a `DataProblem`. The averages are weighted means
    in float64: of the densities of rows, by logarithms, and of the likelihood's `moments`. Curves over data passes:
    nll and the likelihood's error of the mean so far (1, n), single_nll and single_<error> of each chain's draw (C, n).
    Arrays: those of the likelihood, unless the predictions have more than `LARGEST` numbers, and with unseen sets
    entropy_test and entropy_<set>.

    unseen   name -> part of the task's arrays that has "x" of another kind than the rows for training
    scores   mean prediction, y -> metrics of the task's own by name, which it lists among its metrics
    average  the number of last draws that enter the means; None for all
    """

    def __init__(
        self,
        problem: Any,
        chains: slice,
        trajectory: Trajectory,
        cost: Cost,
        *,
        likelihood: Likelihood | None = None,
        unseen: Mapping[str, str] | None = None,
        scores: Callable[[Array, NDArray[Any]], Mapping[str, float]] | None = None,
        average: int | None = None,
    ) -> None:
        import torch

        self.problem, self.rows = problem, chains
        self.likelihood, self.unseen, self.scores = likelihood or Classification(), unseen or {}, scores
        self.chains = chains.stop - chains.start
        self.labels: Tensor = problem.labels["test"]
        kept = np.flatnonzero(trajectory.keep) + 1
        self.first_averaged = 0 if average is None else max(0, len(kept) - average)
        self.stride = -(-len(kept) // RECORDED) or 1
        self.recorded = kept[:: self.stride]
        self.passes = cost.after(self.recorded.astype(np.float64))
        error = self.likelihood.error
        self.names = (error, "nll", f"single_{error}" if error else "", "single_nll")
        curves = torch.full((len(self.names), len(self.recorded), self.chains), torch.nan, dtype=torch.float64)
        self.tensors = {
            "weight": self.zeros(1),
            "seen": torch.zeros(1, dtype=torch.int64, device=self.labels.device),
            "single": self.zeros(2),
            "curves": curves.to(self.labels.device),
        }

    def zeros(self, *shape: int) -> Tensor:
        """Return zeros in float64, on the device of the labels."""
        import torch

        return torch.zeros(shape, dtype=torch.float64, device=self.labels.device)

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        """Add a block of draws."""
        import torch

        with torch.no_grad():
            for theta, weight in zip(draws, weights.to(torch.float64), strict=True):
                self.observe_draw(theta, weight)

    def observe_draw(self, theta: Tensor, weight: Tensor) -> tuple[int, Tensor, Tensor]:
        """Add a draw of every chain (C, D) with weights (C,).

        Return how many draws came before it, the predictions (C, M, ...), and errors (C,).
        """
        import torch

        tensors, kind = self.tensors, self.likelihood
        seen = int(tensors["seen"])
        tensors["seen"] += 1
        predicted = self.predict(theta, "test")
        density = torch.stack([kind.log_density(each, self.labels) for each in predicted])
        moments = [kind.moments(each) for each in predicted]
        error = torch.stack([kind.error_of(*kind.scored(each, self.labels)) for each in moments])
        loss = -density.mean(1)
        if seen >= self.first_averaged:
            tensors["weight"] += weight.sum()
            tensors["single"] += torch.stack([(weight * error).sum(), (weight * loss).sum()])
            mixture = (density + weight.log()[:, None]).logsumexp(0)
            before = tensors.get("density")
            tensors["density"] = mixture if before is None else torch.logaddexp(before, mixture)
            self.add("test", weight, moments)
            for name, part in self.unseen.items():
                self.add(name, weight, [kind.moments(each) for each in self.predict(theta, part)])
        if seen % self.stride == 0:
            point = seen // self.stride
            if seen >= self.first_averaged:
                tensors["curves"][:2, point, 0] = self._running_scores()
            tensors["curves"][2, point], tensors["curves"][3, point] = error, loss
        return seen, predicted, error

    def predict(self, theta: Tensor, part: str) -> Tensor:
        """Return the predictions (C, M, ...) for a part of the arrays, in float64."""
        import torch

        return torch.cat(list(self.problem.predict(theta, self.rows, part)), dim=1).to(torch.float64)

    def add(self, name: str, weight: Tensor, moments: Iterable[Tensor]) -> None:
        """Add the moments for a set chain by chain, so that the sum is the same for any number of chains."""
        for w, one in zip(weight, moments, strict=True):
            total = self.tensors.setdefault(f"sum/{name}", self.zeros(*one.shape))
            total += w * one

    def _mean_loss(self) -> Tensor:
        """Return the NLL of the mixture of the draws so far."""
        return self.tensors["weight"].log()[0] - self.tensors["density"].mean()

    def _running_scores(self) -> Tensor:
        """Return error and NLL of the draws so far; NaN if all weights are 0."""
        import torch

        moments, kind = self.tensors["sum/test"] / self.tensors["weight"], self.likelihood
        error = kind.error_of(*kind.scored(moments, self.labels))
        return torch.stack([torch.where(self.tensors["weight"][0] > 0, error, torch.nan), self._mean_loss()])

    def means(self) -> dict[str, Array]:
        """Return the means of the likelihood's moments (M, ...) for the test rows, "test", and each unseen set."""
        sums = {name.removeprefix("sum/"): total for name, total in self.tensors.items() if name.startswith("sum/")}
        return {name: (total / self.tensors["weight"]).cpu().numpy() for name, total in sums.items()}

    def outcome(self) -> Outcome:
        """Return the metrics of likelihood, unseen sets, reference and task, the curves and the arrays.

        All are empty before the first draw that has a weight. Metrics of predictions that are not finite do not exist:
        all without those of the test rows, those of an unseen set without its own.
        """
        kind = self.likelihood
        if not float(self.tensors["weight"]) > 0:
            return Outcome({})
        points = -(-int(self.tensors["seen"]) // self.stride)
        drawn = self.tensors["curves"][:, :points].cpu().numpy()
        curves = {
            name: (self.passes[:points], drawn[k, :, : 1 if k < 2 else None].T.copy())
            for k, name in enumerate(self.names)
            if name
        }
        moments = {name: each for name, each in self.means().items() if np.isfinite(each).all()}
        if "test" not in moments:
            return Outcome({}, curves)
        mean, y = kind.scored(moments["test"], self.labels.cpu().numpy())
        single, loss = (self.tensors["single"] / self.tensors["weight"]).tolist(), float(self._mean_loss())
        entropies = {name: kind.uncertainty(each) for name, each in moments.items()} if self.unseen else {}
        values = {
            **kind.scores(mean, y),
            "nll": loss,
            "lppd": -loss,
            **{name: value for name, value in zip(self.names[2:], single, strict=True) if name},
            **({} if (reference := reference_of(self.problem)) is None else reference_scores(mean, reference)),
            **unseen_scores(entropies, kind.certain),
            **(self.scores(mean, y) if self.scores else {}),
        }
        stored = mean.astype(np.float32), y.astype(np.float32 if y.dtype.kind == "f" else np.int32)
        arrays = dict(zip(kind.stored, stored, strict=True)) if mean.size <= LARGEST else {}
        arrays |= {f"entropy_{name}": each[""].astype(np.float32) for name, each in entropies.items()}
        return Outcome({name: finite_or_none(value) for name, value in values.items()}, curves, arrays)

    def state(self) -> dict[str, Tensor]:
        """Return everything that `load` needs."""
        return dict(self.tensors)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        self.tensors = {name: leaf.to(self.labels.device, copy=True) for name, leaf in state.items()}


def unseen_scores(scores: Mapping[str, Mapping[str, Array]], certain: float | None) -> dict[str, float]:
    """Return the values of `unseen_metrics` from the `uncertainty` of the rows of "test" and of each unseen set."""
    values: dict[str, float] = {}
    for name in scores.keys() - {"test"}:
        entropy = scores[name][""]
        values |= {f"entropy_{name}": entropy.mean()}
        values |= {} if certain is None else {f"low_entropy_mass_{name}": (entropy < certain).mean()}
        for suffix, unseen in scores[name].items():
            for score in (ood.auroc, ood.aupr, ood.fpr95):
                values[f"{score.__name__}{suffix}_{name}"] = score(scores["test"][suffix], unseen)
    return values
