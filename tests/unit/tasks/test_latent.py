"""Topics of documents and factors of a matrix: densities, metrics, perplexity, and Gibbs sampling as another route."""

import functools
import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import dirichlet, gamma, multivariate_normal, norm

from harness.contracts.data import problem as missing
from harness.contracts.randomness import Streams
from harness.contracts.registry import load, registry
from harness.contracts.task import Cost
from harness.tasks import TUNING_SEED, Rows
from plugins.checking.law import trajectory
from plugins.samplers.hmc import HMC
from plugins.samplers.sgrld import SGRLD
from plugins.truths import reference
from tasks.datasets import reuters
from tasks.latent import bpmf, gibbs, lda
from tasks.latent.bpmf import BpmfSmall
from tasks.latent.lda import PARTS, LdaReuters, LdaSmall, MadeArticles, Positives
from tasks.regression.tiny.task import SIGMA, TinyNetwork

pytestmark = [pytest.mark.numbers, pytest.mark.usefixtures("one_thread")]

FEW = MadeArticles(topics=3, batch=5, alpha=0.3, beta=0.7)
needs_data = pytest.mark.skipif(missing(reuters.REUTERS) is not None, reason="reuters is not under BENCH_DATA")


def points(task, chains=3, seed=0):
    built = task.build([Streams(seed, chain) for chain in range(chains)], "cpu")
    return built, built.initial()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_positives_are_softplus_to_all_digits(dtype):
    t = (torch.arange(-3840, 1921, dtype=torch.float64) / 32).requires_grad_()
    x = torch.nn.functional.softplus(t, threshold=1e9)
    log_x = torch.where(t < -40, t, x.log())
    (slope,), (rate,) = torch.autograd.grad(x.sum(), t, retain_graph=True), torch.autograd.grad(log_x.sum(), t)
    of, digits = Positives(t.detach().to(dtype)), 20 * torch.finfo(dtype).eps
    for ours, theirs in ((of.x, x), (of.log_x, log_x), (of.slope, slope), (of.rate, rate)):
        of_zero = digits if theirs is log_x else 1e-37  # x may be 1
        torch.testing.assert_close(ours, theirs.detach().to(dtype), rtol=digits, atol=of_zero)


@pytest.mark.parametrize("task", [FEW, LdaSmall()])
def test_the_prior_is_that_of_dirichlet_topics_and_shares(task):
    """p(t) dt = Dirichlet(phi) Gamma(sum) d(phi, sum), for each topic and each document."""
    theta = points(task)[1]
    of, expected = Positives(theta), np.zeros(len(theta))
    for x, slope, a in zip(task.split(of.x), task.split(of.slope), (task.beta, task.alpha), strict=True):
        for chain, row in np.ndindex(x.shape[:2]):
            each = x[chain, row].numpy()
            total, n = each.sum(), len(each)
            log_p = dirichlet.logpdf(each / total, np.full(n, a)) + gamma.logpdf(total, n * a)
            # |d x / d(phi_1 ... phi_{n-1}, sum)| = sum^(n - 1)
            expected[chain] += log_p - (n - 1) * math.log(total) + np.log(slope[chain, row].numpy()).sum()
    log_prior = task.log_prior(theta).numpy()
    np.testing.assert_allclose(np.diff(log_prior), np.diff(expected), rtol=1e-9)


def test_the_likelihood_is_that_of_words_from_a_mixture_of_topics():
    built, theta = points(FEW)
    x, y = (part.numpy() for part in FEW.split(Positives(theta).x))
    phi, s = x / x.sum(2, keepdims=True), y / y.sum(2, keepdims=True)
    expected = np.zeros(len(theta))
    for d, w in zip(*FEW.words("train"), strict=True):
        expected += np.log((s[:, d] * phi[:, :, w]).sum(1))
    each = FEW.log_likelihood(theta, Rows(built.arrays, None))
    np.testing.assert_allclose(each.sum(1), expected, rtol=1e-12)


