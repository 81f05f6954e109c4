"""The targets in jax: log densities up to a constant, and their gradients by hand; proved equal to the tasks' own.

A density has `rows`, whose leaves have an axis of N terms first (None: U is not a sum over rows), and two functions of
a position x (D,), of some of the rows and of the factor by which their sum is multiplied:

    value      log p(x), as one writes it for jax.grad
    both       the same and its gradient, written out
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from setting import Case
from targets import TARGETS, streams, task_of

AGREED = 1e-8
"""Largest difference from the task, relative to the largest value or coordinate; float64."""

POINTS = 5


class Density:
    """The log density of a task, in numbers of `dtype`."""

    def __init__(self, task: Any, dtype: str) -> None:
        self.task, self.dtype = task, dtype
        self.rows = jax.tree.map(jnp.asarray, self.arrays())

    def arrays(self) -> Any:
        return None

    def number(self, values: Any) -> np.ndarray:
        """An array of the density's dtype."""
        return np.asarray(values, self.dtype)

    @property
    def terms(self) -> int:
        return len(jax.tree.leaves(self.rows)[0])

    def value(self, x: Any, rows: Any, scale: Any) -> Any:
        return self.both(x, rows, scale)[0]

    def both(self, x: Any, rows: Any, scale: Any) -> tuple[Any, Any]:
        raise NotImplementedError

    def with_score(self) -> Callable[..., Any]:
        """x -> log p(x) by all rows, whose derivative is the gradient by hand."""
        of_all = jax.custom_jvp(lambda x: self.both(x, self.rows, 1)[0])

        @of_all.defjvp
        def _(primals: Any, tangents: Any) -> Any:
            y, score = self.both(*primals, self.rows, 1)
            return y, score @ tangents[0]

        return of_all


class Mixture(Density):
    def __init__(self, task: Any, dtype: str) -> None:
        super().__init__(task, dtype)
        self.mu, self.variance = jnp.asarray(self.number(task.means)), task.variance

    def value(self, x: Any, rows: Any, scale: Any) -> Any:
        return jax.nn.logsumexp(-((x - self.mu) ** 2).sum(-1) / (2 * self.variance))

    def both(self, x: Any, rows: Any, scale: Any) -> tuple[Any, Any]:
        offset, pull = -(self.mu**2).sum(1) / (2 * self.variance), self.mu / self.variance
        logits = offset + pull @ x
        top = logits.max()
        weights = jnp.exp(logits - top)
        total = weights.sum()
        value = top + jnp.log(total) - (x * x).sum() / (2 * self.variance)
        return value, weights @ pull / total - x / self.variance


class Gaussian(Density):
    def __init__(self, task: Any, dtype: str) -> None:
        super().__init__(task, dtype)
        self.precision = jnp.asarray(self.number(task.precision).reshape(task.dim(), -1))

    def value(self, x: Any, rows: Any, scale: Any) -> Any:
        return -(x @ self.precision @ x) / 2

    def both(self, x: Any, rows: Any, scale: Any) -> tuple[Any, Any]:
        pulled = self.precision @ x
        return -(x @ pulled) / 2, -pulled


class Logistic(Density):
    def arrays(self) -> Any:
        return self.number(self.task.design())

    def both(self, x: Any, rows: Any, scale: Any) -> tuple[Any, Any]:
        margins = rows @ x
        value = scale * jax.nn.log_sigmoid(margins).sum() - x @ x / 2
        return value, scale * (rows.T @ jax.nn.sigmoid(-margins)) - x


class EightSchools(Density):
    """theta = (eta, mu, log tau), school j has the effect mu + tau eta_j."""

    def __init__(self, task: Any, dtype: str) -> None:
        super().__init__(task, dtype)
        self.y, self.sigma = (jnp.asarray(self.number(task.data[name])) for name in ("y", "sigma"))

    def both(self, x: Any, rows: Any, scale: Any) -> tuple[Any, Any]:
        eta, mu, tau = x[:8], x[8], jnp.exp(x[9])
        z = (self.y - mu - tau * eta) / self.sigma
        value = -(z @ z + eta @ eta) / 2 - mu**2 / 50 - jnp.log1p(tau**2 / 25) + x[9]
        r = z / self.sigma
        of_tau = tau * (r @ eta) - 2 * tau**2 / (25 + tau**2) + 1
        return value, jnp.concatenate([tau * r - eta, jnp.stack([r.sum() - mu / 25, of_tau])])


