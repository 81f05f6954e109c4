"""Gibbs sampling of the posteriors of this package, without gradients: their truths are from here.

    python -m tasks.latent.gibbs lda-small      # writes the truth, by collapsed Gibbs sampling
    python -m tasks.latent.gibbs bpmf-small     # writes the reference, by Gibbs sampling of the factors
    python -m tasks.latent.gibbs lda-reuters    # prints the perplexity, by collapsed Gibbs sampling

Source: T. L. Griffiths, M. Steyvers, "Finding scientific topics", PNAS 101, 2004 (topics); R. Salakhutdinov, A. Mnih,
"Bayesian Probabilistic Matrix Factorization using Markov Chain Monte Carlo", ICML 2008 (factors).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import diagnostics
from harness.tasks import Truth, quantile_levels
from tasks.latent import bpmf
from tasks.latent.bpmf import BpmfSmall
from tasks.latent.lda import LdaReuters, LdaSmall, TopicModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def topics(task: TopicModel, chains: int, sweeps: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield theta (C, D) of each chain after each sweep of collapsed Gibbs sampling.

    The topic of each word is drawn given those of all others, with topics and shares integrated out; then x and y are
    drawn given the topics of all words. So theta is a draw from exp(-U).
    """
    document, term = task.words("train")
    one = np.eye(task.topics)
    z = one[rng.integers(task.topics, size=(len(term), chains))]  # (T, C, K): 1 at the topic of a word
    by_document, by_term = np.zeros((task.documents, *z.shape[1:])), np.zeros((task.vocabulary, *z.shape[1:]))
    np.add.at(by_document, document, z)
    np.add.at(by_term, term, z)
    total = by_term.sum(axis=0)
    for _ in range(sweeps):
        for i, u in enumerate(rng.random((len(term), chains, 1))):
            of_document, of_term = by_document[document[i]], by_term[term[i]]
            for counts in (of_document, of_term, total):
                counts[:] -= z[i]
            shares = (of_document + task.alpha) * (of_term + task.beta) / (total + task.vocabulary * task.beta)
            below = shares.cumsum(axis=1)
            z[i] = one[(below < u * below[:, -1:]).sum(axis=1)]
            for counts in (of_document, of_term, total):
                counts[:] += z[i]
        parts = [(by_term.transpose(1, 2, 0), task.beta), (by_document.transpose(1, 0, 2), task.alpha)]
        yield np.concatenate([_coordinates(counts, shape, rng).reshape(chains, -1) for counts, shape in parts], axis=1)


def _coordinates(counts: Array, shape: float, rng: np.random.Generator) -> Array:
    """Draw the distribution over the last axis given its counts, and its sum from the prior; return theta."""
    x = rng.standard_gamma(counts + shape)
    total = rng.standard_gamma(np.full((*counts.shape[:-1], 1), counts.shape[-1] * shape))
    x = x / x.sum(axis=-1, keepdims=True) * total
    return x + np.log(-np.expm1(-x))