class Single(MadeArticles):
    dtype = "float32"


ARTICLES = [FEW, LdaSmall(), MadeArticles(topics=20, batch=None), Single(topics=3, batch=5)]


@pytest.mark.skipif(lda.compiled(lda.CODE) is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("task", ARTICLES, ids=lambda task: f"{type(task).__name__}-{task.topics}")
def test_the_gradient_in_cpp_is_that_of_torch_and_of_each_chain_alone(task, monkeypatch):
    built, theta = points(task, chains=6)
    theta[1], theta[2] = -800, 800
    theta[3], theta[4, ::2] = 5 * theta[3], -30
    theta[5, 0] = math.nan
    batch = {name: leaf[0] for name, leaf in built.draw_batches(1).items()}
    gradient = built.gradient(theta, batch)
    for chain in range(len(theta)):
        here = slice(chain, chain + 1)
        alone = built.gradient(theta[here], {name: leaf[here] for name, leaf in batch.items()})
        assert torch.equal(alone.nan_to_num(), gradient[here].nan_to_num())
    monkeypatch.setattr(lda, "compiled", lambda _: None)
    digits = 500 * torch.finfo(gradient.dtype).eps
    torch.testing.assert_close(gradient[:5], built.gradient(theta, batch)[:5], rtol=digits, atol=20 * digits)
    assert gradient[5].isnan().any()
    assert gradient[:5].isfinite().all()


@pytest.mark.parametrize("task", [BpmfSmall(), TinyNetwork()])
def test_the_density_of_a_regression_is_normal(task):
    built, theta = points(task)
    rows = task.arrays("train")
    f = task.predicted(theta, torch.from_numpy(rows["x"])[None])[0].numpy()
    if isinstance(task, BpmfSmall):
        factors = theta.view(-1, bpmf.USERS + bpmf.ITEMS, bpmf.RANK).numpy()
        by_hand = [(factors[:, i] * factors[:, bpmf.USERS + j]).sum(1) for i, j in rows["x"]]
        np.testing.assert_allclose(f.T, by_hand, rtol=1e-12)
    sigma = bpmf.SIGMA if isinstance(task, BpmfSmall) else SIGMA
    log_p = norm.logpdf(rows["y"], f, sigma).sum(1) + norm.logpdf(theta.numpy()).sum(1)
    np.testing.assert_allclose(np.diff(built.energy(theta, None)), -np.diff(log_p), rtol=1e-9)


OF_METRIC = [
    offer.name for offer in registry().offers("tasks") if "metric" in load(offer.info.target).provides
]  # fmt: skip


@pytest.mark.parametrize("name", OF_METRIC)
def test_a_metric_is_positive_and_gamma_is_its_divergence(name):
    assert {"blr-heart", "lda-reuters", "lda-small"} <= {*OF_METRIC}
    task = load(registry().find("tasks", name).info.target)().for_laws()
    if any(missing(file) for file in task.datasets):
        pytest.skip(f"the data of {name} are not under BENCH_DATA")
    built, theta = points(task, chains=2)
    inverse, divergence = built.metric(theta)
    diagonal = inverse if inverse.ndim == 2 else inverse.diagonal(dim1=1, dim2=2)
    assert (diagonal > 0).all()
    for i in torch.linspace(0, task.dim() - 1, 12).long().tolist():
        width = 1e-5 * torch.eye(task.dim(), dtype=theta.dtype)[i]
        ahead, behind = (built.metric(theta + sign * width)[0] for sign in (1, -1))
        change = (ahead - behind) / 2e-5
        if inverse.ndim == 2:  # D_ii alone has a part in Gamma_i
            torch.testing.assert_close(change[:, i], divergence[:, i], rtol=1e-5, atol=1e-8)
        else:
            assert change.abs().max() < 1e-6  # a constant metric
            assert (divergence == 0).all()


def test_a_step_of_sgrld_is_the_same_with_a_metric_or_its_diagonal():
    built, theta = points(FEW)
    h, T = torch.tensor(0.1), torch.tensor(1.5)

    class Given:
        def __init__(self, dense):
            self.dense = dense

        def grad(self, x):
            return built.gradient(x, None)

        def metric(self, x):
            inverse, divergence = built.metric(x)
            return torch.diag_embed(inverse) if self.dense else inverse, divergence

    class Noise:
        def normal(self, like):
            return torch.randn(like.shape, generator=torch.Generator().manual_seed(1), dtype=like.dtype)

    ends = [SGRLD().step(theta, {}, Given(dense), h, T, Noise())[0] for dense in (True, False)]
    torch.testing.assert_close(*ends, rtol=1e-12, atol=0)


@pytest.mark.parametrize("task", [LdaSmall(batch=None), BpmfSmall(batch=None), TinyNetwork(batch=None)])
def test_the_curvature_is_about_that_of_a_mode(task):
    built, theta = points(task, chains=2)
    theta = theta.requires_grad_()
    adam = torch.optim.Adam([theta], lr=0.05)
    for _ in range(1000):
        theta.grad = built.gradient(theta.detach(), None)
        adam.step()
    theta = theta.detach()
    v = torch.randn(theta.shape, generator=torch.Generator().manual_seed(0), dtype=theta.dtype)
    for _ in range(60):
        v = v / v.norm(dim=1, keepdim=True)
        ahead, behind = (built.gradient(theta + sign * 1e-4 * v, None) for sign in (1, -1))
        v = (ahead - behind) / 2e-4
    largest = float(v.norm(dim=1).max())
    assert largest < 1.3 * task.curvature() < 8 * largest


def observed(task, draws, weights, seed=0):
    chains = draws.shape[1]
    built = task.build([Streams(seed, chain) for chain in range(chains)], "cpu")
    observer = built.observer(slice(0, chains), trajectory([0.1] * len(draws), 1.0), Cost(0.0, 1.0))
    observer.observe(draws, weights, np.arange(len(draws)) + 1)
    return observer.outcome()


def test_perplexity_is_that_of_the_mean_of_probabilities_and_of_uniform_topics_the_number_of_terms():
    draws = torch.stack([points(FEW, seed=seed)[1] for seed in range(5)])
    weights = torch.rand(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x, y = (part.numpy() for part in FEW.split(Positives(draws.flatten(0, 1)).x))
    p = (y / y.sum(2, keepdims=True)) @ (x / x.sum(2, keepdims=True))
    share = (weights / weights.sum()).flatten().numpy()
    counts = FEW.counts("test")
    expected = np.exp(-(counts * np.log(np.einsum("s,sdw->dw", share, p))).sum() / counts.sum())
    single = np.exp(-np.einsum("s,sdw,dw->", share, np.log(p), counts) / counts.sum())
    outcome = observed(FEW, draws, weights)
    assert outcome.metrics == pytest.approx({"perplexity": expected, "single_perplexity": single})
    assert outcome.curves["perplexity"][1][0, -1] == pytest.approx(expected)
    assert expected < single  # Jensen
    uniform = observed(FEW, 0 * draws, weights).metrics
    assert uniform["perplexity"] == pytest.approx(FEW.vocabulary)
    tuned = observed(FEW, draws, weights, seed=TUNING_SEED).metrics["perplexity"]
    assert tuned != outcome.metrics["perplexity"]  # that of other words


def words_of(task):
    parts = {part: task.counts(part) for part in PARTS}
    total = sum(parts.values())
    for name, (low, high) in PARTS.items():
        size = parts[name].sum(1)
        assert (np.abs(size - (high - low) * total.sum(1)) <= 1).all()
    return total, parts


def test_the_words_of_a_document_are_cut_into_parts():
    total, parts = words_of(FEW)
    _, term = FEW.tokens()
    assert (total.sum(1) == 20).all()
    np.testing.assert_array_equal(total.sum(0), np.bincount(term, minlength=FEW.vocabulary))
    other = MadeArticles(topics=3, batch=5, data_seed=1)
    assert (other.counts("train") != parts["train"]).any()


@needs_data
def test_reuters_has_its_words():
    task = LdaReuters()
    total, parts = words_of(task)
    assert (total.shape, total.sum(), total.sum(1).max(), (total > 0).sum(1).max()) == ((395, 4258), 84_010, 541, 315)
    assert {name: part.sum() for name, part in parts.items()} == {"train": 67_215, "validation": 8_404, "test": 8_391}
    assert (total[0, :3].tolist(), total[0, 12]) == ([1, 0, 1], 5)
    assert (task.dim(), task.terms()) == (46_530, 395)


def test_collapsed_gibbs_sampling_has_the_law_of_all_assignments():
    """Three words in two documents and two topics: sum_kw phi_kw^2 averaged over the 2^5 assignments of topics."""

    class Three(LdaSmall):
        vocabulary, documents, topics, alpha, beta = 3, 2, 2, 0.7, 0.4

        def words(self, part):
            return np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 2])

    task = Three(batch=None)
    document, term = task.words("train")
    weights, values = [], []
    for z in itertools.product(range(2), repeat=5):
        by_document, by_term = np.zeros((2, 2)), np.zeros((2, 3))
        np.add.at(by_document, (document, list(z)), 1)
        np.add.at(by_term, (list(z), term), 1)
        log_p = sum(math.lgamma(n + 0.7) for n in by_document.ravel())
        log_p += sum(math.lgamma(n + 0.4) for n in by_term.ravel())
        weights.append(math.exp(log_p - sum(math.lgamma(n + 1.2) for n in by_term.sum(1))))
        a = by_term + 0.4
        values.append((a * (a + 1)).sum(1) @ (1 / (a.sum(1) * (a.sum(1) + 1))))
    exact = np.average(values, weights=weights)
    drawn = [
        (np.log1p(np.exp(theta[:, :6].reshape(-1, 2, 3))), theta) for theta in gibbs.topics(
            task, 400, 60, np.random.default_rng(0)
        )
    ][10:]  # fmt: skip
    of_chain = np.mean([((x / x.sum(2, keepdims=True)) ** 2).sum((1, 2)) for x, _ in drawn], axis=0)
    assert abs(of_chain.mean() - exact) < 4.5 * of_chain.std() / math.sqrt(len(of_chain))


