"""Gibbs sampling of the posteriors of this package: a second route to their truths, without gradients.

    python -m tasks.latent.gibbs lda-small      # the moments by collapsed Gibbs sampling beside those of the record
    python -m tasks.latent.gibbs bpmf-small     # the same by Gibbs sampling of the factors
    python -m tasks.latent.gibbs lda-reuters    # the perplexity by collapsed Gibbs sampling

Source: T. L. Griffiths, M. Steyvers, "Finding scientific topics", PNAS 101, 2004 (topics); R. Salakhutdinov, A. Mnih,
"Bayesian Probabilistic Matrix Factorization using Markov Chain Monte Carlo", ICML 2008 (factors).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import diagnostics
from tasks.latent import bpmf
from tasks.latent.bpmf import BpmfSmall
from tasks.latent.lda import LdaReuters, LdaSmall, TopicModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def topics(task: TopicModel, chains: int, sweeps: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield theta (C, D) of each chain after each sweep of collapsed Gibbs sampling.

    The topic of each word is drawn given those of all others, with topics and shares integrated out; then log x and
    log y are drawn given the topics of all words, without the data's part in their sums, which are no part of phi or s.
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
        x = rng.standard_gamma(by_term.transpose(1, 2, 0) + task.beta)
        y = rng.standard_gamma(by_document.transpose(1, 0, 2) + task.alpha)
        yield np.log(np.expm1(np.concatenate([x.reshape(chains, -1), y.reshape(chains, -1)], axis=1)))


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


def differences(task: Any, values: Array) -> dict[str, Array]:
    """Return the differences (K,) of mean and sd between functions (n, C, K) and the record, in joint errors."""
    gibbs, known, record = moments(values), task.function_reference(), json.loads(task.record.read_text())
    sd_error = np.array(record["sd_error" if "sd_error" in record else "sd_mcse"])
    of_record = {"mean": (known.mean, known.mean_error), "sd": (known.sd, sd_error)}
    return {
        name: (gibbs[name] - value) / np.hypot(gibbs[f"{name}_error"], error)
        for name, (value, error) in of_record.items()
    }


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
        averaged, single = perplexity(LdaReuters(), 300, 200)
        print(f"perplexity {averaged:.1f}, of single draws {single:.1f}")  # noqa: T201
        return
    task, chains = {"lda-small": (LdaSmall(), 64), "bpmf-small": (BpmfSmall(), 16)}[name]
    values = functions(task, chains, 500, 4000)
    print(f"R-hat at most {moments(values)['rhat'].max():.4f}")  # noqa: T201
    for part, off in differences(task, values).items():
        print(f"{part}: off by at most {np.abs(off).max():.1f} joint errors, in {len(off)} functions")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
