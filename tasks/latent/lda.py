"""Latent Dirichlet allocation, with the topics of the words summed out."""

from __future__ import annotations

import ctypes
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import param
from harness.tasks import DataProblem, DataTask, Observer, Protocol, Rows, Truth, compiled
from tasks.datasets import reuters
from tasks.functions import FunctionObserver, JudgedByFunctions
from tasks.latent.perplexity import PERPLEXITY_METRICS, PerplexityObserver

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, Streams

    Array = NDArray[np.float64]
    Index = NDArray[np.int64]
    Batch = dict[str, Tensor]

__files__ = ["lda.cpp"]
CODE = Path(__file__).with_suffix(".cpp")

LEAST, MOST = -86.0, 80.0
"""exp of these is a normal number in float32. Below the first log x is t to all digits, and above the second x is t."""

PARTS = {"train": (0.0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 1.0)}
"""Which words of a document are of which part, as shares of its permuted words."""


@dataclass(frozen=True, kw_only=True)
class TopicModel(DataTask):
    """Topics phi_k, the distributions of V terms, and their shares s_d in each of N documents, given its words.

        p(w | s_d, phi) = sum_k s_dk phi_kw
        phi_kw = x_kw / sum_v x_kv,  s_dk = y_dk / sum_j y_dj,  x_kw ~ Gamma(beta, 1),  y_dk ~ Gamma(alpha, 1)

    So phi_k ~ Dirichlet(beta) and s_d ~ Dirichlet(alpha) have their usual posterior, with the topic of each word summed
    out exactly; U is a sum over documents, of which minibatches consist. theta has a coordinate t for each x, topic by
    topic, and for each y, document by document:

        x = log(1 + exp(t)),  U(theta) = -sum_d sum_w c_dw log sum_k s_dk phi_kw - sum_t log(p(x) dx/dt)

    The sums of x_k and of y_d have no part in the likelihood: they make the simplex a space without constraints, which
    is the expanded mean of Patterson and Teh. Their coordinates are x itself, whose density has a pole at 0 if beta is
    below 1, from which only their own sampler can step. t is x where x is large, and log x where it is small, so U is
    smooth and its slopes are bounded: every sampler can move.

    The inverse `metric` is diagonal: 1 / (r^2 (x_kw + n_k phi_kw + beta)) and 1 / (r^2 (y_dk + m l_d s_dk + alpha)),
    with r = d log x / dt. l_d is the length of a document, n_k = sum_d l_d s_dk, and m is the number of minibatches of
    an epoch, by which the words of a document weigh when they are seen. It is the expected information about log x of
    words whose topics are known, and of the prior. That of Patterson and Teh, diag(x), is the same without n, m and
    beta: it has no bound as x goes to 0, and ignores that words are more than the prior. Chains start where log x is
    N(log beta, 1) and log y is N(log alpha, 1).

    widest   the largest eigenvalue of the Hessian of U at points that Adam finds, about

    Source: D. M. Blei, A. Y. Ng, M. I. Jordan, "Latent Dirichlet Allocation", JMLR 3, 2003; S. Patterson, Y. W. Teh,
    "Stochastic Gradient Riemannian Langevin Dynamics on the Probability Simplex", NIPS 2013.
    """

    opaque: ClassVar[bool] = True
    lanes: ClassVar[int] = 1
    provides: ClassVar = frozenset({"terms", "metric"})
    given: ClassVar = {"metric": "the expected information of words whose topics are known, without the data's words"}
    widest: ClassVar[float]
    vocabulary: ClassVar[int]
    documents: ClassVar[int]

    topics: ClassVar[int]
    alpha: ClassVar[float]
    beta: ClassVar[float]

    def words(self, part: str) -> tuple[Index, Index]:
        """Return the document and the term (T,) of each word of a part."""
        raise NotImplementedError

    def dim(self) -> int:
        return self.topics * (self.vocabulary + self.documents)

    def terms(self) -> int:
        return self.documents

    def counts(self, part: str) -> NDArray[np.int64]:
        """Return how often each term occurs in each document, (N, V)."""
        counts = np.zeros((self.documents, self.vocabulary), np.int64)
        np.add.at(counts, self.words(part), 1)
        return counts

    def arrays(self, part: str) -> Mapping[str, NDArray[Any]]:
        """Return the counts of all terms, and of the terms that each document has, filled up with zeros."""
        count, width = self.counts(part), max(int((self.counts(name) > 0).sum(1).max()) for name in PARTS)
        term = np.argsort(count == 0, axis=1, kind="stable")[:, :width]
        times = np.take_along_axis(count, term, axis=1)
        of = {"count": count.astype(float), "term": term.astype(np.int32), "times": times.astype(float)}
        return {"document": np.arange(self.documents), **of}

    def start(self, generator: torch.Generator) -> Tensor:
        import torch

        noise = super().start(generator)
        return torch.special.expm1((self.shapes(noise).log() + noise).exp()).log()

    def curvature(self) -> float:
        return self.widest

    def shapes(self, like: Tensor) -> Tensor:
        """Return the shapes (D,) of the gamma distributions: beta for the topics, then alpha for the documents."""
        import torch

        sizes = self.topics * self.vocabulary, self.documents * self.topics
        return torch.cat([like.new_full((n,), a) for n, a in zip(sizes, (self.beta, self.alpha), strict=True)])

    def split(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return what belongs to x (C, K, V) and to y (C, N, K)."""
        x, y = values.split([self.topics * self.vocabulary, self.documents * self.topics], 1)
        return x.view(-1, self.topics, self.vocabulary), y.view(-1, self.documents, self.topics)

    def probabilities(self, theta: Tensor, document: Tensor) -> Tensor:
        """Return p(term | document) of all terms, (C, n, V), in documents (C, n), or (1, n) for all chains."""
        import torch

        phi, s = self._shares(Positives(theta), document)
        return torch.bmm(s, phi).clamp_(min=torch.finfo(phi.dtype).tiny)

    def word_probabilities(self, theta: Tensor, document: Tensor, row: Tensor, term: Tensor) -> Tensor:
        """Return p(term | document), (C, m), of the terms `term` (m,) in the documents `document[row]` (m,)."""
        import torch

        phi, s = self._shares(Positives(theta), document[None])
        by_term = phi.mT.contiguous()
        pairs = zip(s, by_term, strict=True)  # one chain's fit into the cache
        p = [(shares.index_select(0, row) * terms.index_select(0, term)).sum(1) for shares, terms in pairs]
        return torch.stack(p).clamp_(min=torch.finfo(phi.dtype).tiny)

    def _shares(self, of: Positives, document: Tensor) -> tuple[Tensor, Tensor]:
        """Return phi (C, K, V) and the shares s (C, n, K) of the documents."""
        log_x, log_y = self.split(of.log_x)
        index = document.expand(len(log_y), -1)[:, :, None].expand(-1, -1, self.topics)
        return log_x.softmax(2), log_y.gather(1, index).softmax(2)

    def log_likelihood(self, theta: Tensor, rows: Rows) -> Tensor:
        return (rows["count"] * self.probabilities(theta, rows["document"]).log()).sum(2)

    def grad(self, theta: Tensor, rows: Rows) -> Tensor:
        of = Positives(theta)
        return self.likelihood_slopes(of, rows).mul_(of.rate)

    def likelihood_slopes(self, of: Positives, rows: Rows) -> Tensor:
        """Return the derivatives (C, D) of the log likelihood of a batch with respect to log x and log y.

        By the expected numbers of words of each topic, of each term and in each document. A row that fills up a batch
        has no words.
        """
        import torch

        (phi, s), slopes = self._shares(of, rows["document"]), torch.empty_like(of.log_x)
        p = torch.bmm(s, phi).clamp_(min=torch.finfo(s.dtype).tiny)
        ratio = torch.div(rows["count"], p, out=p)
        of_terms, of_all = self.split(slopes)
        torch.mul(phi, torch.bmm(s.mT, ratio), out=of_terms)
        of_terms.addcmul_(phi, of_terms.sum(2, keepdim=True), value=-1)
        of_documents = s * torch.bmm(ratio, phi.mT)
        of_documents.addcmul_(s, of_documents.sum(2, keepdim=True), value=-1)
        index = rows["document"].expand(len(s), -1)[:, :, None].expand_as(of_documents)
        of_all.zero_().scatter_add_(1, index, of_documents)
        return slopes

    def log_prior(self, theta: Tensor) -> Tensor:
        of = Positives(theta)
        return (self.shapes(theta) * of.log_x - of.x + of.rate.log()).sum(1)

    def prior_gradient(self, theta: Tensor) -> Tensor:
        of = Positives(theta)
        return 2 * of.slope - 1 - (self.shapes(of.rate) - 1) * of.rate

    def build(self, streams: Sequence[Streams], device: str) -> TopicProblem:
        return TopicProblem(self, streams, device)


class TopicProblem(DataProblem):
    """The potential; `bench tune` is scored on the words for validation."""

    task: TopicModel

    def part(self, name: str) -> Mapping[str, NDArray[Any]]:
        return self.valid("validation" if name == "test" and self.streams[0].holds_out else name)

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return grad U (C, D), some chains at a time, so that their numbers stay in the processor's cache.

        On a CPU in C++ (`lda.cpp`), over the terms that documents have, if there is a compiler; else over all terms.
        """
        import torch

        theta, task = theta.contiguous(), self.task
        code, scale = compiled(CODE) if theta.device.type == "cpu" else None, self.scale(batch)
        gradient, start = torch.empty_like(theta), 0
        for t, rows in self._portions(theta, batch):
            of, out = Positives(t), gradient[start : start + len(t)]
            start += len(t)
            if code is not None:
                self._gradient_by(code, of, rows, scale, out)
                continue
            torch.mul(task.likelihood_slopes(of, rows), -scale, out=out)
            for part, shape in zip(task.split(out), (task.beta, task.alpha), strict=True):
                part.sub_(shape - 1)
            out.mul_(of.rate).add_(of.slope, alpha=2).sub_(1)
        return gradient

    def _gradient_by(self, code: ctypes.CDLL, of: Positives, rows: Rows, scale: float, out: Tensor) -> None:
        """Write grad U (C, D) of some chains into `out`."""
        import torch

        task, width, index = self.task, rows.arrays["term"].shape[1], rows.index
        batch = self.terms if index is None else index.shape[1]
        groups = -(-task.topics * out.element_size() // 64)
        scratch = torch.empty(64 * (groups * (2 * task.vocabulary + 5) + task.topics), dtype=torch.uint8)
        sizes = len(out), task.documents, batch, task.topics, task.vocabulary, width
        numbers = scale, task.alpha, task.beta
        leaves = of.t, of.e, of.x, index if index is None else index.contiguous()
        leaves += *(rows.arrays[name] for name in ("document", "term", "times")), out, scratch
        (code.float64 if out.dtype == torch.float64 else code.float32)(
            *map(ctypes.c_long, sizes), *map(ctypes.c_double, numbers),
            *(ctypes.c_void_p(None if leaf is None else leaf.data_ptr()) for leaf in leaves),
        )  # fmt: skip

    @functools.cached_property
    def lengths(self) -> Tensor:
        """The number of words of each document that are for training, (N, 1)."""
        return self.arrays["count"][: self.terms].sum(1, keepdim=True)

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """The diagonal (C, D) of the inverse metric, and its divergence (C, D)."""
        import torch

        of = Positives(theta)
        log_x, log_y = self.task.split(of.log_x)
        phi, s = log_x.softmax(2), log_y.softmax(2)
        of_topics, seen = (self.lengths * s).sum(1)[:, :, None], self.batches * self.lengths
        expected = torch.cat([(of_topics * phi).flatten(1), (seen * s).flatten(1)], 1)
        changes = torch.cat([(of_topics * phi * (1 - phi)).flatten(1), (seen * s * (1 - s)).flatten(1)], 1)
        information = of.x + expected + self.task.shapes(theta)
        inverse = 1 / (of.rate.square() * information)
        return inverse, -inverse * (2 * (1 - of.slope - of.rate) + (of.slope + changes * of.rate) / information)


class Positives:
    """x = log(1 + exp(t)) of coordinates t, dx/dt = `slope`, and d log x / dt = `rate`; by functions that keep bits.

    x and the slope are exp(LEAST) where t is below `LEAST`, and there log x is t and its rate is 1, to all digits.
    """

    def __init__(self, t: Tensor) -> None:
        import torch

        self.t, self.e = t, t.clamp(LEAST, MOST).exp_()
        self.x = torch.maximum(self.e.log1p(), t)

    @functools.cached_property
    def log_x(self) -> Tensor:
        import torch

        return torch.minimum(self.x.log(), self.t)

    @functools.cached_property
    def slope(self) -> Tensor:
        return self.e / (1 + self.e)

    @functools.cached_property
    def rate(self) -> Tensor:
        return self.slope / self.x


@dataclass(frozen=True, kw_only=True)
class LdaReuters(TopicModel):
    """395 articles, 84,010 words of 4,258 terms: in each document 80 % to train on, 10 % for tuning, 10 % to test.

    Perplexity is that of the held-out words of the same documents ("document completion"). D = 46,530 with 10 topics.

    data_seed   of the permutation of each document's words, whose shares are those of `PARTS`
    """

    datasets: ClassVar = (reuters.REUTERS,)
    vocabulary: ClassVar = 4258
    documents: ClassVar = 395
    widest: ClassVar = 40.0
    dtype: ClassVar[str] = "float32"
    metrics: ClassVar = PERPLEXITY_METRICS
    protocols: ClassVar = (
        Protocol(
            "completion", "batches of 50 documents, the first half burn-in, every tenth draw; all of it is ours",
            {"smoke": 160, "quick": 4_000, "paper": 40_000}, burn_in=0.5, thin=10,
        ),
    )  # fmt: skip

    topics: int = param(10, "[2, 1000]", "K, topics", source="ours")  # type: ignore[misc]
    alpha: float = param(0.1, "(0, inf)", "of the shares of topics, s_d ~ Dirichlet(alpha)", source="the package lda")  # type: ignore[misc]
    beta: float = param(0.1, "(0, inf)", "of the topics, phi_k ~ Dirichlet(beta)", source="Griffiths and Steyvers 2004")  # type: ignore[misc]
    batch: int | None = param(50, "[1, inf)", "n, documents in a minibatch; none: all of them", source="ours")  # type: ignore[misc]
    data_seed: int = param(0, "[0, 4294967295]", "of the split of the words", source="ours")

    def tokens(self) -> tuple[Index, Index]:
        """Return the document and the term (T,) of each word, document by document."""
        return reuters.tokens(self.datasets[0])

    def words(self, part: str) -> tuple[Index, Index]:
        document, term = self.tokens()
        order = np.random.RandomState(self.data_seed).permutation(len(term))
        order = order[np.argsort(document[order], kind="stable")]  # documents in their order, their words permuted
        length = np.bincount(document)
        rank = np.arange(len(term)) - np.repeat(length.cumsum() - length, length)
        low, high = (np.floor(share * length + 0.5)[document] for share in PARTS[part])
        chosen = order[(rank >= low) & (rank < high)]
        return document[chosen], term[chosen]

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        return PerplexityObserver(problem, trajectory, cost)

    def for_laws(self) -> LdaReuters:
        return MadeArticles(topics=3, batch=5)


@dataclass(frozen=True, kw_only=True)
class MadeArticles(LdaReuters):
    """The same model of 16 made-up documents of 20 words, in float64."""

    datasets: ClassVar = ()
    vocabulary: ClassVar = 25
    documents: ClassVar = 16
    dtype: ClassVar[str] = "float64"

    def tokens(self) -> tuple[Index, Index]:
        rng = np.random.RandomState(0)
        return np.repeat(np.arange(self.documents), 20), np.minimum(rng.geometric(0.15, 320), self.vocabulary) - 1


@dataclass(frozen=True, kw_only=True)
class LdaSmall(JudgedByFunctions, TopicModel):
    """30 simulated documents of 30 words, 100 terms, 5 topics: D = 650, with a truth of functions of the topics.

    The words are drawn from the model, with alpha = 0.5 and topics from Dirichlet(0.1); the prior has beta = 0.5. The
    topics can be numbered in 120 ways, so the truth is of functions that do not depend on the numbers: the probability
    of the commonest term of the first 8 documents; sum_kw phi_kw^2 and the mean over documents of sum_k s_dk^2; and the
    log likelihood of all words. It is by collapsed Gibbs sampling (`tasks.latent.gibbs`).
    """

    vocabulary: ClassVar = 100
    documents: ClassVar = 30
    topics: ClassVar = 5
    alpha: ClassVar = 0.5
    beta: ClassVar = 0.5
    widest: ClassVar = 5.0
    record: ClassVar = Path(__file__).parent / "truth" / "lda-small.json"
    protocols: ClassVar = (
        Protocol(
            "batches", "batches of 10 documents, the first half burn-in; ours",
            {"smoke": 1_000, "quick": 40_000, "paper": 400_000}, burn_in=0.5,
        ),
    )  # fmt: skip

    batch: int | None = param(10, "[1, inf)", "n, documents in a minibatch; none: all of them", source="ours")  # type: ignore[misc]

    def words(self, part: str) -> tuple[Index, Index]:
        return simulated_words(self.documents, self.vocabulary, self.topics, self.alpha)

    @functools.cached_property
    def counted(self) -> Array:
        """How often each term occurs in each document, (N, V)."""
        return self.counts("train").astype(np.float64)

    def functions(self, theta: Tensor) -> Mapping[str, Tensor]:  # type: ignore[override]
        import torch

        counts = torch.from_numpy(self.counted).to(theta)
        log_x, log_y = self.split(Positives(theta).log_x)
        phi, s = log_x.softmax(2), log_y.softmax(2)
        p = s @ phi
        common = counts[:JUDGED].argmax(1)
        return {
            "probability": p[:, torch.arange(JUDGED), common],
            "topics": phi.square().sum((1, 2))[:, None],
            "shares": s.square().sum(2).mean(1)[:, None],
            "log_likelihood": (counts * p.log()).sum((1, 2))[:, None],
        }

    def function_truth(self) -> Truth | None:
        if self.stored_truth is not None or not self.record.exists():
            return self.stored_truth
        record = json.loads(self.record.read_text())
        return replace(
            Truth.of_record(record),
            how=f"collapsed Gibbs sampling, {record['chains']} chains of {record['draws']} draws: R-hat "
            f"{record['rhat']:.4f}, ESS {record['ess_z']:.0f} (z) and {record['ess_z2']:.0f} (z^2) or more along every "
            f"direction; {record['command']}",
        )

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        return FunctionObserver(self, chains.stop - chains.start, trajectory, cost)


JUDGED = 8
"""Documents whose commonest term is judged."""


def simulated_words(documents: int, vocabulary: int, topics: int, alpha: float) -> tuple[Index, Index]:
    """The document and the term of each word, 30 a document, drawn from topics of Dirichlet(0.1)."""
    rng = np.random.RandomState(0)
    phi, s = rng.dirichlet(np.full(vocabulary, 0.1), topics), rng.dirichlet(np.full(topics, alpha), documents)
    counts = np.array([rng.multinomial(30, p) for p in s @ phi])
    document, term = np.nonzero(counts)
    return np.repeat(document, counts[document, term]), np.repeat(term, counts[document, term])