def test_gibbs_sampling_of_factors_draws_from_the_conditional_normal():
    rng = np.random.default_rng(0)
    v, y, seen = rng.standard_normal((1, 4, 2)), rng.standard_normal((3, 4)), rng.random((3, 4)) < 0.6
    many = np.repeat(v, 20_000, axis=0)
    u = gibbs._conditional(many, y, seen.astype(float), rng)
    for i in range(3):
        columns = v[0, seen[i]]
        covariance = np.linalg.inv(np.eye(2) + columns.T @ columns / bpmf.SIGMA**2)
        exact = multivariate_normal(covariance @ columns.T @ y[i, seen[i]] / bpmf.SIGMA**2, covariance)
        z = np.linalg.solve(np.linalg.cholesky(covariance), (u[:, i] - exact.mean).T)
        assert np.abs(z.mean(1)).max() < 4.5 / math.sqrt(20_000)
        assert np.abs(np.cov(z) - np.eye(2)).max() < 6 / math.sqrt(20_000)


CHAINS = 64


@functools.cache
def drawn(name):
    """A task and draws (n, C, D) of its posterior after a burn-in, by Gibbs sampling with a seed of its own."""
    task, sampler, burn_in = {
        "lda-small": (LdaSmall(), gibbs.topics, 120), "bpmf-small": (BpmfSmall(), gibbs.factors, 100),
    }[name]  # fmt: skip
    every = itertools.islice(sampler(task, CHAINS, burn_in + 20, np.random.default_rng(1)), burn_in, None)
    return task, torch.from_numpy(np.stack([*every]))


