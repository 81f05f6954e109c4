"""Deep linear networks: the learning coefficient by other routes, the potential, and what a seed is."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from harness.contracts.randomness import Streams
from harness.contracts.task import Cost
from plugins.schedules.constant import Constant
from tasks.deep_linear.learning_coefficient import learning_coefficient
from tasks.deep_linear.task import BOX, DeepLinear1K, DeepLinear10K, DeepLinear100K, drawn

SMALL = DeepLinear1K().for_laws()
NAMES = {"dln-1k": DeepLinear1K(), "dln-10k": DeepLinear10K(), "dln-100k": DeepLinear100K()}
PATH = Constant(step_size=1.0).trajectory(5, 1)


def streams(seed, chain=0, name="dln-1k"):
    return Streams(seed, chain, (name,))


def reduced_rank(M, N, H, r):
    """M. Aoyagi, S. Watanabe, Neural Networks 18, 2005: M inputs, H hidden units, N outputs."""
    if N + r <= M + H and M + r <= N + H and H + r <= M + N:
        value = -((H + r) ** 2) - M**2 - N**2 + 2 * (H + r) * (M + N) + 2 * M * N
        return (value + (M + H + N + r) % 2) / 8
    if N + r > M + H:
        return (H * M - H * r + N * r) / 2
    if M + r > N + H:
        return (H * N - H * r + M * r) / 2
    return M * N / 2


def test_two_layers_have_the_coefficient_of_reduced_rank_regression():
    cases = [(M, H, N, r) for M, H, N in itertools.product(range(1, 13), repeat=3) for r in range(min(M, H, N) + 1)]
    assert len(cases) > 6000
    for M, H, N, r in cases:
        assert learning_coefficient((M, H, N), r) == pytest.approx(reduced_rank(M, N, H, r), abs=1e-12), (M, H, N, r)


def all_selections(M):
    """Every set S for which the conditions of the formula hold, as its sorted values."""
    for k in range(2, len(M) + 1):
        for chosen in itertools.combinations(range(len(M)), k):
            S, others = [M[i] for i in chosen], [m for i, m in enumerate(M) if i not in chosen]
            if sum(S) >= (k - 1) * max(S) and all(sum(S) < (k - 1) * m for m in others):
                yield tuple(sorted(S))


def of_selection(S, widths, r):
    l, s = len(S) - 1, sum(S)
    a = s - (math.ceil(s / l) - 1) * l
    rest = (r * (widths[0] + widths[-1]) - r * r) / 2 + a * (l - a) / (4 * l) - l * (l - 1) / 4 * (s / l) ** 2
    return rest + sum(x * y for x, y in itertools.combinations(S, 2)) / 2


def test_the_set_is_the_only_one_of_all_that_the_conditions_hold_for():
    rng = np.random.default_rng(0)
    for _ in range(300):
        widths = rng.integers(1, 30, rng.integers(3, 8)).tolist()
        r = int(rng.integers(0, min(widths) + 1))
        values = {of_selection(S, widths, r) for S in all_selections([H - r for H in widths])}
        assert len(values) == 1
        assert learning_coefficient(widths, r) == pytest.approx(values.pop(), abs=1e-9)


def exponents(log_z, at):
    """lambda and m of log Z = -lambda log t + (m - 1) log log t + constant, at three values of log t."""
    rows = np.array([[-x, math.log(x), 1.0] for x in at])
    coefficient, less_one, _ = np.linalg.solve(rows, [log_z(x) for x in at])
    return coefficient, less_one + 1


def log_z_of_one(H0, H2, log_t):
    """log E exp(-t |b a'|^2) for standard normal a in R^H0 and b in R^H2, by the trapezoid rule over log |b|^2."""
    u = np.linspace(-1.2 * log_t - 40, 8, 40_001)
    density = H2 / 2 * u - np.exp(u) / 2
    value = density - H0 / 2 * np.logaddexp(0, log_t + u)
    return np.log(np.exp(value - value.max()).sum() * (u[1] - u[0])) + value.max()


def log_z_of_two(H0, H2, log_t):
    """The same for two hidden units, over the logarithms of the eigenvalues of B'B, whose law is a Wishart's."""
    u = np.linspace(-1.2 * log_t - 25, 6, 1201)
    x, y = np.meshgrid(u, u)
    with np.errstate(divide="ignore"):
        apart = np.where(x == y, -np.inf, np.maximum(x, y) + np.log1p(-np.exp(-np.abs(x - y))))
    density = apart + (H2 - 1) / 2 * (x + y) - (np.exp(x) + np.exp(y)) / 2
    value = density - H0 / 2 * (np.logaddexp(0, log_t + x) + np.logaddexp(0, log_t + y))
    return np.log(np.exp(value - value.max()).sum() * (u[1] - u[0]) ** 2) + value.max()


@pytest.mark.parametrize(
    ("log_z", "widths", "multiplicity"),
    [
        (log_z_of_one, (2, 1, 3), 1), (log_z_of_one, (3, 1, 3), 2), (log_z_of_one, (5, 1, 2), 1),
        (log_z_of_two, (2, 2, 2), 1), (log_z_of_two, (3, 2, 2), 2), (log_z_of_two, (3, 2, 3), 1),
        (log_z_of_two, (6, 2, 3), 1), (log_z_of_two, (4, 2, 3), 2),
    ],
)  # fmt: skip
def test_integrals_of_small_networks_have_the_exponent(log_z, widths, multiplicity):
    """E exp(-t |B A|^2) over normal weights falls as t^-lambda (log t)^(m - 1): rank 0, no formula of ours."""
    coefficient, m = exponents(lambda x: log_z(widths[0], widths[2], x), (150.0, 250.0, 400.0))
    assert coefficient == pytest.approx(learning_coefficient(widths, 0), abs=0.01)
    assert m == pytest.approx(multiplicity, abs=0.2)


def test_known_cases():
    for layers in range(2, 8):
        assert learning_coefficient([1] * (layers + 1), 0) == 0.5  # a product of numbers
        assert learning_coefficient([4] * (layers + 1), 4) == 8  # regular in the product
    widths = (7, 12, 5, 9, 30)
    swapped = [learning_coefficient((7, *inner, 30), 3) for inner in itertools.permutations(widths[1:-1])]
    assert max(swapped) - min(swapped) < 1e-12


@pytest.mark.parametrize(("widths", "rank"), [((3, 4), 1), ((3, 2, 4), 3), ((3, 2, 4), -1)])
def test_other_networks_have_none(widths, rank):
    with pytest.raises(ValueError, match="two layers or more, and a rank of 0 to"):
        learning_coefficient(widths, rank)


@pytest.mark.parametrize("name", NAMES)
def test_networks_fit_theta_and_have_the_rank_of_their_product(name):
    task = NAMES[name]
    for seed in range(3):
        net = drawn(streams(seed, name=name), task)
        count = sum(a * b for a, b in itertools.pairwise(net.widths))
        assert 0.8 * task.dim() <= count <= task.dim()
        assert task.depths[0] <= len(net.weights) <= task.depths[1]
        assert task.widths[0] <= min(net.widths) <= max(net.widths) <= task.widths[1]
        values = [np.linalg.svd(weight, compute_uv=False) for weight in net.weights]
        product = np.linalg.svd(np.linalg.multi_dot(net.weights[::-1]), compute_uv=False)
        assert all(np.sum(each > 1e-9) == net.rank for each in [*values, product])
        assert all(0.8 - 1e-9 <= each[net.rank - 1] <= each[0] <= 1.25 + 1e-9 for each in values)


def hessian_norm(net, n):
    """The largest eigenvalue of the Hessian of U at w_0, with the covariance of the inputs, by power iteration."""
    below, above = [np.eye(net.widths[0])], [np.eye(net.widths[-1])]
    for lower, upper in zip(net.weights[:-1], net.weights[:0:-1], strict=True):
        below.append(lower @ below[-1])
        above.append(above[-1] @ upper)
    pairs = [(q @ q.T, p.T @ p) for p, q in zip(below, above[::-1], strict=True)]
    E, value = np.random.default_rng(0).normal(size=(net.widths[-1], net.widths[0])), 0.0
    for _ in range(60):
        E = sum(q @ E @ p for q, p in pairs)
        value = np.linalg.norm(E)
        E = E / value
    return 2 * n / math.log(n) * BOX**2 / 3 * value + 1


@pytest.mark.parametrize("name", ["dln-1k", "dln-10k"])
def test_the_first_step_size_fits_the_steepest_network(name):
    task = NAMES[name]
    steepest = max(hessian_norm(drawn(streams(seed, name=name), task), task.rows) for seed in range(10))
    assert steepest <= task.curvature() <= 1.1 * steepest


def test_the_potential_is_that_of_the_rows_and_the_gradient_that_of_the_potential():
    problem = SMALL.build([streams(3, chain) for chain in range(2)], "cpu")
    ((model, _),) = problem.runs
    theta = problem.initial() + 0.3 * torch.randn(2, 60, generator=torch.Generator().manual_seed(0)).double()
    theta.requires_grad_()
    x, net = model.x[:600], model.true
    true = x
    for weight in net.weights:
        true = true @ torch.from_numpy(weight).T
    energies, start = [], 0
    for row in theta:
        out, start = x, 0
        for weight in net.weights:
            out = out @ row[start : start + weight.size].view(weight.shape).T
            start += weight.size
        flat = torch.cat([torch.from_numpy(weight).flatten() for weight in net.weights])
        away = (row[:start] - flat).square().sum() + row[start:].square().sum()
        energies.append((out - true).square().sum(1).mean() * 600 / math.log(600) + away / 2)
    (gradient,) = torch.autograd.grad(sum(energies), theta)
    energy, by_hand = problem.energy_and_gradient(theta.detach(), None)
    assert torch.allclose(energy, torch.stack(energies).detach(), rtol=1e-11)
    assert torch.allclose(by_hand, gradient, rtol=1e-9, atol=1e-9 * gradient.abs().max())
    assert torch.allclose(model.losses(theta.detach()), energy - (theta.detach() - model.centre).square().sum(1) / 2)


def test_minibatches_average_to_the_whole():
    task = dataclasses.replace(SMALL, batch=70)
    problem = task.build([streams(1)], "cpu")
    theta = problem.initial() + 0.1
    batches = problem.draw_batches(task.steps_per_epoch())["index"]
    mean = torch.stack([problem.gradient(theta, {"index": index}) for index in batches]).mean(0)
    assert torch.allclose(mean, problem.gradient(theta, None), rtol=1e-10)


def test_a_chain_has_the_network_of_its_seed_and_its_own_bits_whoever_runs_beside_it():
    task = NAMES["dln-1k"]
    lone = task.build([streams(2, 1)], "cpu")
    all_of_them = task.build([streams(0), streams(2), streams(2, 1), streams(2, 2), streams(5)], "cpu")
    batch, batches = lone.draw_batches(1)["index"][0], all_of_them.draw_batches(1)["index"][0]
    assert torch.equal(batch[0], batches[2])
    theta = all_of_them.initial() + 0.01
    assert torch.equal(lone.initial() + 0.01, theta[2:3])
    for one, some in ((None, None), ({"index": batch}, {"index": batches})):
        assert torch.equal(lone.gradient(theta[2:3], one), all_of_them.gradient(theta, some)[2:3])
    assert len({len(model.true.widths) for model, _ in all_of_them.runs}) > 1


def test_the_metrics_are_of_the_mean_loss():
    problem = SMALL.build([streams(3, chain) for chain in range(2)], "cpu")
    ((model, _),) = problem.runs
    draws = problem.initial() + 0.1 * torch.randn(5, 2, 60, generator=torch.Generator().manual_seed(1)).double()
    observer = problem.observer(slice(0, 2), PATH, Cost(0.0, 1.0))
    assert observer.outcome().metrics == {}
    observer.observe(draws, torch.ones(5, 2), np.arange(5) + 1)
    outcome = observer.outcome()
    estimate = np.mean([model.losses(draw).numpy() for draw in draws])
    ratio = estimate / learning_coefficient(model.true.widths, model.true.rank)
    assert outcome.metrics["learning_coefficient_ratio"] == pytest.approx(ratio)
    assert outcome.metrics["learning_coefficient_error"] == pytest.approx(abs(ratio - 1))
    x, y = outcome.curves["learning_coefficient"]
    assert (x.tolist(), y.shape) == ([model.true.coefficient], (2, 1))
    assert y.mean() == pytest.approx(estimate)
    assert outcome.arrays["widths"].tolist() == list(model.true.widths)
    lost = problem.observer(slice(0, 2), PATH, Cost(0.0, 1.0))
    lost.observe(torch.full((1, 2, 60), math.nan), torch.ones(1, 2), np.array([1]))
    assert lost.outcome().metrics == {"learning_coefficient_error": None, "learning_coefficient_ratio": None}