def factors(task: BpmfSmall, chains: int, sweeps: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield theta (C, D) of each chain after each sweep: all u given v, then all v given u, which are normal."""
    rows = task.arrays("train")
    y, seen = np.zeros((2, bpmf.USERS, bpmf.ITEMS))
    y[tuple(rows["x"].T)], seen[tuple(rows["x"].T)] = rows["y"], 1
    v = rng.standard_normal((chains, bpmf.ITEMS, bpmf.RANK))
    for _ in range(sweeps):
        u = _conditional(v, y, seen, rng)
        v = _conditional(u, y.T, seen.T, rng)
        yield np.concatenate([u, v], axis=1).reshape(chains, -1)


def _conditional(v: Array, y: Array, seen: Array, rng: np.random.Generator) -> Array:
    """Draw u (C, n, R) given v (C, m, R): normal with precision I + sum_j v_j v_j' / sigma^2 over the entries seen."""
    precision = np.eye(v.shape[2]) + np.einsum("ij,cjr,cjs->cirs", seen, v, v, optimize=True) / bpmf.SIGMA**2
    slope = np.einsum("ij,cjr->cir", y * seen, v) / bpmf.SIGMA**2
    noise = np.linalg.cholesky(precision) @ rng.standard_normal((*slope.shape, 1))
    return np.asarray(np.linalg.solve(precision, slope[..., None] + noise)[..., 0])


def functions(task: Any, chains: int, burn_in: int, draws: int) -> Array:
    """Return the functions (n, C, K) that the task is judged by, by Gibbs sampling."""
    import torch

    sampler: Any = factors if isinstance(task, BpmfSmall) else topics
    judged = task.functions if isinstance(task, BpmfSmall) else task.judged
    kept = list(sampler(task, chains, burn_in + draws, np.random.default_rng(0)))[burn_in:]
    return np.stack([judged(torch.from_numpy(theta)).numpy() for theta in kept])


def moments(values: Array) -> dict[str, Array]:
    """Return mean and sd (K,) of functions (n, C, K), their Monte Carlo errors, and R-hat."""
    mean, sd = values.mean(axis=(0, 1)), values.std(axis=(0, 1))
    z = (values - mean) / sd
    ess, ess2 = diagnostics.bulk_ess(z), diagnostics.bulk_ess(z**2)
    fourth = (z**4).mean(axis=(0, 1))
    return {
        "mean": mean, "sd": sd, "mean_error": sd / np.sqrt(ess), "sd_error": sd / 2 * np.sqrt((fourth - 1) / ess2),
        "rhat": diagnostics.rank_normalised_split_rhat(values),
    }  # fmt: skip


def reference_record(values: Array) -> dict[str, Any]:
    """Return what `Reference.of_record` reads, from functions (n, C, K)."""
    levels = [0.05, 0.5, 0.95]
    z = (values - values.mean(axis=(0, 1))) / values.std(axis=(0, 1))
    arrays = {"z4": (z**4).mean(axis=(0, 1)), "quantiles": np.quantile(values, levels, axis=(0, 1)).T}
    return {"levels": levels, "acceptance": 1.0, "seconds": 0.0, **moments(values), **arrays}


def truth_record(values: Array) -> dict[str, Any]:
    """Return what `Truth.of_record` reads, from functions (n, C, K)."""
    truth = Truth.of_points(values.reshape(-1, values.shape[2]))
    z = (values - truth.mean) @ truth.directions.T
    known = moments(values)
    return {
        "sampler": {"name": "gibbs"}, "acceptance": 1.0,
        "rhat": float(diagnostics.rank_normalised_split_rhat(z).max()),
        "ess_z": float(diagnostics.bulk_ess(z).min()), "ess_z2": float(diagnostics.bulk_ess(z**2).min()),
        "mean": truth.mean, "covariance": [row[: i + 1] for i, row in enumerate(truth.covariance)],
        "z3": truth.z3, "z4": truth.z4, "mean_mcse": known["mean_error"], "sd_mcse": known["sd_error"],
        "quantiles": np.quantile(values @ truth.directions.T, quantile_levels(), axis=(0, 1)).T,
    }  # fmt: skip


def perplexity(task: LdaReuters, burn_in: int, draws: int) -> tuple[float, float]:
    """Return the perplexity of the held-out words averaged over draws of one chain, and that of single draws."""
    import torch

    counts, total, single = task.counts("test"), np.zeros((task.documents, task.vocabulary)), 0.0
    for sweep, theta in enumerate(topics(task, 1, burn_in + draws, np.random.default_rng(0))):
        if sweep >= burn_in:
            every = torch.arange(task.documents)[None]
            p = task.probabilities(torch.from_numpy(theta), every)[0].numpy()
            total += p / draws
            single += (counts * np.log(p)).sum() / draws
    return tuple(float(np.exp(-value / counts.sum())) for value in ((counts * np.log(total)).sum(), single))  # type: ignore[return-value]


def main(name: str) -> None:
    """Print what the docstring of the module says."""
    if name == "lda-reuters":
        averaged, single = perplexity(LdaReuters(), 60, 40)
        print(f"perplexity {averaged:.1f}, of single draws {single:.1f}")  # noqa: T201
        return
    task, chains, record = RECORDS[name]
    values = functions(task, chains, BURN_IN, DRAWS)
    of_run = {"command": f"python -m tasks.latent.gibbs {name}", "chains": chains, "draws": DRAWS, **record(values)}
    task.record.write_text(f"{json.dumps(of_run, default=np.ndarray.tolist)}\n")


BURN_IN, DRAWS = 200, 1000
RECORDS: Mapping[str, Any] = {
    "lda-small": (LdaSmall(), 64, truth_record), "bpmf-small": (BpmfSmall(), 16, reference_record),
}  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