def errors(of_chain, exact):
    """Return how far the means of chains (C, K) are off, in standard errors between them."""
    return (of_chain.mean(0) - exact) / (of_chain.std(0) / math.sqrt(CHAINS))


@pytest.mark.parametrize("name", gibbs.RECORDS)
def test_the_record_agrees_with_a_short_rerun(name):
    task, thetas = drawn(name)
    known = task.function_reference()
    f = torch.stack([(task.judged if name == "lda-small" else task.functions)(theta) for theta in thetas])
    z = (f - torch.from_numpy(known.mean)) / torch.from_numpy(known.sd)
    off = torch.stack([errors(z.mean(0), 0), errors(z.square().mean(0), 1)])
    assert off.abs().max() < 5
    assert off.square().mean() < 3
    assert errors((z + 0.5).mean(0), 0).abs().max() > 5  # a wrong record fails


@pytest.mark.parametrize("name", gibbs.RECORDS)
def test_draws_of_gibbs_sampling_have_the_gradient_that_u_has(name):
    """If draws are from exp(-U), the mean of dU/dt is 0 and that of t dU/dt is 1, in each coordinate (Stein)."""
    task, thetas = drawn(name)
    built = task.build([Streams(0, chain) for chain in range(CHAINS)], "cpu")
    slopes = torch.stack([built.gradient(theta, None) for theta in thetas])
    for values, exact in ((slopes, 0), (thetas * slopes, 1)):
        off = errors(values.mean(0), exact)
        assert off.abs().max() < 6
        assert off.square().mean() < 1.5
    assert errors((1.3 * thetas * slopes).mean(0), 1).square().mean() > 1.5  # a wrong temperature fails