class Regression(Density):
    """theta = (b, log sigma)."""

    def __init__(self, task: Any, dtype: str) -> None:
        super().__init__(task, dtype)
        self.prior = [jnp.asarray(self.number(each)) for each in task.prior]

    def arrays(self) -> Any:
        return {name: self.number(leaf) for name, leaf in self.task.arrays("train").items()}

    def both(self, x: Any, rows: Any, scale: Any) -> tuple[Any, Any]:
        location, precision, power, rate = self.prior
        b, sigma = x[:-1], jnp.exp(x[-1])
        z = (rows["y"] - rows["x"] @ b) / sigma
        off = jnp.append(b, sigma) - location
        prior = -(precision * off**2 / 2 + power * jnp.log1p(rate * off**2)).sum() + x[-1]
        slope = -off * (precision + 2 * power * rate / (1 + rate * off**2))
        of_prior = slope.at[-1].set(slope[-1] * sigma + 1)
        of_rows = jnp.append(rows["x"].T @ z / sigma, (z**2 - 1).sum())
        return scale * -(z**2 / 2 + x[-1]).sum() + prior, scale * of_rows + of_prior


class Topics(Density):
    """theta = (t of the topics (K, V), t of the shares of the documents (N, K)), x = log(1 + exp(t))."""

    def arrays(self) -> Any:
        counts = self.number(self.task.counts("train"))
        return {"count": counts, "document": np.arange(len(counts))}

    def both(self, x: Any, rows: Any, scale: Any) -> tuple[Any, Any]:
        of_prior, pull, rate, log_x = self._prior(x)
        phi, s, p = self._mixed(log_x, rows)
        ratio = rows["count"] / p
        of_terms, of_documents = phi * (s.T @ ratio), s * (ratio @ phi.T)
        by_term = of_terms - phi * of_terms.sum(1, keepdims=True)
        by_document = of_documents - s * of_documents.sum(1, keepdims=True)
        among_all = jnp.zeros((self.terms, self.task.topics), x.dtype).at[rows["document"]].add(by_document)
        slope = rate * jnp.concatenate([by_term.ravel(), among_all.ravel()])
        return scale * (rows["count"] * jnp.log(p)).sum() + of_prior, scale * slope + pull

    def value(self, x: Any, rows: Any, scale: Any) -> Any:
        of_prior, _, _, log_x = self._prior(x)
        return scale * (rows["count"] * jnp.log(self._mixed(log_x, rows)[2])).sum() + of_prior

    def _mixed(self, log_x: Any, rows: Any) -> tuple[Any, Any, Any]:
        size = self.task.topics * self.task.vocabulary
        phi = jax.nn.softmax(log_x[:size].reshape(self.task.topics, -1))
        s = jax.nn.softmax(log_x[size:].reshape(self.terms, -1)[rows["document"]])
        return phi, s, jnp.maximum(s @ phi, jnp.finfo(log_x.dtype).tiny)

    def _prior(self, t: Any) -> tuple[Any, Any, Any, Any]:
        """The log prior, its gradient, d log x / dt and log x; where t is below -40, log x is t."""
        task, far = self.task, t < -40
        x, slope = jax.nn.softplus(t), jax.nn.sigmoid(t)
        log_x = jnp.where(far, t, jnp.log(jnp.where(far, 1, x)))
        rate = jnp.where(far, 1, slope / jnp.where(far, 1, x))
        sizes = task.topics * task.vocabulary, task.documents * task.topics
        shape = jnp.concatenate([jnp.full(n, a, t.dtype) for n, a in zip(sizes, (task.beta, task.alpha), strict=True)])
        pull = 1 - 2 * slope + (shape - 1) * rate
        # log(dx/dt) - log x + log x = log slope, and log slope = log rate + log x
        return (shape * log_x - x + jax.nn.log_sigmoid(t) - log_x).sum(), pull, rate, log_x