def test_hmc_leaves_the_law_of_gibbs_sampling_as_it_is():
    """From draws of the posterior, whatever the topics' numbers, HMC moves to others of the same law."""
    task, thetas = drawn("lda-small")
    started = reference.on_all_data(task, thetas[-1])
    draws = reference.hmc_draws(started, HMC(leapfrog=10, jitter=0.5), 0.04, chains=CHAINS, burn_in=0, draws=40)
    assert (torch.from_numpy(draws[-1]) != thetas[-1]).any(1).all()
    off = errors(task.judged(torch.from_numpy(draws[-1])), torch.from_numpy(task.function_truth().mean))
    assert off.abs().max() < 4.5


def test_the_record_of_the_network_agrees_with_a_short_run_of_hmc():
    task = TinyNetwork()
    known = task.function_reference()
    assert known.kind == "truth"
    adam, steps = reference.instance("plugins.samplers.adam:Adam", {}), 500
    optima = reference.hmc_draws(reference.on_all_data(task), adam, 1e-2, chains=16, burn_in=steps - 1, draws=1)
    started = reference.on_all_data(task, torch.from_numpy(optima[-1]))
    hmc = HMC(leapfrog=40, jitter=0.5, acceptance=0.8)
    draws = reference.hmc_draws(started, hmc, reference.FIRST_STEP, chains=16, burn_in=100, draws=100)
    f = np.stack([task.functions(torch.from_numpy(theta)).numpy() for theta in draws])
    error = f.mean(0).std(0, ddof=1) / math.sqrt(16)
    off = (f.mean((0, 1)) - known.mean) / np.hypot(error, known.mean_error)
    assert np.abs(off).max() < 5


def test_the_probabilities_of_words_are_those_of_all_terms_at_the_words():
    theta = torch.randn(3, FEW.dim(), generator=torch.Generator().manual_seed(0))
    document = torch.tensor([4, 0, 7])
    row, term = torch.tensor([0, 0, 2, 1, 2]), torch.tensor([3, 0, 5, 3, 1])
    of_all = FEW.probabilities(theta, document[None])
    torch.testing.assert_close(FEW.word_probabilities(theta, document, row, term), of_all[:, row, term])