class TinyNetwork(Density):
    """theta = (w, b, v, c), 8 hidden units."""

    def arrays(self) -> Any:
        arrays = self.task.arrays("train")
        return {"x": self.number(arrays["x"][:, 0]), "y": self.number(arrays["y"])}

    def both(self, x: Any, rows: Any, scale: Any) -> tuple[Any, Any]:
        w, b, v, c = x[:8], x[8:16], x[16:24], x[24]
        hidden = jnp.tanh(rows["x"][:, None] * w + b)
        e = (rows["y"] - hidden @ v - c) / 0.15
        value = -scale * (e @ e) / 2 - x @ x / 2
        pulled = e[:, None] * (1 - hidden**2) * v
        slope = jnp.concatenate([rows["x"] @ pulled, pulled.sum(0), e @ hidden, e.sum()[None]]) / 0.15
        return value, scale * slope - x


DENSITIES = {
    "mixture25": Mixture, "blr-german": Logistic, "gaussian": Gaussian, "blr-a9a": Logistic, "flights": Logistic,
    "pdb-eight-schools-noncentered": EightSchools, "pdb-nes1980": Regression, "lda-reuters": Topics,
    "tiny-bnn": TinyNetwork,
}  # fmt: skip


def density(case: Case) -> Density:
    """That of a case's task."""
    return DENSITIES[case.task](task_of(case.task), case.dtype)


def disagreement(name: str) -> float:
    """The largest difference between the density in jax and the task's own U, in float64, relative to the largest
    number: of differences of the value and of the gradient, by jax.grad and by hand, on all rows and on minibatches.
    """
    task = task_of(name)
    if task.dtype != "float64":
        task = type("Exact", (type(task),), {"dtype": "float64"})(**TARGETS[name].settings)
    with jax.enable_x64(True):
        problem, ours = task.build(streams(Case("jax", "", POINTS, task=name)), "cpu"), DENSITIES[name](task, "float64")
        points = problem.initial()
        batch = {key: leaf[0] for key, leaf in problem.draw_batches(1).items()} or None
        worst = [_apart(ours, problem, points, None, [ours.rows] * POINTS, 1)]
        if batch is not None:
            chosen = [ours.rows if ours.rows is None else _taken(ours.rows, index) for index in _indices(batch, task)]
            worst.append(_apart(ours, problem, points, batch, chosen, problem.scale(batch)))
    return max(worst)


def _indices(batch: Any, task: Any) -> np.ndarray:
    """The rows (C, n) of a batch, without the empty places that fill it up."""
    return np.stack([index[index < task.terms()] for index in batch["index"].numpy()])


def _taken(rows: Any, index: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], rows)


def _apart(ours: Density, problem: Any, points: Any, batch: Any, rows: list[Any], scale: float) -> float:
    energy, gradient = (part.detach().numpy() for part in problem.energy_and_gradient(points, batch))
    written: list[Callable[..., Any]] = [jax.jit(ours.both), jax.jit(jax.value_and_grad(ours.value))]
    worst = 0.0
    for function in written:
        pairs = [function(jnp.asarray(x), of_one, scale) for x, of_one in zip(points.numpy(), rows, strict=True)]
        values = np.array([value for value, _ in pairs])
        slopes = np.stack([slope for _, slope in pairs])
        if batch is None:  # the constant of a minibatch may depend on its rows
            change = np.diff(values) + np.diff(energy)
            worst = max(worst, np.abs(change).max() / np.abs(np.diff(energy)).max())
        worst = max(worst, np.abs(slopes + gradient).max() / np.abs(gradient).max())
    return float(worst)


def prove(name: str) -> float:
    """`disagreement`; raise `ArithmeticError` if it is more than `AGREED`."""
    apart = disagreement(name)
    if not apart < AGREED:
        raise ArithmeticError(f"{name}: the density in jax differs from the task's by {apart:.2g}")
    return apart
